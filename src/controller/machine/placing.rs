//! Finding a place for the next attempt: at once where nothing is reserved, else as the head's ledger has room.

use std::time::Duration;

use super::{Attempt, Cause, Machine, State};
use crate::{
    base::{AttemptId, Timestamp},
    controller::{
        steps::{Effect, Outcome},
        words,
    },
    model::{
        ledger::Bundle,
        verbs::{BeginAttempt, Begun, RunVerb},
    },
};

/// A wait for room looks again after this long, even if nothing was heard.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Where the next attempt is, before it has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Placing {
    /// Nobody looks for a place.
    No,
    /// The head was asked to reserve what this attempt needs.
    Asked(AttemptId),
    /// There is no room now.
    Waiting,
}

impl Machine {
    /// Begins the next attempt. No group is there.
    pub(super) fn place(&mut self, now: Timestamp, into: &mut Vec<Effect>) {
        let scaling = &self.rules.scaling;
        let (id, size) = (AttemptId::generate(), scaling.max_workers);
        let detail = format!("placing {}", words::workers(size));
        let unreserved = BeginAttempt::unreserved(id.clone(), size, Some(detail));
        match scaling.demand() {
            None => self.schedule(id, size, Vec::new(), Some(unreserved), now, into),
            Some(demand) => {
                let begin = BeginAttempt {
                    min_workers: Some(demand.min_workers),
                    resources_per_worker: Some(demand.resources_per_worker.clone()),
                    node_ids: demand.node_ids.clone(),
                    nodes: scaling.nodes.clone(),
                    ..unreserved
                };
                self.placing = Placing::Asked(id);
                into.push(Effect::Demand(Some(demand)));
                into.push(Effect::Ask(begin));
            }
        }
    }

    pub(super) fn begun(&mut self, begun: Begun, now: Timestamp, into: &mut Vec<Effect>) {
        let Placing::Asked(id) = std::mem::replace(&mut self.placing, Placing::No) else { return };
        if !self.rules.scaling.is_elastic() {
            into.push(Effect::Demand(None));
        }
        self.schedule(id, begun.num_workers, begun.reservation, None, now, into);
    }

    pub(super) fn no_room(&mut self, detail: &str, into: &mut Vec<Effect>) {
        if let Placing::Asked(_) = self.placing {
            self.placing = Placing::Waiting;
            let detail = format!("waiting for resources: {detail}");
            if self.detail.as_ref() != Some(&detail) {
                self.say_state(Some(detail), into);
            }
            into.push(Effect::Pause(ASK_AGAIN));
        }
    }

    pub(super) fn refused(&mut self, detail: String, now: Timestamp, into: &mut Vec<Effect>) {
        if let Placing::Asked(_) = self.placing {
            self.placing = Placing::No;
            let detail = format!("the workers cannot be placed: {detail}");
            self.shut_down(Outcome::Errored { detail, exit_code: 1 }, now, into);
        }
    }

    /// Nobody waits for a place any more.
    pub(super) fn withdraw(&mut self, into: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.placing, Placing::No) != Placing::No {
            into.push(Effect::Withdraw);
        }
    }

    pub(super) fn pause_over(&mut self, now: Timestamp, into: &mut Vec<Effect>) {
        let again = match self.state {
            State::Initializing | State::Rescheduling | State::Restarting | State::Resizing => true,
            State::Scheduling
            | State::Running
            | State::Preempting
            | State::ShuttingDown(_)
            | State::Ended(_) => false,
        };
        if again && self.attempt.is_none() && !matches!(self.placing, Placing::Asked(_)) {
            self.place(now, into);
        }
    }

    /// So many workers can be had.
    pub(super) fn fits(&mut self, n: u32, now: Timestamp, into: &mut Vec<Effect>) {
        let scaling = &self.rules.scaling;
        if self.placing == Placing::Waiting && n >= scaling.min_workers {
            self.place(now, into);
            return;
        }
        let Some(attempt) = self.attempt.as_ref().filter(|a| a.cause.is_none()) else { return };
        if self.state != State::Running {
            return;
        }
        let to = scaling.resize(attempt.size, n);
        if to.is_some() && to != self.resize_to {
            into.push(Effect::Settle(scaling.settle));
        }
        self.resize_to = to;
    }

    pub(super) fn settled(&mut self, into: &mut Vec<Effect>) {
        let untroubled = self.attempt.as_ref().is_some_and(|a| a.cause.is_none());
        if let (State::Running, true, Some(to)) = (&self.state, untroubled, self.resize_to.take()) {
            into.push(Effect::Resizing(self.attempt.as_ref().map_or(0, |a| a.size), to));
            self.drain(Cause::Resized(to), into);
        }
    }

    fn schedule(
        &mut self,
        id: AttemptId,
        size: u32,
        reservation: Vec<Bundle>,
        begin: Option<BeginAttempt>,
        now: Timestamp,
        into: &mut Vec<Effect>,
    ) {
        self.placing = Placing::No;
        self.enter(State::Scheduling, Some(format!("placing {}", words::workers(size))), into);
        into.extend(begin.map(|begin| Effect::Say(RunVerb::BeginAttempt(begin))));
        let ordinal = self.attempts;
        self.attempts += 1;
        self.attempt = Some(Attempt::new(id, ordinal, size, now));
        into.push(Effect::Announce(ordinal, reservation.clone()));
        into.push(Effect::Start {
            attempt: ordinal,
            restart_count: self.counts.worker,
            num_workers: size,
            reservation,
        });
    }
}
