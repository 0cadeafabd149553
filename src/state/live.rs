//! What is known of live runs right now: contact, lease and progress. Written by the StateActor alone, read by queries.

use std::{collections::HashMap, time::Duration};

use parking_lot::RwLock;

use super::processes::Sight;
use crate::{
    base::{Clock, RunId, Timestamp, number},
    model::{
        progress::Progress,
        run::{ActorStatus, Controller},
        view::{ContactEvidence, Evidence, ProcessEvidence},
    },
};

/// What is known of one live run.
#[derive(Clone, Debug)]
pub(crate) struct LiveFacts {
    pub(crate) progress: Progress,
    pub(crate) last_contact: Timestamp,
    /// When a contact was last written down, on the monotonic clock.
    pub(crate) contact_kept_at: Duration,
    pub(crate) clock_skew_ms: Option<i64>,
    /// End of the lease on the monotonic clock.
    pub(crate) lease_deadline: Duration,
    pub(crate) sight: Sight,
    /// The attempt whose workers train.
    pub(crate) training: Option<u32>,
}

/// Facts of all live runs.
#[derive(Debug, Default)]
pub(crate) struct LiveMap(RwLock<HashMap<RunId, LiveFacts>>);

impl LiveMap {
    pub(crate) fn has(&self, run: &RunId) -> bool {
        self.0.read().contains_key(run)
    }

    pub(crate) fn get(&self, run: &RunId) -> Option<LiveFacts> {
        self.0.read().get(run).cloned()
    }

    /// The last value of a run's metric.
    pub(crate) fn last_value(&self, run: &RunId, key: &str) -> Option<f64> {
        self.0.read().get(run)?.progress.last_value(key)
    }

    /// A run's last step.
    pub(crate) fn last_step(&self, run: &RunId) -> Option<i64> {
        self.0.read().get(run)?.progress.last_step()
    }

    pub(crate) fn put(&self, run: &RunId, facts: LiveFacts) {
        self.0.write().insert(run.clone(), facts);
    }

    pub(crate) fn update<T>(&self, run: &RunId, change: impl FnOnce(&mut LiveFacts) -> T) -> Option<T> {
        self.0.write().get_mut(run).map(change)
    }

    pub(crate) fn remove(&self, run: &RunId) -> Option<LiveFacts> {
        self.0.write().remove(run)
    }

    pub(crate) fn clear(&self) {
        self.0.write().clear();
    }
}

/// The evidence about a run: from what is known right now if it lives, else from what was written down.
pub(crate) fn evidence(
    controller: &Controller,
    live: Option<&LiveFacts>,
    stored: Option<&Progress>,
    clock: &dyn Clock,
) -> Evidence {
    let (now, monotonic) = (clock.now(), clock.monotonic());
    let process = controller.process.as_ref();
    let state = match (controller.status, live.map(|l| l.sight)) {
        (ActorStatus::Alive, Some(Sight::Watched)) => "running",
        _ if controller.process_ended.is_some() => "exited",
        _ => "unknown",
    };
    Evidence {
        process: ProcessEvidence {
            state,
            pid: process.map(|p| p.pid),
            host: process.map(|p| p.host.clone()),
            observed_by: (state != "unknown").then_some("head"),
            observed_at_ms: if state == "running" { Some(now) } else { controller.process_ended },
        },
        contact: ContactEvidence {
            last_contact_ms: live.map_or(controller.last_contact, |l| l.last_contact),
            lease_ttl_ms: number::millis(controller.lease_ttl),
            lease_expires_ms: live.map(|l| now.plus(l.lease_deadline.saturating_sub(monotonic))),
            clock_skew_ms: live.map_or(controller.clock_skew_ms, |l| l.clock_skew_ms),
        },
        progress: match (live, stored) {
            (Some(live), _) => live.progress.view(now, live.training),
            (None, Some(progress)) => progress.view(now, None),
            (None, None) => Progress::default().view(now, None),
        },
    }
}
