//! The StateActor: one task, one writing connection, group commit. It takes all that waits, decides each command,
//! commits once, and only then answers.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval},
};
use tracing::{error, warn};

use super::{
    StateError,
    command::Command,
    data_dir::DataDirLock,
    folding::FoldSignals,
    group::{Around, Group},
    reconcile::contact_of,
    shared::{SWEEP, Shared},
    unsealed::Unsealed,
    working_set::WorkingSet,
};
use crate::{
    base::{RunId, error::chain, number, until},
    store::{self, Writer},
};

/// Commands that may wait; more are told to come again.
pub(super) const MAILBOX: usize = 8192;
/// Commands of one commit at the most.
const GROUP: usize = 1024;
/// A sweep that is this late means that the head itself stood still, so its silence says nothing of the controllers.
const SUSPENDED: Duration = Duration::from_secs(5);
/// Pages that a sweep gives back at the most (8 MB): a commit that comes just then waits so long.
const GIVE_BACK: u32 = 2_000;
/// Ticks about a run's metrics are at least this far apart.
const METRIC_TICK: Duration = Duration::from_millis(200);

pub(super) struct Actor {
    writer: Writer,
    set: WorkingSet,
    pub(super) shared: Arc<Shared>,
    mailbox: mpsc::Receiver<Command>,
    /// A commit failed: memory must be read again before the next one.
    stale: bool,
    /// Runs with points that browsers have not been told of.
    pub(super) ticks: HashMap<RunId, usize>,
    /// Pages that hold nothing, if some may be given back: after a purge, and at the start, since an earlier process may
    /// have been broken off at it.
    free_pages: Option<u64>,
    pub(super) unsealed: Unsealed,
    fold: Arc<FoldSignals>,
    _lock: DataDirLock,
}

impl Actor {
    pub(super) fn new(
        writer: Writer,
        set: WorkingSet,
        shared: Arc<Shared>,
        mailbox: mpsc::Receiver<Command>,
        lock: DataDirLock,
        unsealed: Unsealed,
        fold: Arc<FoldSignals>,
    ) -> Self {
        let actor = Self {
            writer,
            set,
            shared,
            mailbox,
            stale: false,
            ticks: HashMap::new(),
            free_pages: Some(u64::MAX),
            unsealed,
            fold,
            _lock: lock,
        };
        actor.publish_next_due();
        actor
    }

    pub(super) async fn run(mut self, stop: tokio_util::sync::CancellationToken) {
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
                _ = sweep.tick() => {
                    self.group(&mut commands, Look::Now).await;
                    self.seal_what_ended().await;
                    self.give_back().await;
                }
                _ = process_ended => self.group(&mut commands, Look::Now).await,
                () = until(tick_at) => {
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
        self.write_down_live().await;
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
            ledger: &shared.ledger,
            windows: &shared.windows,
        };
        self.forgive_own_absence(around.monotonic);
        let mut group = Group::default();
        let looks = look == Look::Now || commands.iter().any(|c| matches!(c, Command::Reconcile { .. }));
        shared.concluding.store(looks, Ordering::Release);
        shared.counters.commands.add(number::size(commands.len()));
        for command in commands.drain(..) {
            self.set.apply(command, &mut group, around);
        }
        if look == Look::Now {
            self.set.reconcile(&mut group, around);
        }
        let listed = group.seal(&mut self.set, around);
        let batch = std::mem::take(&mut group.batch);
        let result = if batch.is_empty() { Ok(()) } else { self.commit(batch).await };
        match result {
            Ok(()) => {
                let reported = std::mem::take(&mut group.reported);
                self.publish(&group, listed);
                self.publish_metrics(reported, &group.sealed);
                shared.concluding.store(false, Ordering::Release);
                group.settle_visited(&mut self.set);
                if !group.purged.is_empty() {
                    self.free_pages = Some(u64::MAX);
                }
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

    async fn commit(&mut self, batch: store::Batch) -> Result<(), StateError> {
        if self.fold.take_nearly()
            && let Err(e) = self.writer.fold().await
        {
            warn!("the log of the database could not be folded: {}", chain(&e));
        }
        let begun = Instant::now();
        let result = self.writer.commit(batch).await.map_err(StateError::from);
        self.fold.committed();
        let counters = &self.shared.counters;
        counters.commits.add(1);
        counters.commit_us.add(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        result
    }

    /// Has all records at hand that the commands need.
    async fn prepare(&mut self, commands: &[Command]) -> Result<(), StateError> {
        if self.stale {
            let key = self.set.key.clone();
            self.set = WorkingSet::load(&mut self.writer, key, &self.shared).await?;
            // Of a commit that failed nobody knows whether it is there.
            self.shared.windows.begin(self.writer.unsealed_batches().await?);
            self.stale = false;
        }
        for command in commands {
            for run in command.runs() {
                let known =
                    self.set.records.contains_key(&run) || self.shared.index.read().get(&run).is_none();
                if !known {
                    self.set.ensure(&run, &mut self.writer).await?;
                    if let Some(record) = self.set.records.get(&run) {
                        // The answer may have to show it.
                        self.shared.index.write().supply(&run, || record.document());
                    }
                }
                if matches!(command, Command::Report { .. }) {
                    self.set.ensure_metrics(&run, &mut self.writer, &self.shared.windows).await?;
                }
            }
        }
        Ok(())
    }

    /// Has the window of a run in memory.
    pub(super) async fn ensure_window(&mut self, run: &RunId) -> Result<(), StateError> {
        if self.shared.windows.get(run).is_none() {
            self.set.ensure_metrics(run, &mut self.writer, &self.shared.windows).await?;
            self.set.evict([run.clone()]);
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

    fn publish_next_due(&self) {
        let due = [&self.set.leases, &self.set.stops].into_iter().filter_map(|l| l.next_due()).min();
        self.shared.next_due_ms.store(due.map_or(i64::MAX, number::millis), Ordering::Release);
    }

    /// Gives back a little of what purges freed, until there is no more.
    async fn give_back(&mut self) {
        let Some(before) = self.free_pages else { return };
        self.free_pages = match self.writer.give_back(GIVE_BACK).await {
            // A file that gets no smaller is one that was made without incremental vacuum.
            Ok(free) => (0 < free && free < before).then_some(free),
            Err(e) => {
                warn!("space of deleted runs is not given back before the next purge: {}", chain(&e));
                None
            }
        };
    }

    /// What is in memory only while a run lives: how far it is, and its last contact.
    async fn write_down_live(&mut self) {
        let mut batch = store::Batch::default();
        for (id, record) in &self.set.records {
            if let Some(facts) = self.shared.live.get(id) {
                batch.progress(id, &facts.progress);
                batch.contact(&contact_of(id, &record.controller));
            }
        }
        if !batch.is_empty()
            && let Err(e) = self.writer.commit(batch).await
        {
            warn!("progress and last contacts were not written down: {}", chain(&e));
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
