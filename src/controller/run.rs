//! The loop: waits for whatever happens first, has the machine decide, and performs what it decided. Nothing in it waits
//! for one thing alone, so that it can be spoken to in every state.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::debug;

use super::{
    callbacks::{Callbacks, Hook},
    checkpoints::{Desk, Resume},
    group::{GroupEvent, WorkerGroup},
    handle::{Ask, ControllerHandle},
    log_shipper::LogShipper,
    machine::Machine,
    options::{ControllerOptions, ControllerView, TrainResult},
    outbox::{FromHead, Outbox},
    session::Session,
    steps::{Effect, History, Input, Outcome},
};
use crate::{
    base::{RunId, Tasks, until},
    model::verbs::{BeginAttempt, Begun},
    state::ClientError,
};

/// What is said at the end is delivered within this, or the user is told that it was not.
const FLUSH: Duration = Duration::from_secs(10);
/// The rest of the logs is sent within this.
const LAST_LOGS: Duration = Duration::from_secs(10);
/// Callbacks have this long to hear of the end.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// The display is brought up to date this often.
const SHOW: Duration = Duration::from_millis(250);
/// The group's health is looked at this often.
const LOOK: Duration = Duration::from_secs(1);

/// Drives one run.
pub struct TrainController<G> {
    pub(super) options: ControllerOptions,
    pub(super) run_id: RunId,
    pub(super) group: G,
    pub(super) machine: Machine,
    pub(super) session: Arc<Session>,
    pub(super) desk: Desk,
    pub(super) outbox: Outbox,
    pub(super) callbacks: Callbacks,
    /// For a head that has its logs elsewhere.
    pub(super) shipper: Option<LogShipper>,
    pub(super) tasks: Tasks,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) show: watch::Sender<ControllerView>,
    pub(super) handle: ControllerHandle,
    /// A group of this controller was started.
    pub(super) began: bool,
    /// What the next group goes on from, once that is known.
    pub(super) ready: Option<Resume>,
    /// How the last group ended, until its checkpoints are where they belong.
    pub(super) over: Option<Input>,
    /// No rank makes steps.
    pub(super) stalled: bool,
    pub(super) waits: Waits,
    /// What the machine has decided and nobody has done yet.
    pub(super) effects: VecDeque<Effect>,
    pub(super) outcome: Option<Outcome>,
    /// When it began, on the monotonic clock.
    pub(super) begun: Duration,
}

/// What the loop waits for.
#[derive(Default)]
pub(super) struct Waits {
    /// The head's answer to an attempt that was asked for.
    pub(super) asked: Option<oneshot::Receiver<Result<Begun, ClientError>>>,
    /// Callbacks that are asked where the workers may be placed, and the attempt that waits for that.
    pub(super) choice: Option<oneshot::Receiver<Option<Vec<String>>>>,
    pub(super) begin: Option<BeginAttempt>,
    /// Callbacks that are called before a group may start.
    pub(super) gate: Option<oneshot::Receiver<()>>,
    /// The checkpoint that the group is to go on from.
    pub(super) resume: Option<oneshot::Receiver<Resume>>,
    /// What is left of checkpoints of a group that has ended.
    pub(super) closing: Option<oneshot::Receiver<()>>,
    /// The ranks' stacks.
    pub(super) stacks: Option<oneshot::Receiver<Vec<String>>>,
    pub(super) pause: Option<Instant>,
    pub(super) settle: Option<Instant>,
    /// When a group that was given notice gets the stop signal, and its grace then.
    pub(super) drained: Option<(Instant, Duration)>,
}

impl<G> std::fmt::Debug for TrainController<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainController").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

impl<G: WorkerGroup> TrainController<G> {
    /// The run's id.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// The run's name.
    #[must_use]
    pub fn run_name(&self) -> &str {
        &self.session.info().run_name
    }

    /// Talks to this controller while it runs.
    #[must_use]
    pub fn handle(&self) -> ControllerHandle {
        self.handle.clone()
    }

    /// Drives the run to its end. No path leaves without a final word to the head.
    pub async fn run(mut self) -> TrainResult {
        let mut from_head = self.outbox.news();
        // The run may be registered, or refused, since before anybody listened.
        from_head.mark_changed();
        let mut told = self.session.told();
        let mut show = interval(SHOW);
        let mut look = interval(LOOK);
        show.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.callbacks.call(Hook::ControllerStart);
        // A run that is resumed goes on from what the head knows of it.
        if !self.options.resume {
            self.step(Input::Begin);
        }
        loop {
            self.publish(&from_head.borrow());
            if let Some(outcome) = self.outcome.take() {
                return self.finish(outcome).await;
            }
            let waits = &mut self.waits;
            tokio::select! {
                event = self.group.event() => self.happened(event),
                Some(ask) = self.asks.recv() => self.obey(ask),
                Ok(()) = from_head.changed() => {
                    let news = from_head.borrow_and_update().clone();
                    self.heard(news);
                }
                Ok(()) = told.changed() => {
                    let notice = told.borrow_and_update().clone();
                    if let Some(detail) = notice {
                        self.step(Input::Preempt(detail));
                    }
                }
                event = self.desk.event() => self.of_checkpoints(event),
                resume = answered(&mut waits.resume) => self.resumes(resume.unwrap_or_default()),
                _ = answered(&mut waits.closing) => self.closed(),
                answer = answered(&mut waits.asked) => self.answered(answer),
                _ = answered(&mut waits.gate) => self.perform(),
                nodes = answered(&mut waits.choice) => self.ask(nodes.flatten()),
                tail = answered(&mut waits.stacks) => {
                    self.step(Input::StacksWritten(tail.unwrap_or_default()));
                }
                what = self.callbacks.failure() => self.step(Input::CallbackFailed(what)),
                () = until(waits.pause) => {
                    waits.pause = None;
                    self.step(Input::PauseOver);
                }
                () = until(waits.settle) => {
                    waits.settle = None;
                    self.step(Input::Settled);
                }
                () = until(waits.drained.map(|(at, _)| at)) => {
                    let grace = waits.drained.take().map(|(_, grace)| grace);
                    self.shut_down(grace.unwrap_or(self.options.grace));
                }
                _ = look.tick() => self.look(),
                _ = show.tick() => {}
            }
        }
    }

    fn happened(&mut self, event: GroupEvent) {
        let attempt = self.machine.attempt();
        let input = match event {
            GroupEvent::Started { workers, master_address } => {
                self.callbacks.call(Hook::TrainingStart(attempt, workers.clone()));
                if let Some(shipper) = &self.shipper {
                    shipper.attempt(attempt, u32::try_from(workers.len()).unwrap_or(u32::MAX));
                }
                Input::Started { workers, master_address }
            }
            GroupEvent::Exited(exit) => {
                if exit.is_success() {
                    self.desk.rank_done(attempt, exit.rank);
                }
                Input::Exited(exit)
            }
            GroupEvent::StartFailed { message, permanent } => Input::StartFailed { message, permanent },
            GroupEvent::Ended(report) => {
                self.callbacks.call(Hook::Shutdown(attempt, report.clone()));
                return self.close(Input::Ended(report));
            }
            GroupEvent::Lost(report) => {
                self.callbacks.call(Hook::Shutdown(attempt, report.clone()));
                return self.close(Input::Lost(report));
            }
        };
        self.step(input);
    }

    fn obey(&mut self, ask: Ask) {
        if matches!(ask, Ask::Stop { .. } | Ask::Kill) && self.waits.closing.is_some() {
            self.desk.give_up();
        }
        match ask {
            Ask::Stop { detail, grace } => self.step(Input::Stop { detail, grace }),
            Ask::Kill => {
                self.callbacks.call(Hook::BeforeControllerAbort);
                self.step(Input::Kill);
            }
            Ask::Preempt(detail) => self.step(Input::Preempt(detail)),
            Ask::Signal(signal) => self.group.signal(signal),
        }
    }

    /// What the head told, as something that happens to the run.
    fn heard(&mut self, news: FromHead) {
        if let Some(registered) = &news.registered
            && std::mem::take(&mut self.options.resume)
        {
            let history = History { attempts: registered.num_attempts, failures: registered.num_failures };
            self.machine.remember(history);
            self.step(Input::Begin);
        }
        if news.fenced {
            let detail = match news.refused {
                Some(why) => format!("the head does not record this run ({}): {}", why.slug, why.detail),
                None => "another controller took this run over".to_owned(),
            };
            self.step(Input::Stop { detail, grace: None });
        } else if let Some((reason, grace_ms)) = news.stop {
            let why = reason.map(|r| format!(": {r}")).unwrap_or_default();
            self.step(Input::Stop {
                detail: format!("stopped by user (API){why}"),
                grace: grace_ms.map(Duration::from_millis),
            });
        }
        self.desk.set_pinned(news.pinned.into_iter().collect());
        if let Some(n) = news.fits {
            self.step(Input::Fits(n));
        }
    }

    fn answered(&mut self, answer: Option<Result<Begun, ClientError>>) {
        match answer {
            Some(Ok(begun)) => self.step(Input::Begun(begun)),
            Some(Err(ClientError::Refused { slug, detail })) if slug == "no-resources" => {
                self.step(Input::NoRoom(detail));
            }
            Some(Err(ClientError::Refused { detail, .. })) => self.step(Input::Refused(detail)),
            Some(Err(ClientError::Unreachable(why))) => self.step(Input::NoRoom(why)),
            // The way to the head is closed: this run is at its end.
            None => {}
        }
    }

    fn look(&mut self) {
        let alive = self.machine.alive();
        if alive.is_empty() {
            return;
        }
        self.callbacks.call(Hook::Poll(self.machine.attempt(), alive.clone()));
        let stalled = self.session.is_stalled();
        if std::mem::replace(&mut self.stalled, stalled) != stalled {
            self.callbacks.call(Hook::Stall(stalled));
        }
        self.step(Input::Tick(self.session.silence(&alive)));
    }

    pub(super) fn step(&mut self, input: Input) {
        debug!("the controller has {input:?}");
        self.effects.extend(self.machine.on(input, self.options.clock.now()));
        self.perform();
    }

    fn publish(&self, from_head: &FromHead) {
        let view = ControllerView {
            state: self.machine.state(),
            detail: self.machine.detail().map(str::to_owned),
            attempt: self.machine.attempt(),
            workers_alive: self.machine.alive().len(),
            workers: self.machine.workers(),
            failures: self.machine.failures(),
            last: self.session.last_report().0,
            checkpoint: self.desk.newest(),
            moving: self.desk.moving(),
            registered: from_head.registered.as_ref().map(|registered| registered.name.clone()),
        };
        self.show.send_if_modified(|shown| {
            let changed = *shown != view;
            *shown = view;
            changed
        });
    }

    async fn finish(self, outcome: Outcome) -> TrainResult {
        let took = self.options.clock.monotonic().saturating_sub(self.begun);
        self.callbacks.call(Hook::BeforeControllerShutdown);
        let delivered = self.outbox.flush(FLUSH).await;
        let spools = if delivered { Vec::new() } else { self.outbox.keep().await };
        self.publish(&self.outbox.news().borrow());
        // The run has ended by now, whatever becomes of its logs.
        if let Some(shipper) = self.shipper
            && !shipper.finish(LAST_LOGS).await
        {
            tracing::warn!("the head does not have all logs; they are whole in the run's directory");
        }
        let (last, dropped) = self.session.last_report();
        let dropped = dropped + self.outbox.dropped_points();
        if dropped > 0 {
            tracing::warn!("{dropped} points could not be kept while the head was away");
        }
        let (run_status, status_detail, exit_code) = match outcome {
            Outcome::Finished => ("FINISHED", None, 0),
            Outcome::Errored { detail, exit_code } => ("ERRORED", Some(detail), exit_code.max(1)),
            Outcome::Aborted { detail, exit_code } => ("ABORTED", Some(detail), exit_code),
        };
        let (num_attempts, num_failures) = (self.machine.num_attempts(), self.machine.failures());
        let (attempts, error) = self.machine.into_parts();
        let checkpoints = self.desk.all();
        let ranking = self.options.checkpoints.retention.rank(&checkpoints);
        let show =
            |number: u64| checkpoints.iter().find(|c| c.number == number).map(|c| ranking.show(c.clone()));
        let checkpoint = ranking.latest.and_then(show);
        let last_metrics: BTreeMap<_, _> = last.metrics.into_iter().collect();
        let result = TrainResult {
            run_id: self.run_id.clone(),
            run_status,
            status_detail,
            error,
            num_attempts,
            num_failures,
            attempts,
            return_value: self.session.returned(),
            took,
            storage_path: self.options.data_dir.run_dir(&self.run_id),
            metrics: checkpoint.as_ref().map_or_else(|| last_metrics.clone(), |c| c.record.metrics.clone()),
            checkpoint,
            best_checkpoints: ranking.by_score.iter().filter_map(|number| show(*number)).collect(),
            last_metrics,
            delivered,
            spools,
            exit_code,
        };
        if let Some(called) = self.callbacks.gate(Hook::Finish(Box::new(result.clone())))
            && timeout(LAST_CALLS, called).await.is_err()
        {
            tracing::warn!("callbacks did not hear of the run's end within {} s", LAST_CALLS.as_secs());
        }
        self.tasks.shutdown("the controller", Duration::from_secs(5)).await;
        result
    }
}

/// The answer that is waited for, which is not waited for then any more; none if there will not be one.
async fn answered<T>(waits: &mut Option<oneshot::Receiver<T>>) -> Option<T> {
    let Some(receiver) = waits else { return std::future::pending().await };
    let answer = receiver.await.ok();
    *waits = None;
    answer
}

#[cfg(test)]
mod tests;
