//! The controller's state machine: a plain function from what happens to what is done about it. No I/O, no waiting, no
//! clock; [`super::run`] performs the effects.

use std::{collections::BTreeMap, time::Duration};

use super::{
    group::RankExit,
    policy::{Decision, FailurePolicy, Permanent},
    steps::{Effect, Input, Outcome},
    words::{Evidence, describe, stop_words},
};
use crate::{
    base::{AttemptId, Timestamp},
    model::{
        AttemptStatus, ControllerState, EndReason, Exit, FirstFailure, RunStatus, StopReport, WorkerStatus,
        failure::Consequence,
        verbs::{
            AttemptRunning, BeginAttempt, EndAttempt, EndRun, NewWorker, RunVerb, SetState, WorkerChange,
            WorkerChanges,
        },
    },
};

/// Where the controller is, with what it needs to know there.
#[derive(Clone, Debug, PartialEq)]
enum State {
    Initializing,
    Scheduling,
    Rescheduling,
    Running,
    Restarting,
    ShuttingDown(Outcome),
    Ended(Outcome),
}

#[derive(Debug)]
pub(crate) struct Machine {
    state: State,
    host: String,
    num_workers: u32,
    policy: FailurePolicy,
    worker_failures: u32,
    start_failures_in_a_row: u32,
    attempt: Option<Attempt>,
    attempts: u32,
    first_failure: Option<FirstFailure>,
}

#[derive(Debug)]
struct Attempt {
    id: AttemptId,
    ordinal: u32,
    workers: BTreeMap<u32, Option<RankExit>>,
    pids: BTreeMap<u32, u32>,
    failure: Option<FirstFailure>,
    /// A group was asked for and has not said that nothing is left of it.
    group_there: bool,
}

impl Machine {
    pub(crate) fn new(host: String, num_workers: u32, policy: FailurePolicy) -> Self {
        Self {
            state: State::Initializing,
            host,
            num_workers,
            policy,
            worker_failures: 0,
            start_failures_in_a_row: 0,
            attempt: None,
            attempts: 0,
            first_failure: None,
        }
    }

    /// The state as it is reported.
    pub(crate) fn state(&self) -> ControllerState {
        match &self.state {
            State::Initializing => ControllerState::Initializing,
            State::Scheduling => ControllerState::Scheduling,
            State::Rescheduling => ControllerState::Rescheduling,
            State::Running => ControllerState::Running,
            State::Restarting => ControllerState::Restarting,
            State::ShuttingDown(_) => ControllerState::ShuttingDown,
            State::Ended(Outcome::Finished) => ControllerState::Finished,
            State::Ended(Outcome::Errored { .. }) => ControllerState::Errored,
            State::Ended(Outcome::Aborted { .. }) => ControllerState::Aborted,
        }
    }

    /// Ordinal of the newest attempt.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempts.saturating_sub(1)
    }

    /// Ranks of the live attempt that run, and how many there are.
    pub(crate) fn workers(&self) -> (usize, usize) {
        let workers = self.attempt.as_ref().map(|a| &a.workers);
        let alive = workers.map_or(0, |w| w.values().filter(|exit| exit.is_none()).count());
        (alive, workers.map_or(0, BTreeMap::len))
    }

    /// How often workers failed.
    pub(crate) fn worker_failures(&self) -> u32 {
        self.worker_failures
    }

    /// Whether the exit of a rank would be the first failure of its attempt, which is worth a look at its log.
    pub(crate) fn would_be_first_failure(&self, exit: &RankExit) -> bool {
        self.state == State::Running
            && !exit.is_success()
            && self.attempt.as_ref().is_some_and(|a| a.failure.is_none())
    }

    /// Decides about one input.
    pub(crate) fn on(&mut self, input: Input, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Begin => self.schedule(&mut effects),
            Input::Started(workers) => self.started(workers, &mut effects),
            Input::StartFailed { message, permanent } => self.start_failed(message, permanent, &mut effects),
            Input::Exited(exit, evidence) => self.exited(exit, evidence, now, &mut effects),
            Input::Ended(report) => self.group_ended(&report, &mut effects),
            Input::Lost(report) => self.lost(&report, now, &mut effects),
            Input::PauseOver if self.state == State::Rescheduling => self.schedule(&mut effects),
            Input::PauseOver => {}
            Input::Stop { detail, grace } => self.stop(detail, grace, &mut effects),
            Input::Kill => {
                if self.group_there() {
                    effects.push(Effect::Abort);
                }
            }
        }
        effects
    }

    fn group_there(&self) -> bool {
        self.attempt.as_ref().is_some_and(|a| a.group_there)
    }

    fn enter(&mut self, next: State, detail: Option<String>, effects: &mut Vec<Effect>) {
        let from = self.state();
        self.state = next;
        debug_assert!(from.may_go_to(self.state()), "no transition from {from} to {}", self.state());
        if !matches!(self.state, State::Ended(_)) {
            effects.push(Effect::Say(RunVerb::SetState(SetState {
                state: self.state(),
                status_detail: detail,
            })));
        }
    }

    fn schedule(&mut self, effects: &mut Vec<Effect>) {
        let ordinal = self.attempts;
        let id = AttemptId::generate();
        let detail = format!("placing {} workers", self.num_workers);
        self.enter(State::Scheduling, Some(detail.clone()), effects);
        self.attempts += 1;
        let begun = BeginAttempt::unreserved(id.clone(), self.num_workers, Some(detail));
        effects.push(Effect::Say(RunVerb::BeginAttempt(begun)));
        effects.push(Effect::Start { attempt: ordinal, restart_count: self.worker_failures });
        self.attempt = Some(Attempt {
            id,
            ordinal,
            workers: BTreeMap::new(),
            pids: BTreeMap::new(),
            failure: None,
            group_there: true,
        });
    }

    fn started(&mut self, workers: Vec<NewWorker>, effects: &mut Vec<Effect>) {
        let Some(attempt) = &mut self.attempt else { return };
        attempt.workers = workers.iter().map(|w| (w.world_rank, None)).collect();
        attempt.pids = workers.iter().filter_map(|w| Some((w.world_rank, w.pid?))).collect();
        effects.push(Effect::Say(RunVerb::AttemptRunning(
            attempt.id.clone(),
            AttemptRunning { workers, master_address: None },
        )));
        self.start_failures_in_a_row = 0;
        if self.state == State::Scheduling {
            self.enter(State::Running, None, effects);
        }
    }

    fn start_failed(&mut self, message: String, permanent: Permanent, effects: &mut Vec<Effect>) {
        self.start_failures_in_a_row += 1;
        let end = |status, end_reason| EndAttempt {
            status,
            end_reason,
            status_detail: Some(message.clone()),
            stop_report: None,
        };
        if let State::ShuttingDown(outcome) = self.state.clone() {
            self.close(end(AttemptStatus::Aborted, EndReason::Stopped), effects);
            self.finish(outcome, effects);
            return;
        }
        self.close(end(AttemptStatus::Errored, EndReason::StartFailed), effects);
        match self.policy.start_failed(self.start_failures_in_a_row, permanent) {
            Decision::Retry(pause) => {
                let detail = format!("{message}; trying again in {} s", pause.as_secs());
                self.enter(State::Rescheduling, Some(detail), effects);
                effects.push(Effect::Pause(pause));
            }
            Decision::Raise => {
                let detail = format!("the workers could not be started: {message}");
                let outcome = Outcome::Errored { detail, exit_code: 1 };
                self.enter(State::ShuttingDown(outcome.clone()), None, effects);
                self.finish(outcome, effects);
            }
        }
    }

    fn exited(&mut self, exit: RankExit, evidence: Evidence, now: Timestamp, effects: &mut Vec<Effect>) {
        let first = self.would_be_first_failure(&exit);
        let Some(attempt) = &mut self.attempt else { return };
        let RankExit { rank, code, signal, .. } = exit.clone();
        effects.push(Effect::Say(RunVerb::ChangeWorkers(
            attempt.id.clone(),
            WorkerChanges {
                workers: vec![WorkerChange {
                    world_rank: rank,
                    status: WorkerStatus::Dead,
                    exit: Some(Exit {
                        code,
                        signal: signal.clone(),
                        time_ms: now,
                        cause: exit.message.clone(),
                    }),
                }],
            },
        )));
        attempt.workers.insert(rank, Some(exit.clone()));
        if first {
            let pid = attempt.pids.get(&rank).copied();
            let failure = FirstFailure {
                rank: Some(rank),
                attempt: attempt.ordinal,
                pid,
                host: Some(self.host.clone()),
                exit_code: code,
                signal,
                message: describe(&exit, pid, &self.host, &evidence),
                log_tail: evidence.log_tail,
                time_ms: now,
                consequences: Vec::new(),
            };
            self.failed(failure, effects);
            effects.push(Effect::Shutdown { grace: None });
        } else if !exit.is_success() {
            if let Some(failure) = &mut attempt.failure {
                failure.consequences.push(Consequence { rank, exit_code: code, signal });
            }
        } else if self.state == State::Running && attempt.workers.values().all(Option::is_some) {
            self.enter(State::ShuttingDown(Outcome::Finished), None, effects);
        }
    }

    /// The first failure of an attempt: the policy decides whether there is another one.
    fn failed(&mut self, failure: FirstFailure, effects: &mut Vec<Effect>) {
        self.worker_failures += 1;
        let detail = failure.message.clone();
        let exit_code = match (failure.exit_code, failure.signal.as_deref()) {
            (_, Some(signal)) => {
                super::process::parse_signal(signal).and_then(|n| u8::try_from(128 + n).ok()).unwrap_or(1)
            }
            (Some(code), None) => u8::try_from(code).unwrap_or(1),
            (None, None) => 1,
        };
        if let Some(attempt) = &mut self.attempt {
            attempt.failure = Some(failure);
        }
        match self.policy.worker_failed(self.worker_failures) {
            Decision::Retry(_) => self.enter(State::Restarting, Some(detail), effects),
            Decision::Raise => {
                self.enter(
                    State::ShuttingDown(Outcome::Errored { detail: detail.clone(), exit_code }),
                    Some(detail),
                    effects,
                );
            }
        }
    }

    fn lost(&mut self, report: &StopReport, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.state == State::Running {
            let message = "the agent that held the workers was killed, and they with it".to_owned();
            let failure = FirstFailure {
                rank: None,
                attempt: self.attempt(),
                pid: None,
                host: Some(self.host.clone()),
                exit_code: None,
                signal: None,
                message,
                log_tail: Vec::new(),
                time_ms: now,
                consequences: Vec::new(),
            };
            self.failed(failure, effects);
        }
        if self.state == State::Scheduling {
            if let Some(attempt) = &mut self.attempt {
                attempt.group_there = false;
            }
            self.start_failed(
                "the agent was killed while it started the workers".into(),
                Permanent::No,
                effects,
            );
            return;
        }
        self.group_ended(report, effects);
    }

    fn group_ended(&mut self, report: &StopReport, effects: &mut Vec<Effect>) {
        let Some(attempt) = &mut self.attempt else { return };
        attempt.group_there = false;
        let failure = attempt.failure.take();
        let said = failure.as_ref().map(|f| f.message.clone());
        if failure.is_some() {
            self.first_failure.clone_from(&failure);
        }
        let stopped = stop_words(report);
        let left =
            (!report.left.is_empty()).then(|| format!("processes {:?} could not be ended", report.left));
        match self.state.clone() {
            State::ShuttingDown(Outcome::Finished) => {
                // A shutdown error turns a finished run into an errored one.
                let outcome = match left {
                    Some(detail) => Outcome::Errored { detail, exit_code: 1 },
                    None => Outcome::Finished,
                };
                self.close(end(AttemptStatus::Finished, EndReason::Completed, stopped), effects);
                self.finish(outcome, effects);
            }
            State::ShuttingDown(outcome @ Outcome::Errored { .. }) => {
                self.close(end(AttemptStatus::Errored, EndReason::WorkerFailed, said), effects);
                self.finish(outcome, effects);
            }
            State::ShuttingDown(outcome @ Outcome::Aborted { .. }) => {
                self.close(end(AttemptStatus::Aborted, EndReason::Stopped, stopped), effects);
                self.finish(outcome, effects);
            }
            State::Restarting => {
                self.close(end(AttemptStatus::Errored, EndReason::WorkerFailed, said), effects);
                self.schedule(effects);
            }
            State::Initializing
            | State::Scheduling
            | State::Rescheduling
            | State::Running
            | State::Ended(_) => {}
        }
    }

    fn stop(&mut self, detail: String, grace: Option<Duration>, effects: &mut Vec<Effect>) {
        match &self.state {
            // What ends already is not stopped; what was stopped already may be stopped with another grace.
            State::ShuttingDown(Outcome::Aborted { .. }) if grace.is_some() => {
                effects.push(Effect::Shutdown { grace });
                return;
            }
            State::ShuttingDown(_) | State::Ended(_) => return,
            State::Initializing
            | State::Scheduling
            | State::Rescheduling
            | State::Running
            | State::Restarting => {}
        }
        let outcome = Outcome::Aborted { detail: detail.clone() };
        self.enter(State::ShuttingDown(outcome.clone()), Some(detail), effects);
        if self.group_there() {
            effects.push(Effect::Shutdown { grace });
        } else {
            self.finish(outcome, effects);
        }
    }

    fn close(&mut self, end: EndAttempt, effects: &mut Vec<Effect>) {
        if let Some(attempt) = self.attempt.take() {
            effects.push(Effect::Say(RunVerb::EndAttempt(attempt.id, end)));
        }
    }

    fn finish(&mut self, outcome: Outcome, effects: &mut Vec<Effect>) {
        let (run_status, status_detail, first_failure) = match &outcome {
            Outcome::Finished => (RunStatus::Finished, None, None),
            Outcome::Errored { detail, .. } => {
                (RunStatus::Errored, Some(detail.clone()), self.first_failure.take())
            }
            Outcome::Aborted { detail } => (RunStatus::Aborted, Some(detail.clone()), None),
        };
        self.enter(State::Ended(outcome.clone()), None, effects);
        let end = EndRun { run_status, status_detail, end_time_ms: None, first_failure };
        effects.push(Effect::Say(RunVerb::End(Box::new(end))));
        effects.push(Effect::Done(outcome));
    }
}

fn end(status: AttemptStatus, end_reason: EndReason, status_detail: Option<String>) -> EndAttempt {
    EndAttempt { status, end_reason, status_detail, stop_report: None }
}
