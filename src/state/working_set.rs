//! What the StateActor holds in memory between commits: the records of live runs, and of ended ones for as long as a
//! batch needs them. It is derived from the store and can be thrown away and read again at any time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    StateError,
    live::{LiveFacts, LiveMap},
    metrics::{Windows, window_of},
    processes::{ProcessWatch, Sight},
    shared::Shared,
};
use crate::{
    base::{ActorId, RunId, limits, secret::SigningKey},
    model::{RunRecord, lease::Leases, ledger::Ledger, progress::Progress, run::Stop, seqs::SeqSet},
    store::{
        Writer,
        metrics::{LastIds, Stream},
    },
};

#[derive(Debug)]
pub(super) struct WorkingSet {
    pub(super) key: SigningKey,
    pub(super) records: HashMap<RunId, RunRecord>,
    pub(super) metrics: HashMap<RunId, MetricState>,
    /// Progress of ended runs at hand, in case they come back or are resumed.
    pub(super) rested: HashMap<RunId, Progress>,
    pub(super) leases: Leases,
    /// Stops that were asked for and not confirmed.
    pub(super) stops: Leases,
    pub(super) next_event_id: i64,
    /// The ids that are given next.
    pub(super) next: LastIds,
}

/// What is known of a run's metrics.
#[derive(Debug)]
pub(super) struct MetricState {
    pub(super) keys: HashMap<Arc<str>, i64>,
    /// By attempt and rank.
    pub(super) streams: HashMap<(u32, u32), Stream>,
    pub(super) writers: HashMap<ActorId, SeqSet>,
}

impl WorkingSet {
    /// Reads everything live from the store. All leases start anew in full: the head's own absence kills no run.
    pub(super) async fn load(
        writer: &mut Writer,
        key: SigningKey,
        shared: &Shared,
    ) -> Result<Self, StateError> {
        let (live, processes, now) = (&shared.live, &shared.processes, shared.clock.monotonic());
        let mut set = Self {
            key,
            records: HashMap::new(),
            metrics: HashMap::new(),
            rested: HashMap::new(),
            leases: Leases::default(),
            stops: Leases::default(),
            next_event_id: writer.last_event_id().await? + 1,
            next: writer.last_metric_ids().await?.next(),
        };
        live.clear();
        let mut ledger = Ledger::of(shared.node.clone());
        for offer in writer.nodes().await? {
            ledger.know(&offer);
        }
        for record in writer.live_records().await? {
            let known = writer.progress(&record.run.id).await?;
            if set.bring_to_life(&record, known, live, processes, now) == Sight::Gone {
                // It died before this head began: the first question is to find it so, in whichever millisecond.
                set.leases.renew(&record.run.id, Duration::ZERO, Duration::ZERO);
            }
            if let Some(attempt) = record.live_attempt() {
                ledger.set(&record.run.id, &attempt.reservation);
            }
            set.records.insert(record.run.id.clone(), record);
        }
        let mut known = shared.ledger.write();
        ledger.inherit(&known, |run| set.records.contains_key(run));
        *known = ledger;
        drop(known);
        Ok(set)
    }

    /// Starts the lease of a run and the watch over its controller's process; what is seen of that.
    pub(super) fn bring_to_life(
        &mut self,
        record: &RunRecord,
        progress: Progress,
        live: &LiveMap,
        processes: &ProcessWatch,
        now: Duration,
    ) -> Sight {
        let id = &record.run.id;
        let controller = &record.controller;
        let sight = match &controller.process {
            Some(process) => processes.watch(id, process),
            None => Sight::Unknown,
        };
        // A process that is gone already has a lease that ends now.
        let ttl = if sight == Sight::Gone { Duration::ZERO } else { controller.lease_ttl };
        self.leases.renew(id, ttl, now);
        if let Some(stop) = &record.run.stop {
            self.stops.renew(id, stop_limit(stop, controller.lease_ttl), now);
        }
        live.put(
            id,
            LiveFacts {
                progress,
                last_contact: controller.last_contact,
                contact_kept_at: now,
                clock_skew_ms: controller.clock_skew_ms,
                lease_deadline: now.saturating_add(ttl),
                sight,
                training: record.training(),
            },
        );
        sight
    }

    /// Has the record of a run at hand, if there is such a run.
    pub(super) async fn ensure(&mut self, run: &RunId, writer: &mut Writer) -> Result<(), StateError> {
        if !self.records.contains_key(run)
            && let Some(record) = writer.record(run).await?
        {
            if record.run.phase.is_terminal() {
                self.rested.insert(run.clone(), writer.progress(run).await?);
            }
            self.records.insert(run.clone(), record);
        }
        Ok(())
    }

    /// Has what is known of a run's metrics at hand.
    pub(super) async fn ensure_metrics(
        &mut self,
        run: &RunId,
        writer: &mut Writer,
        windows: &Windows,
    ) -> Result<(), StateError> {
        let window = windows.find(run);
        if self.metrics.contains_key(run) && window.is_ok() {
            return Ok(());
        }
        let (keys, streams) = (writer.metric_keys(run).await?, writer.metric_streams(run).await?);
        if let Err(batches) = window {
            let rows = writer.metric_tail(&batches).await?;
            let names = keys.iter().map(|(key, id)| (*id, Arc::clone(key))).collect();
            windows.put(run, window_of(&streams, rows, &names)?);
        }
        let state = MetricState {
            keys,
            streams: streams.into_iter().map(|s| ((s.attempt, s.rank), s)).collect(),
            writers: writer.metric_writers(run).await?,
        };
        self.metrics.insert(run.clone(), state);
        Ok(())
    }

    /// Lets go of runs that have ended.
    pub(super) fn evict(&mut self, runs: impl IntoIterator<Item = RunId>) {
        for run in runs {
            if self.records.get(&run).is_none_or(|r| r.run.phase.is_terminal()) {
                self.records.remove(&run);
                self.metrics.remove(&run);
                self.rested.remove(&run);
            }
        }
    }
}

/// How long a controller has to confirm a stop: its grace, and a lease to say so.
pub(super) fn stop_limit(stop: &Stop, lease: Duration) -> Duration {
    stop.grace_period_ms.map_or(limits::GRACE_DEFAULT, Duration::from_millis).saturating_add(lease)
}
