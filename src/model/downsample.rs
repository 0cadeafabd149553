//! Fewer points that hide nothing: per bucket the least and the greatest value with their own steps.

use super::metrics::MetricValue;

/// A point to be thinned out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Step.
    pub step: i64,
    /// Time, UNIX ms.
    pub time_ms: i64,
    /// Value.
    pub value: MetricValue,
    /// Ordinal of the attempt that it is of.
    pub attempt: u32,
}

/// At most `max` points (never fewer than 4) of `points`, which are in order: the first and the last, and per bucket
/// of equally many points the least and the greatest; a bucket of nothing but NaN keeps one, so that gaps show.
/// The same input gives the same output.
#[must_use]
pub fn min_max(points: &[Sample], max: usize) -> Vec<Sample> {
    let max = max.max(4);
    let [first, inner @ .., last] = points else { return points.to_vec() };
    if points.len() <= max {
        return points.to_vec();
    }
    let buckets = (max - 2) / 2;
    let mut out = Vec::with_capacity(max);
    out.push(*first);
    for i in 0..buckets {
        // Bucket borders as whole numbers: no bucket is empty, since there are more points than buckets.
        let (from, to) = (i * inner.len() / buckets, (i + 1) * inner.len() / buckets);
        let bucket = inner.get(from..to).unwrap_or_default();
        let numbers = || bucket.iter().enumerate().filter(|(_, p)| !p.value.0.is_nan());
        let by_value = |a: &(usize, &Sample), b: &(usize, &Sample)| a.1.value.0.total_cmp(&b.1.value.0);
        // `min_by` keeps the first of equals and `max_by` the last; the order of steps decides which comes first.
        match (numbers().min_by(by_value), numbers().max_by(by_value)) {
            (Some((a, low)), Some((b, high))) if a < b => out.extend([*low, *high]),
            (Some((a, low)), Some((b, high))) if a > b => out.extend([*high, *low]),
            (Some((_, only)), _) => out.push(*only),
            _ => out.extend(bucket.first()),
        }
    }
    out.push(*last);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples(values: impl IntoIterator<Item = f64>) -> Vec<Sample> {
        values
            .into_iter()
            .enumerate()
            .map(|(i, x)| Sample {
                step: i64::try_from(i).unwrap(),
                time_ms: 0,
                value: MetricValue(x),
                attempt: 0,
            })
            .collect()
    }

    #[test]
    fn a_spike_among_a_million_zeros_is_shown() {
        let points = samples((0..1_000_000).map(|i| if i == 777_777 { 1e3 } else { 0.0 }));
        let thin = min_max(&points, 1000);
        assert!(thin.len() <= 1000);
        assert!(thin.iter().any(|p| p.step == 777_777));
        assert_eq!(thin, min_max(&points, 1000));
    }

    proptest! {
        #[test]
        fn the_ends_and_the_extremes_survive_in_order(
            values in prop::collection::vec(prop_oneof![5 => -1e9..1e9f64, 1 => Just(f64::NAN)], 0..400),
            max in 0usize..120,
        ) {
            let points = samples(values);
            let thin = min_max(&points, max);
            prop_assert!(thin.len() <= max.max(4));
            prop_assert!(thin.is_sorted_by_key(|p| p.step));
            prop_assert_eq!(thin.first(), points.first());
            prop_assert_eq!(thin.last(), points.last());
            let extreme = |p: &[Sample], pick: fn(f64, f64) -> f64| {
                p.iter().map(|s| s.value.0).filter(|x| !x.is_nan()).reduce(pick)
            };
            prop_assert_eq!(extreme(&thin, f64::min), extreme(&points, f64::min));
            prop_assert_eq!(extreme(&thin, f64::max), extreme(&points, f64::max));
        }
    }
}
