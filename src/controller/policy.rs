//! Policies: facts in, a decision out. No I/O, no clock.

use std::time::Duration;

use crate::model::{
    NumFailures,
    ledger::{Demand, NodeOffer, Resources},
};

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Try again, after this long.
    Retry(Duration),
    /// End the run with the error.
    Raise,
}

/// How many failures a run may have, by their kind. −1 is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePolicy {
    /// Workers that fail.
    pub max_failures: i64,
    /// Groups that cannot be started for a passing reason.
    pub controller_failure_limit: i64,
    /// Preemptions.
    pub max_preemption_failures: i64,
    /// What follows a preemption.
    pub on_preemption: OnPreemption,
}

/// What follows a preemption that the budget allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnPreemption {
    /// Another attempt, by this controller.
    #[default]
    Restart,
    /// The run ends, to be resumed by whoever queues it again.
    Requeue,
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self {
            max_failures: 0,
            controller_failure_limit: -1,
            max_preemption_failures: -1,
            on_preemption: OnPreemption::default(),
        }
    }
}

const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MOST: Duration = Duration::from_secs(60);

impl FailurePolicy {
    /// A worker failed or hung.
    pub(crate) fn worker_failed(&self, counts: NumFailures) -> Decision {
        retry_if(within(counts.worker, self.max_failures), Duration::ZERO)
    }

    /// The group was preempted.
    pub(crate) fn preempted(&self, counts: NumFailures) -> Decision {
        retry_if(within(counts.preemption, self.max_preemption_failures), Duration::ZERO)
    }

    /// The group could not be started, for the `in_a_row`th time. What will fail in the same way again is not tried.
    pub(crate) fn start_failed(&self, counts: NumFailures, in_a_row: u32, permanent: Permanent) -> Decision {
        let doubled =
            BACKOFF_FIRST.saturating_mul(1u32.checked_shl(in_a_row.saturating_sub(1)).unwrap_or(u32::MAX));
        let again = permanent == Permanent::No && within(counts.controller, self.controller_failure_limit);
        retry_if(again, doubled.min(BACKOFF_MOST))
    }
}

/// Whether another try would fail in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permanent {
    /// It would.
    Yes,
    /// It may not.
    No,
}

fn within(count: u32, limit: i64) -> bool {
    limit < 0 || i64::from(count) <= limit
}

fn retry_if(again: bool, pause: Duration) -> Decision {
    if again { Decision::Retry(pause) } else { Decision::Raise }
}

/// How many workers a group has.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingPolicy {
    /// With fewer the run does not go on.
    pub min_workers: u32,
    /// It has no use for more.
    pub max_workers: u32,
    /// What each worker needs, reserved in the head's ledger; none to start without asking.
    pub resources_per_worker: Option<Resources>,
    /// The only nodes that workers may be placed on, with what they have; any that the head knows if it is empty.
    pub nodes: Vec<NodeOffer>,
    /// How long another number of workers has to stay possible before the group is resized to it: what comes free one by
    /// one makes one resize.
    pub settle: Duration,
}

impl ScalingPolicy {
    /// Always `num_workers`, and nothing is reserved.
    #[must_use]
    pub fn fixed(num_workers: u32) -> Self {
        Self {
            min_workers: num_workers,
            max_workers: num_workers,
            resources_per_worker: None,
            nodes: Vec::new(),
            settle: Duration::from_secs(1),
        }
    }

    /// Whether the size follows the resources.
    #[must_use]
    pub fn is_elastic(&self) -> bool {
        self.min_workers < self.max_workers
    }

    /// The size to go to from `size` when `fits` workers can be had; none to stay.
    pub(crate) fn resize(&self, size: u32, fits: u32) -> Option<u32> {
        let to = fits.clamp(self.min_workers, self.max_workers);
        (self.is_elastic() && to != size).then_some(to)
    }

    /// What is asked of the ledger; none if nothing is reserved.
    pub(crate) fn demand(&self) -> Option<Demand> {
        Some(Demand {
            min_workers: self.min_workers,
            max_workers: self.max_workers,
            resources_per_worker: self.resources_per_worker.clone()?,
            node_ids: self.nodes.iter().map(|node| node.node_id.clone()).collect(),
        })
    }
}

/// What is watched of a group that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthPolicy {
    /// A rank that has reported nothing for this long hangs, which is a failure; never if none.
    pub hang_timeout: Option<Duration>,
    /// When some ranks have ended well and others run on for this long, that is a failure; only said if none.
    pub early_exit_timeout: Option<Duration>,
}

/// Why a group is ended although it does well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The machine is going to be taken away.
    Preemption,
    /// Another attempt of another size follows.
    Resize,
}

/// How a group is drained: how long it is left to itself after the notice, and the grace after the stop signal then.
/// Ranks that do not say that they act on a notice get the signal at once. A preemption's limit is somebody else's, so
/// both have to fit into the one grace.
pub(crate) fn drain(why: Why, grace: Duration, heeded: bool) -> (Duration, Duration) {
    match (why, heeded) {
        (_, false) => (Duration::ZERO, grace),
        (Why::Preemption, true) => (grace * 3 / 4, grace / 4),
        (Why::Resize, true) => (grace, grace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(worker: u32, controller: u32, preemption: u32) -> NumFailures {
        NumFailures { worker, controller, preemption }
    }

    #[test]
    fn a_budget_of_n_allows_n_failures_of_its_kind() {
        for (limit, allowed) in [(0, 0), (1, 1), (3, 3)] {
            let policy = FailurePolicy {
                max_failures: limit,
                max_preemption_failures: limit,
                controller_failure_limit: limit,
                ..FailurePolicy::default()
            };
            for n in 1..6 {
                let retried = |d| matches!(d, Decision::Retry(_));
                assert_eq!(retried(policy.worker_failed(counts(n, 9, 9))), n <= allowed, "{limit} {n}");
                assert_eq!(retried(policy.preempted(counts(9, 9, n))), n <= allowed, "{limit} {n}");
                let start = policy.start_failed(counts(9, n, 9), 1, Permanent::No);
                assert_eq!(retried(start), n <= allowed, "{limit} {n}");
            }
        }
        let unlimited = FailurePolicy { max_failures: -1, ..FailurePolicy::default() };
        assert_eq!(unlimited.worker_failed(counts(u32::MAX, 0, 0)), Decision::Retry(Duration::ZERO));
    }

    #[test]
    fn starts_are_retried_with_a_doubling_pause_unless_they_can_never_succeed() {
        let policy = FailurePolicy::default();
        let pauses: Vec<u64> = (1..9)
            .map(|n| match policy.start_failed(counts(0, n, 0), n, Permanent::No) {
                Decision::Retry(pause) => pause.as_secs(),
                Decision::Raise => unreachable!("unlimited"),
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(policy.start_failed(counts(0, 1, 0), 1, Permanent::Yes), Decision::Raise);
        let most = policy.start_failed(counts(0, u32::MAX, 0), u32::MAX, Permanent::No);
        assert_eq!(most, Decision::Retry(BACKOFF_MOST));
    }

    #[test]
    fn a_group_is_resized_to_what_fits_within_its_bounds_and_only_if_that_is_another_size() {
        let elastic = ScalingPolicy { min_workers: 2, max_workers: 4, ..ScalingPolicy::fixed(4) };
        let cases =
            [(2, 3, Some(3)), (3, 3, None), (4, 9, None), (3, 9, Some(4)), (3, 0, Some(2)), (2, 1, None)];
        for (size, fits, to) in cases {
            assert_eq!(elastic.resize(size, fits), to, "{size} {fits}");
        }
        assert_eq!(ScalingPolicy::fixed(3).resize(3, 9), None);
    }
}
