//! When nothing of a group is left: what its attempt was, what that is charged to, and what comes next.

use super::{Attempt, Cause, Machine, State};
use crate::{
    base::Timestamp,
    controller::{
        options::AttemptSummary,
        policy::{Decision, OnPreemption, Permanent},
        steps::{Effect, Outcome, REQUEUE},
        words::stop_words,
    },
    model::{
        AttemptStatus, EndReason, RunStatus, StopReport,
        verbs::{EndAttempt, EndRun, RunVerb},
    },
};

/// Summaries of so many attempts are kept: the first ones and the newest.
const SUMMARIES: usize = 1000;

impl Machine {
    /// Nothing of the group is left but what the report says.
    pub(super) fn over(&mut self, report: StopReport, lost: bool, now: Timestamp, into: &mut Vec<Effect>) {
        if lost && self.state == State::Scheduling {
            let message = "the agent was killed while it started the workers".to_owned();
            return self.start_failed(message, Permanent::No, now, into);
        }
        let Some(mut attempt) = self.attempt.take() else { return };
        let stopped = stop_words(&report);
        if let State::ShuttingDown(outcome) = self.state.clone() {
            let left =
                (!report.left.is_empty()).then(|| format!("processes {:?} could not be ended", report.left));
            let (status, reason, detail) = match (&outcome, &attempt.cause) {
                (Outcome::Finished, _) => (AttemptStatus::Finished, EndReason::Completed, stopped),
                (_, Some(cause)) => (cause.end().0, cause.end().1, Some(cause.detail())),
                (_, None) => (AttemptStatus::Aborted, EndReason::Stopped, stopped),
            };
            if let Some(cause) = &attempt.cause {
                self.counts = cause.charged(self.counts);
            }
            self.close(attempt, (status, reason), detail, Some(report), now, into);
            // A shutdown error turns a finished run into an errored one.
            let outcome = match (outcome, left) {
                (Outcome::Finished, Some(detail)) => Outcome::Errored { detail, exit_code: 1 },
                (outcome, _) => outcome,
            };
            return self.finish(outcome, now, into);
        }
        let cause = attempt.cause.take().unwrap_or_else(|| {
            let message = "the agent that held the workers was killed, and they with it".to_owned();
            attempt.failure(None, EndReason::WorkerFailed, message, &self.rules.host, now)
        });
        let detail = cause.detail();
        self.close(attempt, cause.end(), Some(detail.clone()), Some(report), now, into);
        self.counts = cause.charged(self.counts);
        let decision = self.decide(&cause, self.counts);
        let outcome = match cause {
            Cause::Preempted(_) if self.rules.failures.on_preemption == OnPreemption::Requeue => {
                let outcome = self.requeued(&detail);
                return self.shut_down(outcome, now, into);
            }
            Cause::Preempted(_) => {
                let (count, limit) = (self.counts.preemption, self.rules.failures.max_preemption_failures);
                let times = if count == 1 { "once" } else { &format!("{count} times") };
                let detail = format!("preempted {times}, the limit is {limit}: {detail}");
                Outcome::Errored { detail, exit_code: REQUEUE }
            }
            Cause::Failed { failure, exit_code, .. } => {
                self.first_failure = Some(*failure);
                Outcome::Errored { detail: detail.clone(), exit_code }
            }
            Cause::Callback(_) | Cause::Resized(_) => {
                Outcome::Errored { detail: detail.clone(), exit_code: 1 }
            }
        };
        match decision {
            Decision::Retry(pause) => {
                match self.state {
                    State::Running | State::Preempting => {
                        self.enter(State::Restarting, Some(detail), into);
                    }
                    State::Scheduling => self.enter(State::Rescheduling, Some(detail), into),
                    State::Initializing
                    | State::Rescheduling
                    | State::Restarting
                    | State::Resizing
                    | State::ShuttingDown(_)
                    | State::Ended(_) => {}
                }
                if pause.is_zero() {
                    self.place(now, into);
                } else {
                    into.push(Effect::Pause(pause));
                }
            }
            Decision::Raise => self.shut_down(outcome, now, into),
        }
    }

    pub(super) fn start_failed(
        &mut self,
        message: String,
        permanent: Permanent,
        now: Timestamp,
        into: &mut Vec<Effect>,
    ) {
        let Some(attempt) = self.attempt.take() else { return };
        self.noticed = None;
        if let State::ShuttingDown(outcome) = self.state.clone() {
            let end = (AttemptStatus::Aborted, EndReason::Stopped);
            self.close(attempt, end, Some(message), None, now, into);
            return self.finish(outcome, now, into);
        }
        let (message, end) = match &attempt.cause {
            Some(cause) => {
                self.counts = cause.charged(self.counts);
                (cause.detail(), cause.end())
            }
            None => {
                self.counts.controller += 1;
                (message, (AttemptStatus::Errored, EndReason::StartFailed))
            }
        };
        self.start_failures_in_a_row += 1;
        self.close(attempt, end, Some(message.clone()), None, now, into);
        match self.rules.failures.start_failed(self.counts, self.start_failures_in_a_row, permanent) {
            Decision::Retry(pause) => {
                let detail = format!("{message}; trying again in {} s", pause.as_secs());
                match self.state {
                    State::Scheduling => self.enter(State::Rescheduling, Some(detail), into),
                    _ => self.say_state(Some(detail), into),
                }
                into.push(Effect::Pause(pause));
            }
            Decision::Raise => {
                let detail = format!("the workers could not be started: {message}");
                self.shut_down(Outcome::Errored { detail, exit_code: 1 }, now, into);
            }
        }
    }

    /// The run ends; no group is there.
    pub(super) fn shut_down(&mut self, outcome: Outcome, now: Timestamp, into: &mut Vec<Effect>) {
        self.enter(State::ShuttingDown(outcome.clone()), None, into);
        self.finish(outcome, now, into);
    }

    fn close(
        &mut self,
        attempt: Attempt,
        (status, end_reason): (AttemptStatus, EndReason),
        status_detail: Option<String>,
        stop_report: Option<StopReport>,
        now: Timestamp,
        into: &mut Vec<Effect>,
    ) {
        if self.summaries.len() >= SUMMARIES {
            self.summaries.remove(SUMMARIES / 2);
        }
        self.summaries.push(AttemptSummary {
            ordinal: attempt.ordinal,
            num_workers: attempt.size,
            status,
            end_reason,
            status_detail: status_detail.clone(),
            start_time_ms: attempt.begun,
            end_time_ms: now,
            stop_report: stop_report.clone(),
        });
        let end = EndAttempt { status, end_reason, status_detail, stop_report };
        into.push(Effect::Say(RunVerb::EndAttempt(attempt.id, end)));
    }

    fn finish(&mut self, outcome: Outcome, now: Timestamp, into: &mut Vec<Effect>) {
        let (run_status, status_detail) = match &outcome {
            Outcome::Finished => (RunStatus::Finished, None),
            Outcome::Errored { detail, .. } => (RunStatus::Errored, Some(detail.clone())),
            Outcome::Aborted { detail, .. } => (RunStatus::Aborted, Some(detail.clone())),
        };
        if run_status != RunStatus::Errored {
            self.first_failure = None;
        }
        self.enter(State::Ended(outcome.clone()), status_detail.clone(), into);
        let end = EndRun {
            run_status,
            status_detail,
            // Said later if the head is away, but true of now.
            end_time_ms: Some(now),
            first_failure: self.first_failure.clone(),
        };
        into.push(Effect::Say(RunVerb::End(Box::new(end))));
        into.push(Effect::Done(outcome));
    }
}
