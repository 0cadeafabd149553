//! The handle: the public verbs. Ids and times are made here, bodies are checked and secrets masked here, and everything
//! that returns runs is reconciled first.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::{
    StateError, Subscription,
    command::{Command, Edit, Points, Reply},
    counters::StateFigures,
    shared::Shared,
};
use crate::{
    base::{Invalid, RunId, Secret, Timestamp, limits, masking::mask_document, number},
    model::{
        commands::{Heartbeat, HeartbeatAnswer, RegisterRun, Registration, StopRun},
        metrics::{ReportBatch, Stored},
        people::{AnnotateRun, Pin},
        points::Block,
        verbs::{BeginAttempt, Begun, RunVerb},
    },
};

/// Memory that the newest points of runs may take; beyond it reports are told to come again.
const WINDOW_BYTES: usize = 256 << 20;

/// Talks to the StateActor. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StateHandle {
    sender: mpsc::Sender<Command>,
    pub(super) shared: Arc<Shared>,
}

/// A write was committed.
#[derive(Clone, Debug)]
pub struct Ack {
    /// The run as it is listed now, JSON.
    pub doc: Bytes,
}

/// Whether the head can do its work.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Why writes fail just now.
    pub broken: Option<String>,
    /// Age of the last good sweep, ms.
    pub last_sweep_age_ms: i64,
    /// Sweeps and commits that failed since the start.
    pub failures: i64,
    /// Size of the database, bytes.
    pub database_bytes: u64,
    /// Free space for the data directory, bytes; none if the file system does not say.
    pub disk_free_bytes: Option<u64>,
}

impl StateHandle {
    pub(super) fn new(sender: mpsc::Sender<Command>, shared: Arc<Shared>) -> Self {
        Self { sender, shared }
    }

    /// Registers a run, or takes it over.
    ///
    /// # Errors
    /// When a rule is broken, or the id belongs to another registration.
    pub async fn register(&self, mut body: RegisterRun) -> Result<(Registration, Ack), StateError> {
        body.check(self.shared.clock.now()).map_err(refused)?;
        let run = body.id.clone().unwrap_or_else(RunId::generate);
        // Of what was sent, so that a retry with another password is another registration.
        let body_hash = body_hash(&mut body);
        mask_document(&mut body.settings);
        self.reconcile().await?;
        self.ask(|reply| Command::Register { run, body: Box::new(body), body_hash, reply }).await
    }

    /// What the run's controller says about it.
    ///
    /// # Errors
    /// When a rule is broken, the token is not the run's, or the state machine does not allow it.
    pub async fn say(&self, run: &RunId, token: &Secret, verb: RunVerb) -> Result<Ack, StateError> {
        verb.check(self.shared.clock.now()).map_err(refused)?;
        self.ask(|reply| Command::Verb { run: run.clone(), token: token.clone(), verb, reply }).await
    }

    /// Begins an attempt; what it got.
    ///
    /// # Errors
    /// As [`Self::say`], and when what it asks for is not free, or not there.
    pub async fn begin_attempt(
        &self,
        run: &RunId,
        token: &Secret,
        body: BeginAttempt,
    ) -> Result<(Begun, Ack), StateError> {
        body.check().map_err(refused)?;
        let (run, token) = (run.clone(), token.clone());
        self.ask(|reply| Command::BeginAttempt { run, token, body, reply }).await
    }

    /// Stores metrics; what became of the batch.
    ///
    /// # Errors
    /// When a value cannot be stored (then nothing is), or the token is not the run's.
    pub async fn report(
        &self,
        run: &RunId,
        token: &Secret,
        batch: ReportBatch,
    ) -> Result<Stored, StateError> {
        let (writer, seq, attempt, rank) = (batch.writer.clone(), batch.seq, batch.attempt, batch.rank);
        // The sealer is behind: what comes now would only fill the memory.
        if self.shared.windows.bytes() > WINDOW_BYTES {
            return Err(StateError::Busy);
        }
        let mut blocks = batch.into_blocks(self.shared.clock.now()).map_err(refused)?;
        blocks.iter_mut().for_each(Block::sort);
        let points = Points { writer, seq, attempt, rank, blocks };
        self.ask(|reply| Command::Report { run: run.clone(), token: token.clone(), points, reply }).await
    }

    /// Controllers say that they live; an answer for each run, in order.
    ///
    /// # Errors
    /// When too many runs are named, or one wants what nobody can want.
    pub async fn heartbeats(&self, beats: Vec<Heartbeat>) -> Result<Vec<HeartbeatAnswer>, StateError> {
        if beats.len() > limits::HEARTBEAT_RUNS {
            return Err(refused(Invalid::over("runs", limits::HEARTBEAT_RUNS, "runs in one heartbeat")));
        }
        for (i, beat) in beats.iter().enumerate() {
            beat.check(&format!("runs[{i}]")).map_err(refused)?;
        }
        self.ask(|reply| Command::Heartbeats { beats, reply }).await
    }

    /// Asks a run to stop.
    ///
    /// # Errors
    /// When there is no such run, or it has ended.
    pub async fn request_stop(&self, run: &RunId, body: StopRun) -> Result<Ack, StateError> {
        body.check().map_err(refused)?;
        self.reconcile().await?;
        self.ask(|reply| Command::Stop { run: run.clone(), body, reply }).await
    }

    /// Changes name, notes or tags of a run.
    ///
    /// # Errors
    /// When a rule is broken, or there is no such run.
    pub async fn annotate(&self, run: &RunId, body: AnnotateRun) -> Result<Ack, StateError> {
        body.check().map_err(refused)?;
        self.edit(run, Edit::Annotate(body)).await
    }

    /// Keeps a checkpoint whatever retention says, or not any longer.
    ///
    /// # Errors
    /// When there is no such checkpoint, or it is gone.
    pub async fn pin_checkpoint(&self, run: &RunId, number: u64, pin: Pin) -> Result<Ack, StateError> {
        self.edit(run, Edit::Pin(number, pin)).await
    }

    /// Puts an ended run into the trash: lists do not show it any more, nothing of it is lost.
    ///
    /// # Errors
    /// When there is no such run, or it lives.
    pub async fn trash(&self, run: &RunId) -> Result<Ack, StateError> {
        self.reconcile().await?;
        self.edit(run, Edit::Trash).await
    }

    /// Takes a run out of the trash.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn restore(&self, run: &RunId) -> Result<Ack, StateError> {
        self.edit(run, Edit::Restore).await
    }

    /// Deletes for good those of these runs that are in the trash; which ones that were.
    pub(super) async fn purge(&self, runs: Vec<RunId>) -> Result<Vec<RunId>, StateError> {
        self.ask(|reply| Command::Purge { runs, reply }).await
    }

    async fn edit(&self, run: &RunId, edit: Edit) -> Result<Ack, StateError> {
        self.ask(|reply| Command::Edit { run: run.clone(), edit, reply }).await
    }

    /// Brings the records in line with what is known of the controllers, if anything can be due.
    ///
    /// # Errors
    /// When that could not be written.
    pub async fn reconcile(&self) -> Result<(), StateError> {
        if self.shared.anything_due() { self.ask(|reply| Command::Reconcile { reply }).await } else { Ok(()) }
    }

    /// The same before a read: where it cannot be written, what is stored is shown all the same, and `/readyz` says so.
    pub(super) async fn reconcile_to_read(&self) -> Result<(), StateError> {
        match self.reconcile().await {
            Err(StateError::Unavailable(_) | StateError::DiskFull | StateError::Busy) => Ok(()),
            done => done,
        }
    }

    /// Begins to listen to events, after the one with id `last_event_id` if it is given.
    #[must_use]
    pub fn subscribe(&self, last_event_id: Option<&str>) -> Subscription {
        self.shared.hub.subscribe(last_event_id)
    }

    /// How many streams of events are open.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.shared.hub.listeners()
    }

    /// Takes note of a stream that was too slow and had to start anew.
    pub fn count_reset(&self) {
        self.shared.counters.stream_resets.add(1);
    }

    /// Counts and gauges for operators.
    #[must_use]
    pub fn figures(&self) -> StateFigures {
        let shared = &self.shared;
        let counters = &shared.counters;
        let index = shared.index.read();
        let millis = |ms: i64| number::float(ms) / 1000.0;
        StateFigures {
            commands: counters.commands.get(),
            commits: counters.commits.get(),
            commit_seconds: Duration::from_micros(counters.commit_us.get()).as_secs_f64(),
            points: counters.points.get(),
            seals: counters.seals.get(),
            metric_memory_bytes: shared.windows.bytes(),
            events: counters.events.get(),
            stream_resets: counters.stream_resets.get(),
            streams: shared.hub.listeners(),
            purged: counters.purged.get(),
            runs: index.counts(),
            trashed: index.trashed(),
            failures: shared.failures.load(Ordering::Relaxed),
            sweep_age_seconds: millis(shared.clock.now().as_ms() - shared.last_sweep().as_ms()),
            waiting: self.sender.max_capacity() - self.sender.capacity(),
            mailbox: self.sender.max_capacity(),
        }
    }

    /// The server's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Whether the head can do its work.
    ///
    /// # Errors
    /// When the store cannot even be read.
    pub async fn readiness(&self) -> Result<Readiness, StateError> {
        let shared = &self.shared;
        let broken = shared.broken.read().as_ref().map(ToString::to_string);
        Ok(Readiness {
            broken,
            last_sweep_age_ms: shared.clock.now().as_ms() - shared.last_sweep().as_ms(),
            failures: shared.failures.load(Ordering::Relaxed),
            database_bytes: shared.reader.size_bytes().await?,
            disk_free_bytes: shared.data_dir.free_bytes(),
        })
    }

    pub(super) async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, StateError> {
        let (reply, answer) = oneshot::channel();
        self.sender.try_send(command(reply)).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => StateError::Busy,
            mpsc::error::TrySendError::Closed(_) => StateError::Stopping,
        })?;
        answer.await.unwrap_or(Err(StateError::Stopping))
    }
}

fn refused(invalid: Invalid) -> StateError {
    StateError::Refused(invalid.into())
}

/// The same body is the same registration, whatever it says of taking over or joining.
fn body_hash(body: &mut RegisterRun) -> String {
    let (takeover, join) = (std::mem::take(&mut body.takeover), std::mem::take(&mut body.join));
    // Every part of the body has string keys, so that it always is JSON.
    let json = serde_json::to_vec(body).unwrap_or_default();
    (body.takeover, body.join) = (takeover, join);
    blake3::hash(&json).to_hex().to_string()
}
