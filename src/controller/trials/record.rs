//! A trial as a run of its own in the head's record: begun, its worker, its metrics by the outbox, its end.

use std::{sync::Arc, time::Duration};

use super::{Trial, TrialOptions};
use crate::{
    base::{ActorId, AttemptId, Clock, RunId, Tasks, Timestamp},
    controller::{
        outbox::Outbox,
        session::{Reporter, Session, TrialError},
        words::new_worker,
    },
    model::{
        AttemptStatus, Checkpoint, ControllerState, EndReason, FirstFailure, RunStatus,
        commands::{ControllerIdentity, RegisterRun},
        verbs::{AttemptRunning, BeginAttempt, EndAttempt, EndRun, RunVerb, SetState},
    },
    state::StateClient,
};

/// How often it is said that the trial lives.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Of a traceback so many lines are kept, the last ones.
const TRACEBACK_LINES: usize = 50;

/// The record of one trial.
pub(super) struct Record {
    outbox: Outbox,
    attempt: AttemptId,
    clock: Arc<dyn Clock>,
    /// It was said that it runs.
    runs: bool,
}

impl Record {
    /// Begins it. Whoever asks for the run to stop stops the trial's function.
    pub(super) fn begin(
        client: Arc<dyn StateClient>,
        (run, trial): (&RunId, &Trial),
        session: &Arc<Session>,
        options: &TrialOptions,
        tasks: &Tasks,
    ) -> Self {
        let actor = ActorId::generate();
        let register = RegisterRun {
            id: Some(run.clone()),
            name: Some(trial.name.clone()),
            experiment: options.experiment.clone(),
            settings: trial.config.clone(),
            tags: options.tags.clone(),
            start_time_ms: Some(options.clock.now()),
            controller: ControllerIdentity { actor_id: actor.clone(), lease_ttl_ms: None, process: None },
            ..RegisterRun::by(actor)
        };
        let (session, clock) = (Arc::clone(session), Arc::clone(&options.clock));
        let outbox =
            Outbox::start(client, run.clone(), register, Arc::clone(&session), clock, HEARTBEAT, tasks);
        let mut news = outbox.news();
        let ends = tasks.stopping();
        drop(tasks.spawn(async move {
            tokio::select! {
                Ok(_) = news.wait_for(|told| told.stop.is_some()) => session.request_stop(),
                () = ends.cancelled() => {}
            }
        }));
        let attempt = AttemptId::generate();
        let begin = BeginAttempt::unreserved(attempt.clone(), 1, None);
        outbox.say(state(ControllerState::Scheduling));
        outbox.say(RunVerb::BeginAttempt(begin));
        Self { outbox, attempt, clock: Arc::clone(&options.clock), runs: false }
    }

    /// Its function runs, on this worker.
    pub(super) fn running(&mut self, by: &Reporter) {
        if std::mem::replace(&mut self.runs, true) {
            return;
        }
        let worker = new_worker(by.rank, by.pid, &by.host, None);
        let running = AttemptRunning { workers: vec![worker], master_address: None };
        self.outbox.say(RunVerb::AttemptRunning(self.attempt.clone(), running));
        self.outbox.say(state(ControllerState::Running));
    }

    /// It has kept these checkpoints.
    pub(super) fn checkpoints(&self, all: Vec<Checkpoint>) {
        for Checkpoint { number, record, .. } in all {
            self.outbox.say(RunVerb::RecordCheckpoint(number, Box::new(record)));
        }
    }

    /// It is over: what its function raised, or that it did not end by itself. Waits until that is delivered.
    pub(super) async fn end(self, error: Option<TrialError>, how: How, by: &Reporter, limit: Duration) {
        let (status, run_status, end_reason) = match (how, &error) {
            (How::Left, _) => (AttemptStatus::Aborted, RunStatus::Aborted, EndReason::Stopped),
            (How::Ended, None) => (AttemptStatus::Finished, RunStatus::Finished, EndReason::Completed),
            (How::Ended, Some(TrialError::NotStarted(_))) => {
                (AttemptStatus::Errored, RunStatus::Errored, EndReason::StartFailed)
            }
            (How::Ended, Some(_)) => (AttemptStatus::Errored, RunStatus::Errored, EndReason::WorkerFailed),
        };
        // What its worker died of is that it was ended.
        let error = error.filter(|_| how == How::Ended);
        let left = "its function did not end when it was stopped: its worker was ended";
        let status_detail = match how {
            How::Ended => error.as_ref().map(ToString::to_string),
            How::Left => Some(left.to_owned()),
        };
        let end = EndAttempt { status, end_reason, status_detail: status_detail.clone(), stop_report: None };
        self.outbox.say(RunVerb::EndAttempt(self.attempt, end));
        let first_failure = error.as_ref().map(|error| failure(error, by, self.clock.now()));
        let end = EndRun { run_status, status_detail, end_time_ms: None, first_failure };
        self.outbox.say(RunVerb::End(Box::new(end)));
        if !self.outbox.flush(limit).await {
            tracing::warn!("the head does not have the whole record of a trial");
        }
    }
}

/// Whether a function ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Ended,
    /// Its worker was taken from under it.
    Left,
}

fn failure(error: &TrialError, by: &Reporter, time_ms: Timestamp) -> FirstFailure {
    let traceback = match error {
        TrialError::Raised { traceback, .. } => traceback.as_deref().unwrap_or_default(),
        TrialError::Died(_) | TrialError::NotStarted(_) => "",
    };
    let lines: Vec<&str> = traceback.lines().collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(TRACEBACK_LINES));
    FirstFailure {
        rank: Some(by.rank),
        attempt: 0,
        pid: by.pid,
        host: Some(by.host.clone()),
        exit_code: None,
        signal: None,
        message: error.to_string(),
        log_tail: tail.map(|line| (*line).to_owned()).collect(),
        time_ms,
        consequences: Vec::new(),
    }
}

fn state(state: ControllerState) -> RunVerb {
    RunVerb::SetState(SetState { state, status_detail: None })
}
