//! Attempts as branches of one curve: which attempt's points are shown at which steps.

/// A part of the merged curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Ordinal of the attempt.
    pub attempt: u32,
    /// First step.
    pub from: i64,
    /// Last step.
    pub to: i64,
}

/// For each step the newest attempt that reached it: one whose first and last step enclose it. Given are the attempts
/// with their first and last step; the parts ascend and do not overlap.
#[must_use]
pub fn merged(mut attempts: Vec<Branch>) -> Vec<Branch> {
    attempts.sort_unstable_by_key(|b| std::cmp::Reverse(b.attempt));
    let mut shown: Vec<Branch> = Vec::new();
    for branch in attempts {
        let Branch { attempt, mut from, to } = branch;
        let mut gaps = Vec::new();
        for newer in &shown {
            if newer.to < from {
                continue;
            }
            if newer.from > to {
                break;
            }
            if newer.from > from {
                gaps.push(Branch { attempt, from, to: newer.from - 1 });
            }
            from = newer.to.saturating_add(1);
        }
        if from <= to {
            gaps.push(Branch { attempt, from, to });
        }
        shown.extend(gaps);
        shown.sort_unstable_by_key(|b| b.from);
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_restart_replaces_what_it_does_again() {
        let of = |attempt, from, to| Branch { attempt, from, to };
        assert_eq!(merged(vec![of(0, 0, 1000), of(1, 500, 1200)]), [of(0, 0, 499), of(1, 500, 1200)]);
        assert_eq!(
            merged(vec![of(0, 0, 1000), of(1, 500, 600)]),
            [of(0, 0, 499), of(1, 500, 600), of(0, 601, 1000)]
        );
    }

    proptest! {
        #[test]
        fn each_step_is_shown_by_the_newest_attempt_that_encloses_it(
            ranges in prop::collection::vec((0i64..50, 0i64..50), 0..6),
        ) {
            let attempts: Vec<Branch> = (0..)
                .zip(&ranges)
                .map(|(attempt, &(from, length))| Branch { attempt, from, to: from + length })
                .collect();
            let shown = merged(attempts.clone());
            prop_assert!(shown.is_sorted_by(|a, b| a.to < b.from));
            for step in 0..110 {
                let has = |b: &&Branch| b.from <= step && step <= b.to;
                let newest = attempts.iter().filter(has).map(|b| b.attempt).max();
                prop_assert_eq!(shown.iter().find(has).map(|b| b.attempt), newest);
            }
        }
    }
}
