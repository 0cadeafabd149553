//! Leases: who is due, at a cost that follows the number due and not the number alive.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use crate::base::RunId;

/// Deadlines of live runs on the monotonic clock. A lazy heap: renewing overwrites the deadline only; an entry that
/// comes up too early is pushed back.
#[derive(Debug, Default)]
pub struct Leases {
    deadlines: HashMap<RunId, Lease>,
    heap: BinaryHeap<Reverse<(Duration, RunId)>>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    ttl: Duration,
    deadline: Duration,
}

impl Leases {
    /// Starts or renews the lease of a run.
    pub fn renew(&mut self, run: &RunId, ttl: Duration, now: Duration) {
        let deadline = now.saturating_add(ttl);
        match self.deadlines.get_mut(run) {
            // A shorter lease needs an entry of its own, or it would be seen too late.
            Some(lease) if lease.deadline <= deadline => *lease = Lease { ttl, deadline },
            _ => {
                self.deadlines.insert(run.clone(), Lease { ttl, deadline });
                self.heap.push(Reverse((deadline, run.clone())));
            }
        }
    }

    /// Starts all leases anew in full: after the head itself was away.
    pub fn renew_all(&mut self, now: Duration) {
        for lease in self.deadlines.values_mut() {
            lease.deadline = now.saturating_add(lease.ttl);
        }
    }

    /// Forgets a run that has ended.
    pub fn remove(&mut self, run: &RunId) {
        self.deadlines.remove(run);
    }

    /// When the next lease may be due at the earliest.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// When the lease of a run ends.
    #[must_use]
    pub fn deadline(&self, run: &RunId) -> Option<Duration> {
        self.deadlines.get(run).map(|lease| lease.deadline)
    }

    /// Takes out the runs whose lease has ended before `now`.
    pub fn take_expired(&mut self, now: Duration) -> Vec<RunId> {
        let mut expired = Vec::new();
        while let Some(Reverse((at, _))) = self.heap.peek()
            && *at < now
        {
            let Some(Reverse((_, run))) = self.heap.pop() else { break };
            match self.deadlines.get(&run) {
                Some(lease) if lease.deadline < now => {
                    self.deadlines.remove(&run);
                    expired.push(run);
                }
                Some(lease) => self.heap.push(Reverse((lease.deadline, run))),
                None => {}
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_renewed_lease_is_not_due_and_a_silent_one_is_due_once() {
        let (a, b) = (RunId::generate(), RunId::generate());
        let mut leases = Leases::default();
        leases.renew(&a, 30 * S, S);
        leases.renew(&b, 30 * S, S);
        leases.renew(&a, 30 * S, 20 * S);
        assert!(leases.take_expired(31 * S).is_empty());
        assert_eq!(leases.take_expired(32 * S), [b]);
        assert!(leases.take_expired(33 * S).is_empty());
        leases.renew_all(49 * S);
        assert!(leases.take_expired(51 * S).is_empty());
        assert_eq!(leases.take_expired(80 * S), [a]);
        assert_eq!(leases.next_due(), None);
    }

    proptest! {
        #[test]
        fn the_heap_agrees_with_a_scan(ops in prop::collection::vec((0usize..6, 1u32..20, 0u32..10), 1..200)) {
            let ids: Vec<RunId> = (0..6).map(|i| RunId::parse(&format!("r{i}")).unwrap()).collect();
            let (mut leases, mut model, mut now) = (Leases::default(), HashMap::new(), S);
            for (run, ttl, passes) in ops {
                now += S * passes;
                let mut expired = leases.take_expired(now);
                expired.sort();
                let mut expected: Vec<RunId> =
                    model.iter().filter(|(_, d)| **d < now).map(|(r, _): (&RunId, &Duration)| r.clone()).collect();
                expected.sort();
                model.retain(|_, d| *d >= now);
                prop_assert_eq!(expired, expected);
                leases.renew(&ids[run], S * ttl, now);
                model.insert(ids[run].clone(), now + S * ttl);
            }
        }
    }
}
