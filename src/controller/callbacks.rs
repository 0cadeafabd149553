//! Callbacks: what a program that embeds the controller, or `--notify`, hears of a run. They watch, and never stand in
//! the way: each is called in a task of its own, in order, with a limit; what fails there is contained by the rules of
//! [`Callback`].

use std::{error::Error, panic::AssertUnwindSafe, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tracing::warn;

use super::options::TrainResult;
use crate::{
    base::{RunId, Tasks},
    model::{Checkpoint, ControllerState, FirstFailure, StopReport, ledger::Bundle, verbs::NewWorker},
};

/// No call takes longer.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// So many calls may wait; more than that and a callback is so slow that it fails.
const WAITING: usize = 1024;

/// Why a call failed.
pub type CallbackError = Box<dyn Error + Send + Sync>;
/// The outcome of one call.
pub type Called = Result<(), CallbackError>;

/// What a rank reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// Ordinal of the attempt.
    pub attempt: u32,
    /// World rank.
    pub rank: u32,
    /// Step.
    pub step: u64,
    /// Values by key.
    pub metrics: Vec<(String, f64)>,
}

/// The run that a callback is told about.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The run.
    pub run_id: RunId,
    /// Its name.
    pub run_name: String,
    /// Its experiment.
    pub experiment: Option<String>,
    /// Where it keeps its files.
    pub storage_path: PathBuf,
}

/// What watches a run. Every hook may be left out.
///
/// What fails while a group is started or runs ends the attempt and is charged to the controller's budget, as
/// `callback_failed`; what fails when the run is ending, or takes longer than 30 s then, is logged and changes nothing.
/// The first error of a run is never replaced by one of a callback.
#[async_trait]
#[expect(unused_variables, reason = "hooks that do nothing by default")]
pub trait Callback: Send + Sync + std::fmt::Debug {
    /// The controller has begun.
    async fn after_controller_start(&self, run: &RunContext) -> Called {
        Ok(())
    }
    /// A place is about to be looked for: the nodes that workers may be placed on, if that is to be decided here. Asked
    /// for runs that reserve resources; the first callback that has an answer decides.
    async fn on_start_worker_group(&self, run: &RunContext) -> Result<Option<Vec<String>>, CallbackError> {
        Ok(None)
    }
    /// A group is about to be started. It is not before this returns.
    async fn before_worker_group_start(&self, run: &RunContext, attempt: u32, placed: &[Bundle]) -> Called {
        Ok(())
    }
    /// A group was asked for.
    async fn after_worker_group_start(&self, run: &RunContext, attempt: u32) -> Called {
        Ok(())
    }
    /// All of its ranks run.
    async fn after_worker_group_training_start(
        &self,
        run: &RunContext,
        attempt: u32,
        workers: &[NewWorker],
    ) -> Called {
        Ok(())
    }
    /// Once a second while a group is there: which ranks run.
    async fn after_worker_group_poll(&self, run: &RunContext, attempt: u32, alive: &[u32]) -> Called {
        Ok(())
    }
    /// A group is about to be ended.
    async fn before_worker_group_shutdown(&self, run: &RunContext, attempt: u32) -> Called {
        Ok(())
    }
    /// Nothing of a group is left but what the report says.
    async fn after_worker_group_shutdown(
        &self,
        run: &RunContext,
        attempt: u32,
        report: &StopReport,
    ) -> Called {
        Ok(())
    }
    /// A group is about to be ended by force.
    async fn before_worker_group_abort(&self, run: &RunContext, attempt: u32) -> Called {
        Ok(())
    }
    /// That was asked for.
    async fn after_worker_group_abort(&self, run: &RunContext, attempt: u32) -> Called {
        Ok(())
    }
    /// The controller's state changed.
    async fn after_state_update(
        &self,
        run: &RunContext,
        previous: ControllerState,
        next: ControllerState,
        detail: Option<&str>,
    ) -> Called {
        Ok(())
    }
    /// Something failed, and what follows is being decided.
    async fn before_failure_decision(&self, run: &RunContext, failure: &FirstFailure) -> Called {
        Ok(())
    }
    /// The group is going to be resized.
    async fn before_resize_decision(&self, run: &RunContext, from: u32, to: u32) -> Called {
        Ok(())
    }
    /// No rank has made a step for ten of its median step intervals; or one has again.
    async fn after_stall_change(&self, run: &RunContext, stalled: bool) -> Called {
        Ok(())
    }
    /// A rank reported. Left out for callbacks that are behind: they never slow training down.
    async fn after_report(&self, run: &RunContext, report: &Reported) -> Called {
        Ok(())
    }
    /// A checkpoint is whole.
    async fn after_checkpoint_commit(&self, run: &RunContext, checkpoint: &Checkpoint) -> Called {
        Ok(())
    }
    /// Somebody wants the run to end by force, at once. Best effort.
    async fn before_controller_abort(&self, run: &RunContext) -> Called {
        Ok(())
    }
    /// The run is ending.
    async fn before_controller_shutdown(&self, run: &RunContext) -> Called {
        Ok(())
    }
    /// The run has ended.
    async fn after_controller_finish(&self, run: &RunContext, result: &TrainResult) -> Called {
        Ok(())
    }
}

/// One call of a hook.
#[derive(Debug)]
pub(super) enum Hook {
    ControllerStart,
    BeforeGroupStart(u32, Vec<Bundle>),
    GroupStart(u32),
    TrainingStart(u32, Vec<NewWorker>),
    Poll(u32, Vec<u32>),
    BeforeShutdown(u32),
    Shutdown(u32, StopReport),
    BeforeAbort(u32),
    Abort(u32),
    StateUpdate(ControllerState, ControllerState, Option<String>),
    Failure(Box<FirstFailure>),
    Resize(u32, u32),
    Stall(bool),
    Report(Reported),
    CheckpointCommit(Box<Checkpoint>),
    BeforeControllerAbort,
    BeforeControllerShutdown,
    Finish(Box<TrainResult>),
}

impl Hook {
    async fn call(&self, callback: &dyn Callback, run: &RunContext) -> Called {
        match self {
            Self::ControllerStart => callback.after_controller_start(run).await,
            Self::BeforeGroupStart(a, placed) => callback.before_worker_group_start(run, *a, placed).await,
            Self::GroupStart(a) => callback.after_worker_group_start(run, *a).await,
            Self::TrainingStart(a, workers) => {
                callback.after_worker_group_training_start(run, *a, workers).await
            }
            Self::Poll(a, alive) => callback.after_worker_group_poll(run, *a, alive).await,
            Self::BeforeShutdown(a) => callback.before_worker_group_shutdown(run, *a).await,
            Self::Shutdown(a, report) => callback.after_worker_group_shutdown(run, *a, report).await,
            Self::BeforeAbort(a) => callback.before_worker_group_abort(run, *a).await,
            Self::Abort(a) => callback.after_worker_group_abort(run, *a).await,
            Self::StateUpdate(previous, next, detail) => {
                callback.after_state_update(run, *previous, *next, detail.as_deref()).await
            }
            Self::Failure(failure) => callback.before_failure_decision(run, failure).await,
            Self::Resize(from, to) => callback.before_resize_decision(run, *from, *to).await,
            Self::Stall(stalled) => callback.after_stall_change(run, *stalled).await,
            Self::Report(report) => callback.after_report(run, report).await,
            Self::CheckpointCommit(checkpoint) => callback.after_checkpoint_commit(run, checkpoint).await,
            Self::BeforeControllerAbort => callback.before_controller_abort(run).await,
            Self::BeforeControllerShutdown => callback.before_controller_shutdown(run).await,
            Self::Finish(result) => callback.after_controller_finish(run, result).await,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::ControllerStart => "after_controller_start",
            Self::BeforeGroupStart(..) => "before_worker_group_start",
            Self::GroupStart(_) => "after_worker_group_start",
            Self::TrainingStart(..) => "after_worker_group_training_start",
            Self::Poll(..) => "after_worker_group_poll",
            Self::BeforeShutdown(_) => "before_worker_group_shutdown",
            Self::Shutdown(..) => "after_worker_group_shutdown",
            Self::BeforeAbort(_) => "before_worker_group_abort",
            Self::Abort(_) => "after_worker_group_abort",
            Self::StateUpdate(..) => "after_state_update",
            Self::Failure(_) => "before_failure_decision",
            Self::Resize(..) => "before_resize_decision",
            Self::Stall(_) => "after_stall_change",
            Self::Report(_) => "after_report",
            Self::CheckpointCommit(_) => "after_checkpoint_commit",
            Self::BeforeControllerAbort => "before_controller_abort",
            Self::BeforeControllerShutdown => "before_controller_shutdown",
            Self::Finish(_) => "after_controller_finish",
        }
    }
}

enum Call {
    /// One hook of all; with who hears when it has been called, whatever came of it.
    Hook(Hook, Option<oneshot::Sender<()>>),
    /// The one hook that is asked something.
    Choose(oneshot::Sender<Option<Vec<String>>>),
}

/// The way to the callbacks for what comes often and may be left out.
#[derive(Clone, Debug)]
pub(super) struct ReportHook(mpsc::Sender<Call>);

impl ReportHook {
    pub(super) fn call(&self, report: Reported) {
        // Half of the room is for what must not be left out.
        if self.0.capacity() > WAITING / 2 {
            let _ = self.0.try_send(Call::Hook(Hook::Report(report), None));
        }
    }
}

/// The callbacks of one controller.
pub(super) struct Callbacks {
    calls: Option<mpsc::Sender<Call>>,
    failures: mpsc::Receiver<String>,
    /// Kept here too, for what is too slow to be called.
    tell: mpsc::Sender<String>,
}

impl Callbacks {
    pub(super) fn start(all: Vec<Arc<dyn Callback>>, run: RunContext, tasks: &Tasks) -> Self {
        let (tell, failures) = mpsc::channel(1);
        if all.is_empty() {
            return Self { calls: None, failures, tell };
        }
        let (calls, mut waiting) = mpsc::channel::<Call>(WAITING);
        let (stop, failed) = (tasks.stopping(), tell.clone());
        let calling = async move {
            while let Some(call) = waiting.recv().await {
                let said = match call {
                    Call::Hook(hook, done) => {
                        let said = call_all(&hook, &all, &run).await;
                        // Nobody may wait for it any more.
                        let _ = done.map(|done| done.send(()));
                        said
                    }
                    Call::Choose(chosen) => {
                        let (nodes, said) = choose(&all, &run).await;
                        let _ = chosen.send(nodes);
                        said
                    }
                };
                for message in said {
                    warn!("{message}");
                    // One failure is enough to decide on; the controller has not taken the last one yet.
                    let _ = failed.try_send(message);
                }
            }
        };
        drop(tasks.spawn(async move {
            tokio::select! {
                () = calling => {}
                // One that is too slow to hear of the end is left in the middle of it.
                () = stop.cancelled() => {}
            }
        }));
        Self { calls: Some(calls), failures, tell }
    }

    /// Has a hook called, some time.
    pub(super) fn call(&self, hook: Hook) {
        self.send(hook, None);
    }

    /// Has a hook called and says when that is done; none if there is nothing to wait for.
    pub(super) fn gate(&self, hook: Hook) -> Option<oneshot::Receiver<()>> {
        self.calls.as_ref()?;
        let (done, called) = oneshot::channel();
        self.send(hook, Some(done));
        Some(called)
    }

    /// A callback failed. Waits for ever if none does. Cancel-safe.
    pub(super) async fn failure(&mut self) -> String {
        match self.failures.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    /// Asks for the nodes that workers may be placed on; none if there is nobody to ask.
    pub(super) fn choose(&self) -> Option<oneshot::Receiver<Option<Vec<String>>>> {
        let (chosen, answer) = oneshot::channel();
        self.calls.as_ref()?.try_send(Call::Choose(chosen)).ok()?;
        Some(answer)
    }

    /// The way for reports; none if nobody listens.
    pub(super) fn reports(&self) -> Option<ReportHook> {
        self.calls.clone().map(ReportHook)
    }

    fn send(&self, hook: Hook, done: Option<oneshot::Sender<()>>) {
        let (Some(calls), name) = (&self.calls, hook.name()) else { return };
        if let Err(mpsc::error::TrySendError::Full(_)) = calls.try_send(Call::Hook(hook, done)) {
            let message = format!("callbacks are {WAITING} calls behind; {name} is left out");
            let _ = self.tell.try_send(message);
        }
    }
}

async fn call_all(hook: &Hook, all: &[Arc<dyn Callback>], run: &RunContext) -> Vec<String> {
    let mut said = Vec::new();
    for callback in all {
        said.extend(contained(hook.name(), hook.call(callback.as_ref(), run)).await.err());
    }
    said
}

async fn choose(all: &[Arc<dyn Callback>], run: &RunContext) -> (Option<Vec<String>>, Vec<String>) {
    let mut said = Vec::new();
    for callback in all {
        match contained("on_start_worker_group", callback.on_start_worker_group(run)).await {
            Ok(None) => {}
            Ok(nodes) => return (nodes, said),
            Err(message) => said.push(message),
        }
    }
    (None, said)
}

/// One call within its limit; what went wrong in words, also if it panicked.
async fn contained<T>(name: &str, call: impl Future<Output = Result<T, CallbackError>>) -> Result<T, String> {
    match timeout(CALL_LIMIT, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(e))) => Err(format!("the callback {name} failed: {e}")),
        Ok(Err(_)) => Err(format!("the callback {name} panicked")),
        Err(_) => Err(format!("the callback {name} took longer than {} s", CALL_LIMIT.as_secs())),
    }
}
