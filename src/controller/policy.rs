//! Policies: facts in, a decision out. No I/O, no clock.

use std::time::Duration;

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
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self { max_failures: 0, controller_failure_limit: -1 }
    }
}

const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MOST: Duration = Duration::from_secs(60);

impl FailurePolicy {
    /// A worker failed for the `count`th time.
    pub(crate) fn worker_failed(&self, count: u32) -> Decision {
        if within(count, self.max_failures) { Decision::Retry(Duration::ZERO) } else { Decision::Raise }
    }

    /// The group could not be started for the `count`th time in a row. What will fail in the same way again is not tried.
    pub(crate) fn start_failed(&self, count: u32, permanent: Permanent) -> Decision {
        if permanent == Permanent::Yes || !within(count, self.controller_failure_limit) {
            return Decision::Raise;
        }
        let doubled =
            BACKOFF_FIRST.saturating_mul(1u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX));
        Decision::Retry(doubled.min(BACKOFF_MOST))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_n_allows_n_failures() {
        for (max_failures, allowed) in [(0, 0), (1, 1), (3, 3)] {
            let policy = FailurePolicy { max_failures, ..FailurePolicy::default() };
            for count in 1..6 {
                let retried = policy.worker_failed(count) == Decision::Retry(Duration::ZERO);
                assert_eq!(retried, count <= allowed, "{max_failures} {count}");
            }
        }
        let unlimited = FailurePolicy { max_failures: -1, ..FailurePolicy::default() };
        assert_eq!(unlimited.worker_failed(u32::MAX), Decision::Retry(Duration::ZERO));
    }

    #[test]
    fn starts_are_retried_with_a_doubling_pause_unless_they_can_never_succeed() {
        let policy = FailurePolicy::default();
        let pauses: Vec<u64> = (1..9)
            .map(|n| match policy.start_failed(n, Permanent::No) {
                Decision::Retry(pause) => pause.as_secs(),
                Decision::Raise => unreachable!("unlimited"),
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(policy.start_failed(1, Permanent::Yes), Decision::Raise);
        let limited = FailurePolicy { controller_failure_limit: 2, ..policy };
        assert_eq!(limited.start_failed(3, Permanent::No), Decision::Raise);
        assert_eq!(policy.start_failed(u32::MAX, Permanent::No), Decision::Retry(BACKOFF_MOST));
    }
}
