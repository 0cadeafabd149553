//! The StateActor: one task, one writing connection, group commit. It takes all that waits, decides each command,
//! commits once, and only then answers.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::RwLock;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use tracing::{error, info, warn};

use super::{
    StateError, StateHandle,
    command::Command,
    data_dir::{DataDir, DataDirLock},
    group::{Around, Group},
    hub::Hub,
    index::RunIndex,
    live::LiveMap,
    processes::ProcessWatch,
    shared::{SWEEP, Shared},
    webhooks::WebhookBoard,
    working_set::WorkingSet,
};
use crate::{
    base::{Clock, RunId, Tasks, error::chain, number, secret::SigningKey},
    model::{Phase, RunStatus},
    store::{self, ListedRun, Writer},
};

/// Commands that may wait; more are told to come again.
const MAILBOX: usize = 8192;
/// Commands of one commit at the most.
const GROUP: usize = 1024;
/// A sweep that is this late means that the head itself stood still, so its silence says nothing of the controllers.
const SUSPENDED: Duration = Duration::from_secs(5);
/// Ticks about a run's metrics are at least this far apart.
const METRIC_TICK: Duration = Duration::from_millis(200);

/// What the StateActor needs.
#[derive(Debug)]
pub struct StateOptions {
    /// Where its store lies.
    pub data_dir: DataDir,
    /// The directory's lock.
    pub lock: DataDirLock,
    /// Where it takes time from.
    pub clock: Arc<dyn Clock>,
}

/// The running StateActor.
#[derive(Debug)]
pub struct StateTask {
    tasks: Tasks,
}

impl StateTask {
    /// Finishes what waits, folds the WAL and lets go of the data directory. Returns whether that was in time.
    pub async fn shutdown(self, limit: Duration) -> bool {
        self.tasks.shutdown("the store", limit).await
    }
}

/// Opens the store and starts the StateActor.
///
/// # Errors
/// When the store cannot be opened or is of a later version.
pub async fn start(options: StateOptions) -> Result<(StateHandle, StateTask), StateError> {
    let StateOptions { data_dir, lock, clock } = options;
    let path: PathBuf = data_dir.database();
    let (mut writer, reader) = store::open(&path).await?;
    let io = |e: std::io::Error| StateError::Unavailable(e.to_string());
    let key = match writer.head_value("signing_key").await?.as_deref().and_then(SigningKey::from_hex) {
        Some(key) => key,
        None => {
            let key = SigningKey::generate().map_err(io)?;
            writer.set_head_value("signing_key", key.to_hex()).await?;
            key
        }
    };
    let index = RunIndex::new(writer.listed_runs().await?);
    let shared = Arc::new(Shared {
        data_dir,
        index: RwLock::new(index),
        live: LiveMap::default(),
        hub: Hub::new(),
        processes: ProcessWatch::new().map_err(io)?,
        reader,
        webhooks: WebhookBoard::default(),
        next_due_ms: AtomicI64::new(i64::MAX),
        concluding: AtomicBool::new(false),
        last_look_ms: AtomicI64::new(number::millis(clock.monotonic())),
        last_sweep_ms: AtomicI64::new(clock.now().as_ms()),
        failures: AtomicI64::new(0),
        broken: RwLock::new(None),
        clock,
    });
    let monotonic = shared.clock.monotonic();
    let set = WorkingSet::load(&mut writer, key, &shared.live, &shared.processes, monotonic).await?;
    info!("the store is open: {} live runs", set.records.len());
    let (sender, mailbox) = mpsc::channel(MAILBOX);
    let actor = Actor {
        writer,
        set,
        shared: Arc::clone(&shared),
        mailbox,
        stale: false,
        ticks: HashMap::new(),
        _lock: lock,
    };
    actor.publish_next_due();
    let tasks = Tasks::new();
    let stop = tasks.stopping();
    drop(tasks.spawn(actor.run(stop)));
    Ok((StateHandle::new(sender, shared), StateTask { tasks }))
}

struct Actor {
    writer: Writer,
    set: WorkingSet,
    shared: Arc<Shared>,
    mailbox: mpsc::Receiver<Command>,
    /// A commit failed: memory must be read again before the next one.
    stale: bool,
    /// Runs with points that browsers have not been told of.
    ticks: HashMap<RunId, usize>,
    _lock: DataDirLock,
}

impl Actor {
    async fn run(mut self, stop: tokio_util::sync::CancellationToken) {
        let ended = self
            .shared
            .processes
            .wakeups()
            .inspect_err(|e| warn!("processes are looked at by the clock and on request only: {e}"))
            .ok();
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tick_at: Option<Instant> = None;
        let mut commands = Vec::with_capacity(GROUP);
        loop {
            let tick = async {
                match tick_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let process_ended = async {
                match &ended {
                    Some(fd) => fd.wait(|_| {}).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                n = self.mailbox.recv_many(&mut commands, GROUP) => {
                    if n == 0 { break }
                    self.group(&mut commands, Look::IfAsked).await;
                }
                _ = sweep.tick() => self.group(&mut commands, Look::Now).await,
                _ = process_ended => self.group(&mut commands, Look::Now).await,
                () = tick => {
                    self.publish_ticks();
                    tick_at = None;
                }
                () = stop.cancelled() => break,
            }
            if tick_at.is_none() && !self.ticks.is_empty() {
                tick_at = Some(Instant::now() + METRIC_TICK);
            }
        }
        self.mailbox.close();
        while self.mailbox.recv_many(&mut commands, GROUP).await > 0 {
            self.group(&mut commands, Look::IfAsked).await;
        }
        self.write_down_progress().await;
        self.shared.reader.close().await;
        if let Err(e) = self.writer.close().await {
            error!(
                "the store could not be closed in order; what was acknowledged is in its WAL: {}",
                chain(&e)
            );
        }
    }

    /// One group commit.
    async fn group(&mut self, commands: &mut Vec<Command>, look: Look) {
        if let Err(e) = self.prepare(commands).await {
            self.failed(&e);
            for command in commands.drain(..) {
                command.refuse(e.clone());
            }
            return;
        }
        let shared = Arc::clone(&self.shared);
        let around = Around {
            live: &shared.live,
            processes: &shared.processes,
            now: shared.clock.now(),
            monotonic: shared.clock.monotonic(),
        };
        self.forgive_own_absence(around.monotonic);
        let mut group = Group::default();
        let looks = look == Look::Now || commands.iter().any(|c| matches!(c, Command::Reconcile { .. }));
        shared.concluding.store(looks, Ordering::Release);
        for command in commands.drain(..) {
            self.set.apply(command, &mut group, around);
        }
        if look == Look::Now {
            self.set.reconcile(&mut group, around);
        }
        let listed = group.seal(&mut self.set);
        let batch = std::mem::take(&mut group.batch);
        let result =
            if batch.is_empty() { Ok(()) } else { self.writer.commit(batch).await.map_err(StateError::from) };
        match result {
            Ok(()) => {
                self.publish(&group, listed);
                shared.concluding.store(false, Ordering::Release);
                group.settle_visited(&mut self.set);
                if look == Look::Now {
                    shared.last_sweep_ms.store(around.now.as_ms(), Ordering::Relaxed);
                }
                *shared.broken.write() = None;
                group.settle(None, &shared.index.read());
            }
            Err(e) => {
                self.failed(&e);
                self.stale = true;
                shared.concluding.store(false, Ordering::Release);
                group.settle(Some(&e), &shared.index.read());
            }
        }
        self.publish_next_due();
    }

    /// Has all records at hand that the commands need.
    async fn prepare(&mut self, commands: &[Command]) -> Result<(), StateError> {
        if self.stale {
            let shared = &self.shared;
            let now = shared.clock.monotonic();
            self.set = WorkingSet::load(
                &mut self.writer,
                self.set.key.clone(),
                &shared.live,
                &shared.processes,
                now,
            )
            .await?;
            self.stale = false;
        }
        for command in commands {
            for run in command.runs() {
                let known =
                    self.set.records.contains_key(&run) || self.shared.index.read().get(&run).is_none();
                if !known {
                    self.set.ensure(&run, &mut self.writer).await?;
                }
                if matches!(command, Command::Report { .. }) {
                    self.set.ensure_metrics(&run, &mut self.writer).await?;
                }
            }
        }
        Ok(())
    }

    /// If the head itself stood still (stopped, suspended, a disk that hung), nobody could reach it: all leases start
    /// anew.
    fn forgive_own_absence(&mut self, now: Duration) {
        let last = self.shared.last_look_ms.swap(number::millis(now), Ordering::AcqRel);
        let away = now.saturating_sub(number::from_millis(last));
        if away > SWEEP + SUSPENDED {
            warn!("the head stood still for {away:?}: all leases start anew");
            self.set.leases.renew_all(now);
            self.set.stops.renew_all(now);
        }
    }

    fn publish(&mut self, group: &Group, listed: Vec<ListedRun>) {
        for run in listed {
            let (id, status) = (run.id.clone(), run.status);
            let frame = self.run_frame(&run);
            self.shared.index.write().put(run);
            self.shared.hub.publish(&id, "run", frame);
            if let Some(trail) = group.touched.get(&id) {
                for event in &trail.events {
                    let json = serde_json::to_vec(event).unwrap_or_default();
                    self.shared.hub.publish(&id, "trail", Bytes::from(json));
                    if event.kind == crate::model::EventKind::Run {
                        log_phase(&id, event);
                    }
                }
            }
            if status != RunStatus::Started {
                self.ticks.remove(&id);
            }
        }
        for (run, points) in &group.reported {
            *self.ticks.entry(run.clone()).or_default() += points;
        }
    }

    /// The run as it is listed, and how far it is.
    fn run_frame(&self, run: &ListedRun) -> Bytes {
        let facts = self.shared.live.get(&run.id);
        let progress = serde_json::json!({
            "last_step": facts.as_ref().and_then(|f| f.progress.last_step()),
            "last_report_ms": facts.as_ref().and_then(|f| f.progress.last_report()),
        });
        let open = run.doc.strip_suffix('}').unwrap_or(&run.doc);
        Bytes::from(format!("{open},\"progress\":{progress}}}"))
    }

    fn publish_ticks(&mut self) {
        let now = self.shared.clock.now();
        for (run, points) in self.ticks.drain() {
            let Some(facts) = self.shared.live.get(&run) else { continue };
            let tick = serde_json::json!({
                "run_id": run,
                "last_step": facts.progress.last_step(),
                "time_ms": now,
                "last_metrics": facts.progress.last_metrics(),
                "points": points,
            });
            self.shared.hub.publish(&run, "metrics", Bytes::from(tick.to_string()));
        }
    }

    fn publish_next_due(&self) {
        let due = [&self.set.leases, &self.set.stops].into_iter().filter_map(|l| l.next_due()).min();
        self.shared.next_due_ms.store(due.map_or(i64::MAX, number::millis), Ordering::Release);
    }

    async fn write_down_progress(&mut self) {
        let mut batch = store::Batch::default();
        for id in self.set.records.keys() {
            if let Some(facts) = self.shared.live.get(id) {
                batch.progress(id, &facts.progress);
            }
        }
        if !batch.is_empty()
            && let Err(e) = self.writer.commit(batch).await
        {
            warn!("progress was not written down: {}", chain(&e));
        }
    }

    fn failed(&self, e: &StateError) {
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        let first = self.shared.broken.write().replace(e.clone()).is_none();
        if first {
            error!("the store cannot be written, everything is refused until it can: {e}");
        }
    }
}

/// Whether a group also looks for what is newly dead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    IfAsked,
    Now,
}

fn log_phase(run: &RunId, event: &crate::model::Event) {
    let to = event.to.as_deref().unwrap_or_default();
    let by = event.by;
    let ended = to.parse::<Phase>().is_ok_and(Phase::is_terminal);
    if ended || event.from.is_none() {
        let why = event.reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default();
        info!(run.id = %run, run.phase = to, "run {run} is now {to}, by the {by}{why}");
    }
}
