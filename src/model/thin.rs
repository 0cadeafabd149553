//! Other ways of showing fewer points than there are: means, and the shape of the curve.

use super::{buckets::Grid, series::Axis, track::Sample};
use crate::base::number::float;

/// The mean of each bucket of a grid, at the bucket's first point; NaN where all are.
#[must_use]
pub fn mean(points: &[Sample], grid: Grid, axis: Axis) -> Vec<Sample> {
    let same = |a: &Sample, b: &Sample| grid.bucket(axis.position(a)) == grid.bucket(axis.position(b));
    let bucket = |points: &[Sample]| {
        let first = points.first()?;
        let numbers = || points.iter().map(|s| s.value).filter(|x| !x.is_nan());
        let count = numbers().map(|_| 1).sum::<i64>();
        let value = if count == 0 { f64::NAN } else { numbers().sum::<f64>() / float(count) };
        Some(Sample { value, ..*first })
    };
    points.chunk_by(same).filter_map(bucket).collect()
}

/// At most `max` points (never fewer than 3) by the largest triangles of three buckets (S. Steinarsson, "Downsampling
/// Time Series for Visual Representation", 2013): the first, the last, and of each bucket of equally many points the one
/// that spans the largest triangle with the one chosen before and the mean of the next bucket. A NaN spans none.
#[must_use]
pub fn largest_triangles(points: &[Sample], max: usize, axis: Axis) -> Vec<Sample> {
    let max = max.max(3);
    let [first, inner @ .., last] = points else { return points.to_vec() };
    if points.len() <= max {
        return points.to_vec();
    }
    let buckets = max - 2;
    // Borders as whole numbers: no bucket is empty, since there are more points than buckets.
    let bucket = |i: usize| {
        let place = |i: usize| i * inner.len() / buckets;
        inner.get(place(i)..place(i + 1)).unwrap_or_default()
    };
    let x = |s: &Sample| float(axis.position(s));
    let mut out = vec![*first];
    let mut chosen = *first;
    for i in 0..buckets {
        let next = if i + 1 < buckets { bucket(i + 1) } else { std::slice::from_ref(last) };
        let middle = |of: &dyn Fn(&Sample) -> f64| {
            let finite = || next.iter().filter(|s| s.value.is_finite());
            let count = finite().map(|_| 1).sum::<i64>();
            finite().map(of).sum::<f64>() / float(count.max(1))
        };
        let (cx, cy) = (middle(&x), middle(&|s| s.value));
        let area = |s: &Sample| {
            let twice = ((x(&chosen) - cx) * (s.value - chosen.value)
                - (x(&chosen) - x(s)) * (cy - chosen.value))
                .abs();
            if twice.is_nan() { -1.0 } else { twice }
        };
        let largest = bucket(i).iter().copied().reduce(|a, b| if area(&b) > area(&a) { b } else { a });
        if let Some(largest) = largest {
            out.push(largest);
            if largest.value.is_finite() {
                chosen = largest;
            }
        }
    }
    out.push(*last);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: impl IntoIterator<Item = f64>) -> Vec<Sample> {
        let sample = |(step, value)| Sample { step, time_ms: 0, value, attempt: 0 };
        (0..).zip(values).map(sample).collect()
    }

    #[test]
    fn the_mean_leaves_out_what_is_no_number() {
        let points = samples([1.0, f64::NAN, 3.0, f64::NAN, f64::NAN, f64::NAN, 7.0]);
        let means = mean(&points, Grid::over(0, 6, 3), Axis::Step);
        let shown: Vec<_> = means.iter().map(|s| (s.step, s.value.to_string())).collect();
        assert_eq!(shown, [(0, "2".to_owned()), (3, "NaN".to_owned()), (6, "7".to_owned())]);
    }

    #[test]
    fn triangles_keep_the_ends_the_peaks_and_the_number() {
        let mut values = vec![0.0; 10_000];
        values[0] = f64::NAN;
        values[3_333] = 9.0;
        values[5_000] = f64::NAN;
        let thin = largest_triangles(&samples(values), 100, Axis::Step);
        assert_eq!((thin.len(), thin[0].step, thin[99].step), (100, 0, 9_999));
        assert!(thin.iter().any(|s| s.step == 3_333));
        assert!(thin.is_sorted_by(|a, b| a.step < b.step));
    }
}
