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
    model::{ControllerState, FirstFailure, StopReport, ledger::Bundle, verbs::NewWorker},
};

/// No call takes longer.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// So many calls may wait; more than that and a callback is so slow that it fails.
const WAITING: usize = 1024;

/// The outcome of one call.
pub type Called = Result<(), Box<dyn Error + Send + Sync>>;

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
            Self::BeforeControllerShutdown => "before_controller_shutdown",
            Self::Finish(_) => "after_controller_finish",
        }
    }
}

struct Call {
    hook: Hook,
    /// Hears when it has been called everywhere, whatever came of it.
    done: Option<oneshot::Sender<()>>,
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
            while let Some(Call { hook, done }) = waiting.recv().await {
                for callback in &all {
                    if let Some(message) = call_one(&hook, callback.as_ref(), &run).await {
                        warn!("{message}");
                        // One failure is enough to decide on; the controller has not taken the last one yet.
                        let _ = failed.try_send(message);
                    }
                }
                // Nobody may wait for it any more.
                let _ = done.map(|done| done.send(()));
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
        self.send(Call { hook, done: None });
    }

    /// Has a hook called and says when that is done; none if there is nothing to wait for.
    pub(super) fn gate(&self, hook: Hook) -> Option<oneshot::Receiver<()>> {
        self.calls.as_ref()?;
        let (done, called) = oneshot::channel();
        self.send(Call { hook, done: Some(done) });
        Some(called)
    }

    /// A callback failed. Waits for ever if none does. Cancel-safe.
    pub(super) async fn failure(&mut self) -> String {
        match self.failures.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    fn send(&self, call: Call) {
        if let Some(calls) = &self.calls
            && let Err(mpsc::error::TrySendError::Full(call)) = calls.try_send(call)
        {
            let message = format!("callbacks are {WAITING} calls behind; {} is left out", call.hook.name());
            let _ = self.tell.try_send(message);
        }
    }
}

/// Calls one hook of one callback; what went wrong, if anything did.
async fn call_one(hook: &Hook, callback: &dyn Callback, run: &RunContext) -> Option<String> {
    let name = hook.name();
    match timeout(CALL_LIMIT, AssertUnwindSafe(hook.call(callback, run)).catch_unwind()).await {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(e))) => Some(format!("the callback {name} failed: {e}")),
        Ok(Err(_)) => Some(format!("the callback {name} panicked")),
        Err(_) => Some(format!("the callback {name} took longer than {} s", CALL_LIMIT.as_secs())),
    }
}
