//! The points of one series, and what is known of them without looking at each.

use super::metrics::MetricValue;

/// One point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Step.
    pub step: i64,
    /// Time, UNIX ms.
    pub time_ms: i64,
    /// Value.
    pub value: f64,
    /// Ordinal of the attempt that it is of, where several attempts make up a series; 0 elsewhere.
    pub attempt: u32,
}

/// Points of one series as columns: steps ascend, and each stands once.
#[derive(Clone, Debug, Default)]
pub struct Track {
    step: Vec<i64>,
    time_ms: Vec<i64>,
    value: Vec<f64>,
    /// Points were added that do not continue the ascent; [`Track::settle`] has not been called since.
    loose: bool,
}

impl PartialEq for Track {
    fn eq(&self, other: &Self) -> bool {
        let bits = |t: &Self| t.value.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        self.step == other.step && self.time_ms == other.time_ms && bits(self) == bits(other)
    }
}

impl Track {
    /// A track of columns that were one before; nothing if they are not of one length or steps do not ascend.
    #[must_use]
    pub fn of(step: Vec<i64>, time_ms: Vec<i64>, value: Vec<f64>) -> Option<Self> {
        let whole =
            step.len() == time_ms.len() && step.len() == value.len() && step.is_sorted_by(|a, b| a < b);
        whole.then_some(Self { step, time_ms, value, loose: false })
    }

    /// Adds points in the order in which they came: of a step that stands twice the later one counts. Call
    /// [`Track::settle`] before anything is read.
    pub fn extend(&mut self, samples: impl IntoIterator<Item = Sample>) {
        for Sample { step, time_ms, value, .. } in samples {
            self.loose |= self.step.last().is_some_and(|last| *last >= step);
            self.step.push(step);
            self.time_ms.push(time_ms);
            self.value.push(value);
        }
    }

    /// Adds points that stand as columns, in the order in which they came, as [`Track::extend`] does.
    pub fn extend_columns(&mut self, step: &[i64], time_ms: &[i64], value: &[f64]) {
        let ascends = step.is_sorted_by(|a, b| a < b);
        let behind = matches!((self.step.last(), step.first()), (Some(last), Some(first)) if last >= first);
        self.loose |= !ascends || behind;
        self.step.extend_from_slice(step);
        self.time_ms.extend_from_slice(time_ms);
        self.value.extend_from_slice(value);
    }

    /// Puts the points in order.
    pub fn settle(&mut self) {
        if !self.loose {
            return;
        }
        let mut samples: Vec<Sample> = self.samples().collect();
        // Stable, so that of equal steps the last one came last.
        samples.sort_by_key(|s| s.step);
        *self = Self::default();
        for sample in samples {
            if self.step.last() == Some(&sample.step) {
                self.step.pop();
                self.time_ms.pop();
                self.value.pop();
            }
            self.step.push(sample.step);
            self.time_ms.push(sample.time_ms);
            self.value.push(sample.value);
        }
    }

    /// How many points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.step.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.step.is_empty()
    }

    /// Steps.
    #[must_use]
    pub fn steps(&self) -> &[i64] {
        &self.step
    }

    /// Times, UNIX ms.
    #[must_use]
    pub fn times_ms(&self) -> &[i64] {
        &self.time_ms
    }

    /// Values.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.value
    }

    /// The points, by step.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = Sample> + ExactSizeIterator + '_ {
        let columns = self.step.iter().zip(&self.time_ms).zip(&self.value);
        columns.map(|((&step, &time_ms), &value)| Sample { step, time_ms, value, attempt: 0 })
    }

    /// Where the points from `step` on begin.
    #[must_use]
    pub fn place(&self, step: i64) -> usize {
        self.step.partition_point(|s| *s < step)
    }

    /// The points from one place to before another.
    #[must_use]
    pub fn part(&self, from: usize, to: usize) -> Self {
        fn of<T: Copy>(column: &[T], from: usize, to: usize) -> Vec<T> {
            column.get(from..to.max(from)).unwrap_or_default().to_vec()
        }
        Self {
            step: of(&self.step, from, to),
            time_ms: of(&self.time_ms, from, to),
            value: of(&self.value, from, to),
            loose: false,
        }
    }

    /// The points of both; where both have a step, those of `newer`.
    #[must_use]
    pub fn overlaid(mut self, newer: Self) -> Self {
        if self.is_empty() {
            return newer;
        }
        self.loose |= match (self.step.last(), newer.step.first()) {
            (Some(last), Some(first)) => last >= first,
            _ => false,
        };
        self.step.extend(newer.step);
        self.time_ms.extend(newer.time_ms);
        self.value.extend(newer.value);
        self.settle();
        self
    }

    /// What is known of it in short; nothing of an empty one.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.samples().map(Digest::of).reduce(Digest::followed_by)
    }
}

/// What is known of a series, or of a part of it, in short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Digest {
    /// Points.
    pub count: u64,
    /// How many of them are NaN.
    pub nan_count: u64,
    /// The point of the lowest step.
    pub first: Sample,
    /// The point of the highest step.
    pub last: Sample,
    /// Least and greatest value; none if all are NaN.
    pub range: Option<(f64, f64)>,
    /// Earliest and latest time, UNIX ms.
    pub times_ms: (i64, i64),
}

impl Digest {
    /// Of one point.
    #[must_use]
    pub fn of(sample: Sample) -> Self {
        let nan = sample.value.is_nan();
        Self {
            count: 1,
            nan_count: u64::from(nan),
            first: sample,
            last: sample,
            range: (!nan).then_some((sample.value, sample.value)),
            times_ms: (sample.time_ms, sample.time_ms),
        }
    }

    /// Of this part and one whose steps are all higher.
    #[must_use]
    pub fn followed_by(self, next: Self) -> Self {
        let range = match (self.range, next.range) {
            (Some((a, b)), Some((c, d))) => Some((least(a, c), greatest(b, d))),
            (a, b) => a.or(b),
        };
        Self {
            count: self.count + next.count,
            nan_count: self.nan_count + next.nan_count,
            first: self.first,
            last: next.last,
            range,
            times_ms: (self.times_ms.0.min(next.times_ms.0), self.times_ms.1.max(next.times_ms.1)),
        }
    }

    /// The least value as it is shown.
    #[must_use]
    pub fn min(&self) -> Option<MetricValue> {
        self.range.map(|(min, _)| MetricValue(min))
    }

    /// The greatest value as it is shown.
    #[must_use]
    pub fn max(&self) -> Option<MetricValue> {
        self.range.map(|(_, max)| MetricValue(max))
    }
}

/// The lesser of two numbers; −0.0 is less than 0.0, so that the order of parts does not matter.
fn least(a: f64, b: f64) -> f64 {
    if b.total_cmp(&a).is_lt() { b } else { a }
}

fn greatest(a: f64, b: f64) -> f64 {
    if b.total_cmp(&a).is_gt() { b } else { a }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_track_is_a_map_in_which_the_later_point_counts(
            older in prop::collection::vec((0i64..40, -5.0..5.0f64), 0..60),
            newer in prop::collection::vec((0i64..40, -5.0..5.0f64), 0..60),
        ) {
            let track = |points: &[(i64, f64)]| {
                let mut track = Track::default();
                track.extend(points.iter().map(|&(step, value)| Sample { step, time_ms: step * 2, value, attempt: 0 }));
                track.settle();
                track
            };
            let whole = track(&older).overlaid(track(&newer));
            let model: BTreeMap<i64, f64> = older.iter().chain(&newer).copied().collect();
            prop_assert_eq!(whole.samples().map(|s| (s.step, s.value)).collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
            for cut in [0, whole.len() / 3, whole.len()] {
                let (a, b) = (whole.part(0, cut).digest(), whole.part(cut, whole.len()).digest());
                let joined = match (a, b) { (Some(a), Some(b)) => Some(a.followed_by(b)), (a, b) => a.or(b) };
                prop_assert_eq!(joined, whole.digest());
            }
        }
    }
}
