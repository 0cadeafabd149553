//! The controller's state machine: a plain function from what happens to what is done about it. No I/O, no waiting, no
//! clock; [`super::run`] performs the effects.
//!
//! What a group's end means is decided when nothing of the group is left: until then a preemption may turn out to be
//! what made its ranks fail.

mod attempt;
mod over;
mod placing;
#[cfg(test)]
mod tests;
mod watch;

use std::time::Duration;

use attempt::{Attempt, Cause};
use placing::Placing;

use super::{
    group::RankExit,
    options::AttemptSummary,
    policy::{Decision, FailurePolicy, HealthPolicy, OnPreemption, Permanent, ScalingPolicy, Why},
    steps::{Effect, History, Input, Outcome, REQUEUE, STOPPED},
};
use crate::{
    base::{RunId, Timestamp},
    model::{
        ControllerState, EndReason, Exit, FirstFailure, NumFailures, WorkerStatus,
        failure::Consequence,
        verbs::{AttemptRunning, NewWorker, RunVerb, SetState, WorkerChange, WorkerChanges},
    },
};

/// Where the controller is, with what it needs to know there.
#[derive(Clone, Debug, PartialEq)]
enum State {
    Initializing,
    Scheduling,
    Rescheduling,
    Running,
    Preempting,
    Restarting,
    Resizing,
    ShuttingDown(Outcome),
    Ended(Outcome),
}

/// What a machine decides by.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) run: RunId,
    pub(crate) host: String,
    pub(crate) scaling: ScalingPolicy,
    pub(crate) failures: FailurePolicy,
    pub(crate) health: HealthPolicy,
}

#[derive(Debug)]
pub(crate) struct Machine {
    rules: Rules,
    state: State,
    /// One sentence about the state, as it was said last.
    detail: Option<String>,
    counts: NumFailures,
    start_failures_in_a_row: u32,
    /// How many attempts there were, which is the ordinal of the next.
    attempts: u32,
    /// The attempt whose group is there, or is being started.
    attempt: Option<Attempt>,
    placing: Placing,
    /// A preemption notice that came while the group was being started.
    noticed: Option<String>,
    /// What is said of the checkpoint that the group goes on from.
    resumes: Option<String>,
    /// The size that the group is to get if it can have it for long enough.
    resize_to: Option<u32>,
    first_failure: Option<FirstFailure>,
    summaries: Vec<AttemptSummary>,
}

impl Machine {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Initializing,
            detail: None,
            counts: NumFailures::default(),
            start_failures_in_a_row: 0,
            attempts: 0,
            attempt: None,
            placing: Placing::No,
            noticed: None,
            resumes: None,
            resize_to: None,
            first_failure: None,
            summaries: Vec::new(),
        }
    }

    /// What the run brings along, of which its controller hears when it is registered. Before it begins.
    pub(crate) fn remember(&mut self, history: History) {
        (self.attempts, self.counts) = (history.attempts, history.failures);
    }

    /// The state as it is reported.
    pub(crate) fn state(&self) -> ControllerState {
        match &self.state {
            State::Initializing => ControllerState::Initializing,
            State::Scheduling => ControllerState::Scheduling,
            State::Rescheduling => ControllerState::Rescheduling,
            State::Running => ControllerState::Running,
            State::Preempting => ControllerState::Preempting,
            State::Restarting => ControllerState::Restarting,
            State::Resizing => ControllerState::Resizing,
            State::ShuttingDown(_) => ControllerState::ShuttingDown,
            State::Ended(Outcome::Finished) => ControllerState::Finished,
            State::Ended(Outcome::Errored { .. }) => ControllerState::Errored,
            State::Ended(Outcome::Aborted { .. }) => ControllerState::Aborted,
        }
    }

    /// One sentence about the state.
    pub(crate) fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Ordinal of the newest attempt.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempts.saturating_sub(1)
    }

    /// How many attempts there were.
    pub(crate) fn num_attempts(&self) -> u32 {
        self.attempts
    }

    /// Ranks of the live attempt that run.
    pub(crate) fn alive(&self) -> Vec<u32> {
        self.attempt.as_ref().map(Attempt::alive).unwrap_or_default()
    }

    /// How many ranks the live attempt has.
    pub(crate) fn workers(&self) -> usize {
        self.attempt.as_ref().map_or(0, |a| a.workers.len())
    }

    /// What the failure budgets were charged with.
    pub(crate) fn failures(&self) -> NumFailures {
        self.counts
    }

    /// Whether all ranks ended well and the run with them.
    pub(crate) fn is_finishing(&self) -> bool {
        matches!(self.state, State::ShuttingDown(Outcome::Finished))
    }

    /// How the attempts of this controller went, and what ended the run, if it failed.
    pub(crate) fn into_parts(self) -> (Vec<AttemptSummary>, Option<FirstFailure>) {
        (self.summaries, self.first_failure)
    }

    /// Decides about one input.
    pub(crate) fn on(&mut self, input: Input, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        let into = &mut effects;
        match input {
            Input::Begin => self.place(now, into),
            Input::Begun(begun) => self.begun(begun, now, into),
            Input::NoRoom(detail) => self.no_room(&detail, into),
            Input::Refused(detail) => self.refused(detail, now, into),
            Input::Fits(n) => self.fits(n, now, into),
            Input::Settled => self.settled(into),
            Input::Started { workers, master_address } => self.started(workers, master_address, into),
            Input::StartFailed { message, permanent } => self.start_failed(message, permanent, now, into),
            Input::Exited(exit) => self.exited(&exit, now, into),
            Input::Ended(report) => self.over(report, false, now, into),
            Input::Lost(report) => self.over(report, true, now, into),
            Input::Resumes(words) => self.resumes(words, into),
            Input::Checkpoints(words) => self.of_checkpoints(words, into),
            Input::CheckpointTimedOut(words) => self.checkpoint_timed_out(words, now, into),
            Input::PauseOver => self.pause_over(now, into),
            Input::Tick(silence) => self.tick(&silence, now, into),
            Input::StacksWritten(tail) => self.stacks_written(tail, into),
            Input::CallbackFailed(what) => self.callback_failed(what, into),
            Input::Preempt(detail) => self.preempt(detail, now, into),
            Input::Stop { detail, grace } => self.stop(detail, grace, now, into),
            Input::Kill => {
                if self.attempt.is_some() {
                    into.push(Effect::Abort);
                }
            }
        }
        effects
    }

    fn enter(&mut self, next: State, detail: Option<String>, into: &mut Vec<Effect>) {
        let from = self.state();
        self.state = next;
        debug_assert!(from.may_go_to(self.state()), "no transition from {from} to {}", self.state());
        self.resize_to = None;
        if from != self.state() {
            into.push(Effect::Entered(from, self.state(), detail.clone()));
        }
        if matches!(self.state, State::Ended(_)) {
            self.detail = detail;
        } else {
            self.say_state(detail, into);
        }
    }

    fn say_state(&mut self, detail: Option<String>, into: &mut Vec<Effect>) {
        self.detail.clone_from(&detail);
        into.push(Effect::Say(RunVerb::SetState(SetState { state: self.state(), status_detail: detail })));
    }

    fn started(&mut self, workers: Vec<NewWorker>, master_address: Option<String>, into: &mut Vec<Effect>) {
        let Some(attempt) = &mut self.attempt else { return };
        attempt.workers = workers.iter().map(|w| (w.world_rank, None)).collect();
        attempt.pids = workers.iter().filter_map(|w| Some((w.world_rank, w.pid?))).collect();
        let running = AttemptRunning { workers, master_address };
        into.push(Effect::Say(RunVerb::AttemptRunning(attempt.id.clone(), running)));
        self.start_failures_in_a_row = 0;
        if self.state != State::Scheduling {
            return;
        }
        let resumes = self.resumes.take();
        self.enter(State::Running, resumes, into);
        if let Some(detail) = self.noticed.take() {
            self.drain(Cause::Preempted(detail), into);
        }
    }

    fn exited(&mut self, exit: &RankExit, now: Timestamp, into: &mut Vec<Effect>) {
        let Some(attempt) = &mut self.attempt else { return };
        let change = WorkerChange {
            world_rank: exit.rank,
            status: WorkerStatus::Dead,
            exit: Some(Exit {
                code: exit.code,
                signal: exit.signal.clone(),
                time_ms: now,
                cause: exit.out_of_memory.clone().or_else(|| exit.message.clone()),
            }),
        };
        into.push(Effect::Say(RunVerb::ChangeWorkers(
            attempt.id.clone(),
            WorkerChanges { workers: vec![change] },
        )));
        attempt.workers.insert(exit.rank, Some(exit.is_success()));
        let all_ended = attempt.alive().is_empty();
        match (&self.state, &mut attempt.cause) {
            (State::Running, None) if !exit.is_success() => {
                let failure = attempt.failure_of(exit, &self.rules.host, now);
                self.fail(failure, into);
                into.push(Effect::Shutdown { grace: None });
            }
            (State::Running, None) if all_ended => {
                self.enter(State::ShuttingDown(Outcome::Finished), None, into);
            }
            (State::Running, None) => {
                attempt.early_since.get_or_insert(now);
            }
            (_, Some(Cause::Failed { failure, .. })) if !exit.is_success() => {
                failure.consequences.push(Consequence {
                    rank: exit.rank,
                    exit_code: exit.code,
                    signal: exit.signal.clone(),
                });
            }
            _ => {}
        }
    }

    /// The first thing that goes wrong in an attempt: says what will come of it. The group is still to be ended.
    fn fail(&mut self, cause: Cause, into: &mut Vec<Effect>) {
        let detail = Some(cause.detail());
        if let Cause::Failed { failure, .. } = &cause {
            into.push(Effect::Failed(failure.clone()));
        }
        let decision = self.decide(&cause, cause.charged(self.counts));
        if let Some(attempt) = &mut self.attempt {
            attempt.cause = Some(cause);
        }
        match (decision, &self.state) {
            (Decision::Retry(_), State::Running) => self.enter(State::Restarting, detail, into),
            (Decision::Retry(_), State::Scheduling) => self.enter(State::Rescheduling, detail, into),
            _ => self.say_state(detail, into),
        }
    }

    fn callback_failed(&mut self, what: String, into: &mut Vec<Effect>) {
        // The first error stands, and nothing is changed by what fails at the end.
        let untroubled = self.attempt.as_ref().is_some_and(|a| a.cause.is_none());
        if untroubled && matches!(self.state, State::Scheduling | State::Running) {
            self.fail(Cause::Callback(what), into);
            into.push(Effect::Shutdown { grace: None });
        }
    }

    /// Ends a group that does well.
    fn drain(&mut self, cause: Cause, into: &mut Vec<Effect>) {
        let (next, why) = match &cause {
            Cause::Resized(_) => (State::Resizing, Why::Resize),
            Cause::Failed { .. } | Cause::Callback(_) | Cause::Preempted(_) => {
                (State::Preempting, Why::Preemption)
            }
        };
        let detail = cause.detail();
        if let Some(attempt) = &mut self.attempt {
            attempt.cause = Some(cause);
        }
        self.enter(next, Some(detail), into);
        into.push(Effect::Drain(why));
    }

    fn preempt(&mut self, detail: String, now: Timestamp, into: &mut Vec<Effect>) {
        match (&self.state, &mut self.attempt) {
            (State::ShuttingDown(_) | State::Ended(_) | State::Preempting, _) => {}
            (State::Scheduling, Some(_)) => self.noticed = Some(detail),
            (State::Running, Some(attempt)) if attempt.cause.is_none() => {
                self.drain(Cause::Preempted(detail), into);
            }
            // A preemption among collateral errors wins: it is what made the ranks fail.
            (state, Some(attempt)) => {
                let is_running = *state == State::Running;
                if let Some(cause) = &attempt.cause
                    && !matches!(cause, Cause::Preempted(_))
                {
                    let detail = format!("{detail}; before it was heard of: {}", cause.detail());
                    attempt.cause = Some(Cause::Preempted(detail.clone()));
                    if is_running {
                        self.enter(State::Preempting, Some(detail), into);
                    }
                }
            }
            (_, None) if self.rules.failures.on_preemption == OnPreemption::Requeue => {
                self.withdraw(into);
                let outcome = self.requeued(&detail);
                self.shut_down(outcome, now, into);
            }
            (_, None) => {}
        }
    }

    fn requeued(&self, why: &str) -> Outcome {
        let detail = format!("{why}; to go on: trainhead run --resume {}", self.rules.run);
        Outcome::Aborted { detail, exit_code: REQUEUE }
    }

    fn stop(&mut self, detail: String, grace: Option<Duration>, now: Timestamp, into: &mut Vec<Effect>) {
        let failing =
            self.state == State::Running && self.attempt.as_ref().is_some_and(|a| a.cause.is_some());
        if failing || matches!(self.state, State::ShuttingDown(_)) {
            // What ends already is not stopped, but it may be ended with another grace.
            if grace.is_some() && self.attempt.is_some() {
                into.push(Effect::Shutdown { grace });
            }
            return;
        }
        if matches!(self.state, State::Ended(_)) {
            return;
        }
        self.withdraw(into);
        let outcome = Outcome::Aborted { detail: detail.clone(), exit_code: STOPPED };
        if self.attempt.is_some() {
            self.enter(State::ShuttingDown(outcome), Some(detail), into);
            into.push(Effect::Shutdown { grace });
        } else {
            self.shut_down(outcome, now, into);
        }
    }

    fn decide(&self, cause: &Cause, counts: NumFailures) -> Decision {
        let Rules { failures, .. } = &self.rules;
        match cause {
            Cause::Failed { reason: EndReason::StartFailed, .. } | Cause::Callback(_) => {
                failures.start_failed(counts, self.start_failures_in_a_row.max(1), Permanent::No)
            }
            Cause::Failed { .. } => failures.worker_failed(counts),
            Cause::Preempted(_) => failures.preempted(counts),
            Cause::Resized(_) => Decision::Retry(Duration::ZERO),
        }
    }
}
