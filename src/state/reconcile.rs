//! Who lives: contacts that renew, conclusions about those that are gone, and those that come back.

use std::time::Duration;

use super::{
    group::{Around, Group},
    processes::Sight,
    working_set::{WorkingSet, stop_limit},
};
use crate::{
    base::{RunId, Timestamp},
    model::{ControllerState, end_transitions::Conclusion, progress::Progress, run::Controller},
    store::Contact,
};

/// A contact is written down if the last one that was is so old. The store is asked for it only after a crash of the head,
/// and all leases start anew then: what is lost is a second of a dead run's time of end.
const CONTACT_KEPT: Duration = Duration::from_secs(1);

impl WorkingSet {
    /// Concludes what is known to be dead: controllers whose process ended, whose lease ended, or who never confirmed a
    /// stop. The cost follows their number, not the number of live runs.
    pub(super) fn reconcile(&mut self, group: &mut Group, around: Around<'_>) {
        let now = around.now;
        for id in around.processes.take_ended() {
            let Some(process) = self.records.get(&id).and_then(|r| r.controller.process.clone()) else {
                continue;
            };
            around.live.update(&id, |facts| facts.sight = Sight::Gone);
            let gone = Conclusion::process_gone(process.pid, &process.host, now, now);
            self.conclude(&id, gone, group, around);
        }
        for id in self.leases.take_expired(around.monotonic) {
            let Some(record) = self.records.get(&id) else { continue };
            let facts = around.live.get(&id);
            let last_contact = facts.as_ref().map_or(record.controller.last_contact, |f| f.last_contact);
            let conclusion = match (&record.controller.process, facts.map(|f| f.sight)) {
                (Some(p), Some(Sight::Gone)) => Conclusion::process_gone(p.pid, &p.host, last_contact, now),
                _ => Conclusion::lease_expired(last_contact, record.controller.lease_ttl),
            };
            self.conclude(&id, conclusion, group, around);
        }
        for id in self.stops.take_expired(around.monotonic) {
            let Some(record) = self.records.get(&id) else { continue };
            let Some(stop) = record.run.stop.clone() else { continue };
            if record.run.controller_state == Some(ControllerState::ShuttingDown) {
                // It was heard: how long its workers may take is between them, and its lease vouches for it.
                self.stops.renew(&id, stop_limit(&stop, record.controller.lease_ttl), around.monotonic);
                continue;
            }
            self.conclude(&id, Conclusion::stop_unconfirmed(&stop, now), group, around);
        }
    }

    fn conclude(&mut self, id: &RunId, conclusion: Conclusion, group: &mut Group, around: Around<'_>) {
        let Some(record) = self.records.get_mut(id) else { return };
        if let Some(facts) = around.live.get(id) {
            record.controller.last_contact = facts.last_contact;
        }
        record.conclude(conclusion, around.now, group.touched.entry(id.clone()).or_default());
        group.visited.push(id.clone());
        self.let_rest(id, group, around);
    }

    /// The controller was heard of: its lease is renewed, and a run that was concluded comes back.
    pub(super) fn heard_of(
        &mut self,
        id: &RunId,
        client_time: Option<Timestamp>,
        reason: &str,
        group: &mut Group,
        around: Around<'_>,
    ) {
        let Some(record) = self.records.get_mut(id) else { return };
        record.contact(client_time, around.now);
        if record.run.concluded.is_some() {
            record.come_back(around.now, reason, group.touched.entry(id.clone()).or_default());
            // At once, as what comes later in this group must not be given the same.
            around.account(record);
            let record = record.clone();
            let progress = self.rested.remove(id).unwrap_or_default();
            self.bring_to_life(&record, progress, around.live, around.processes, around.monotonic);
        }
        let Some(record) = self.records.get(id).filter(|r| !r.run.phase.is_terminal()) else { return };
        let (controller, ttl) = (&record.controller, record.controller.lease_ttl);
        let alive = around.live.update(id, |facts| {
            // The last words of a process that is gone vouch for nobody.
            let ttl = if facts.sight == Sight::Gone { Duration::ZERO } else { ttl };
            facts.last_contact = around.now;
            facts.clock_skew_ms = controller.clock_skew_ms;
            facts.lease_deadline = around.monotonic.saturating_add(ttl);
            let keep = around.monotonic.saturating_sub(facts.contact_kept_at) >= CONTACT_KEPT;
            if keep {
                facts.contact_kept_at = around.monotonic;
            }
            (ttl, keep)
        });
        let (ttl, keep) = alive.unwrap_or((ttl, true));
        if keep {
            group.batch.contact(&contact_of(id, controller));
        }
        self.leases.renew(id, ttl, around.monotonic);
    }

    /// An ended run is watched no more and wants nothing, and its progress is written down.
    pub(super) fn let_rest(&mut self, id: &RunId, group: &mut Group, around: Around<'_>) {
        self.leases.remove(id);
        self.stops.remove(id);
        around.processes.forget(id);
        around.ledger.write().want(id, None);
        if let Some(facts) = around.live.remove(id) {
            if facts.progress != Progress::default() {
                group.batch.progress(id, &facts.progress);
            }
            group.last_reported.insert(id.clone(), facts.progress.last_reported());
            // It may go on in this very group.
            self.rested.insert(id.clone(), facts.progress);
        }
    }
}

/// The last contact, to be written down.
pub(super) fn contact_of(id: &RunId, controller: &Controller) -> Contact {
    Contact {
        run_id: id.clone(),
        epoch: controller.epoch,
        at: controller.last_contact,
        clock_skew_ms: controller.clock_skew_ms,
    }
}
