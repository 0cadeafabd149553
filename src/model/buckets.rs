//! Buckets of steps or times, and of each the least and the greatest value. The borders of buckets are multiples of their
//! width, which is 2ⁿ or 3·2ⁿ⁻¹, and do not depend on how points are stored: small buckets that are kept beside the points
//! add up to large ones exactly, and curves of several runs line up.

use super::{
    series::Axis,
    track::{Sample, Track},
};

/// Of the points of one bucket what a chart needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Which bucket of its grid.
    pub index: i64,
    /// Points in it.
    pub count: u64,
    /// How many of them are NaN.
    pub nan_count: u64,
    /// Its least and greatest value, each the first of equals, or its first point if all are NaN.
    pub shape: Shape,
}

/// What a bucket looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Its first point; all are NaN.
    Gap(Sample),
    /// The points with the least and with the greatest value.
    Range(Sample, Sample),
}

impl Bucket {
    /// A bucket with one point.
    #[must_use]
    pub fn of(index: i64, sample: Sample) -> Self {
        let nan = sample.value.is_nan();
        let shape = if nan { Shape::Gap(sample) } else { Shape::Range(sample, sample) };
        Self { index, count: 1, nan_count: u64::from(nan), shape }
    }

    /// Adds what comes after it in the same bucket.
    pub fn add(&mut self, next: &Self) {
        self.count += next.count;
        self.nan_count += next.nan_count;
        self.shape = match (self.shape, next.shape) {
            (Shape::Gap(_), range @ Shape::Range(..)) => range,
            (shape, Shape::Gap(_)) => shape,
            (Shape::Range(a, b), Shape::Range(c, d)) => Shape::Range(
                if c.value.total_cmp(&a.value).is_lt() { c } else { a },
                if d.value.total_cmp(&b.value).is_gt() { d } else { b },
            ),
        };
    }
}

/// A division of an axis into buckets of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    width: i64,
}

impl Grid {
    /// The finest grid that has no more than `buckets` buckets between two positions, ends included.
    #[must_use]
    pub fn over(first: i64, last: i64, buckets: usize) -> Self {
        let most = i64::try_from(buckets.max(1)).unwrap_or(i64::MAX);
        let mut half = 1_i64;
        loop {
            // 1, 2, 3, 4, 6, 8, 12, 16, …
            let next = half.saturating_mul(2);
            for width in [half, half.saturating_add(half / 2)] {
                let (from, to) = (first.div_euclid(width), last.div_euclid(width));
                if to.saturating_sub(from) < most || next == i64::MAX {
                    return Self { width };
                }
            }
            half = next;
        }
    }

    /// The bucket of a position.
    #[must_use]
    pub fn bucket(self, position: i64) -> i64 {
        position.div_euclid(self.width)
    }

    /// Whether each bucket of 2^`exponent` lies in one bucket of this grid.
    #[must_use]
    pub fn holds(self, exponent: u32) -> bool {
        self.width.trailing_zeros() >= exponent
    }
}

/// Small buckets of a part of a series, 2^`exponent` steps wide.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollup {
    /// log₂ of the width.
    pub exponent: u32,
    /// Those that hold points, in order.
    pub buckets: Vec<Bucket>,
}

/// Points of a rollup's bucket at the most. A chart of a thousand points has buckets of at least 200 points when a series
/// has 100,000, and the widest power of two in those is wider than half of this: from there on no other points are needed.
const POINTS: i64 = 128;

impl Rollup {
    /// The rollup of a track: some 64 to 128 points a bucket. Empty if that is not worth while.
    #[must_use]
    pub fn of(track: &Track) -> Self {
        let (steps, points) = (track.steps(), i64::try_from(track.len()).unwrap_or(i64::MAX));
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return Self::default() };
        if points < 4 * POINTS {
            return Self::default();
        }
        let wanted = last.saturating_sub(*first).saturating_add(1).saturating_mul(POINTS) / points;
        let exponent = wanted.max(1).ilog2();
        let mut buckets: Vec<Bucket> = Vec::new();
        for sample in track.samples() {
            let one = Bucket::of(sample.step >> exponent, sample);
            match buckets.last_mut() {
                Some(bucket) if bucket.index == one.index => bucket.add(&one),
                _ => buckets.push(one),
            }
        }
        Self { exponent, buckets }
    }
}

/// Thins out by a grid: of each bucket the least and the greatest value, and the first and last point of all.
#[derive(Debug)]
pub struct Thinning {
    grid: Grid,
    axis: Axis,
    current: Option<Bucket>,
    out: Vec<Sample>,
}

impl Thinning {
    /// By this grid on this axis.
    #[must_use]
    pub fn new(grid: Grid, axis: Axis) -> Self {
        Self { grid, axis, current: None, out: Vec::new() }
    }

    /// The next point.
    pub fn point(&mut self, sample: Sample) {
        self.bucket(Bucket::of(self.grid.bucket(self.axis.position(&sample)), sample));
    }

    /// The next small bucket of steps, 2^`exponent` wide, which the grid must hold.
    pub fn rolled(&mut self, exponent: u32, bucket: &Bucket, attempt: u32) {
        let shape = match bucket.shape {
            Shape::Gap(sample) => Shape::Gap(Sample { attempt, ..sample }),
            Shape::Range(a, b) => Shape::Range(Sample { attempt, ..a }, Sample { attempt, ..b }),
        };
        self.bucket(Bucket { index: self.grid.bucket(bucket.index << exponent), shape, ..*bucket });
    }

    fn bucket(&mut self, next: Bucket) {
        match &mut self.current {
            Some(current) if current.index == next.index => current.add(&next),
            _ => {
                self.flush();
                self.current = Some(next);
            }
        }
    }

    fn flush(&mut self) {
        match self.current.take().map(|bucket| bucket.shape) {
            None => {}
            Some(Shape::Gap(sample)) => self.out.push(sample),
            Some(Shape::Range(min, max)) => {
                let ascending = self.axis.position(&min) <= self.axis.position(&max);
                let (a, b) = if ascending { (min, max) } else { (max, min) };
                self.out.push(a);
                if a.step != b.step {
                    self.out.push(b);
                }
            }
        }
    }

    /// The samples, with the very first and last point of all, which are always in.
    #[must_use]
    pub fn finish(mut self, first: Sample, last: Sample) -> Vec<Sample> {
        self.flush();
        if self.out.first().is_none_or(|s| s.step != first.step) {
            self.out.insert(0, first);
        }
        if self.out.last().is_none_or(|s| s.step != last.step) {
            self.out.push(last);
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn track(values: impl IntoIterator<Item = f64>, stride: i64) -> Track {
        let mut track = Track::default();
        let sample = |(i, value): (usize, f64)| {
            let step = i64::try_from(i).unwrap() * stride;
            Sample { step, time_ms: 7 * step, value, attempt: 0 }
        };
        track.extend(values.into_iter().enumerate().map(sample));
        track
    }

    fn ends(track: &Track) -> (Sample, Sample) {
        (track.samples().next().unwrap(), track.samples().next_back().unwrap())
    }

    fn thin(track: &Track, grid: Grid) -> Vec<Sample> {
        let mut thinning = Thinning::new(grid, Axis::Step);
        track.samples().for_each(|sample| thinning.point(sample));
        let (first, last) = ends(track);
        thinning.finish(first, last)
    }

    #[test]
    fn a_spike_among_a_million_zeros_is_shown() {
        let track = track((0..1_000_000).map(|i| if i == 777_777 { 1e3 } else { 0.0 }), 1);
        let samples = thin(&track, Grid::over(0, 999_999, 500));
        assert!(samples.len() <= 1002 && samples.len() > 300, "{}", samples.len());
        assert!(samples.iter().any(|s| s.step == 777_777));
    }

    proptest! {
        #[test]
        fn a_grid_is_as_fine_as_it_may_be(first in -1000i64..100_000, span in 0i64..10_000_000, most in 1usize..2000) {
            let grid = Grid::over(first, first + span, most);
            let used = |grid: Grid| usize::try_from(grid.bucket(first + span) - grid.bucket(first) + 1).unwrap();
            prop_assert!(used(grid) <= most.max(2), "{} of {most}", used(grid));
            prop_assert!(grid.width == 1 || i64::try_from(most).unwrap() * grid.width <= 3 * span + 3 * grid.width);
        }

        #[test]
        fn the_ends_and_the_extremes_survive_in_order(
            values in prop::collection::vec(prop_oneof![5 => -1e9..1e9f64, 1 => Just(f64::NAN)], 1..400),
            stride in 1i64..50,
            most in 1usize..60,
        ) {
            let track = track(values, stride);
            let (first, last) = ends(&track);
            let samples = thin(&track, Grid::over(first.step, last.step, most));
            prop_assert!(samples.len() <= 2 * most.max(2) + 2);
            prop_assert!(samples.is_sorted_by(|a, b| a.step < b.step));
            prop_assert_eq!((samples[0].step, samples.last().unwrap().step), (first.step, last.step));
            let mut thinned = Track::default();
            thinned.extend(samples);
            prop_assert_eq!(thinned.digest().unwrap().range, track.digest().unwrap().range);
        }

        #[test]
        fn rolled_up_parts_thin_out_to_the_same(
            values in prop::collection::vec(prop_oneof![5 => -1e9..1e9f64, 1 => Just(f64::NAN)], 600..3000),
            stride in 1i64..50,
            cut in 0usize..3000,
        ) {
            let track = track(values, stride);
            let (first, last) = ends(&track);
            let parts = [track.part(0, cut.min(track.len())), track.part(cut.min(track.len()), track.len())];
            let rollups: Vec<Rollup> = parts.iter().map(Rollup::of).collect();
            let most = rollups.iter().map(|r| r.exponent).max().unwrap();
            for buckets in [2, 3, 5, 9, 17, 40] {
                let grid = Grid::over(first.step, last.step, buckets);
                if !grid.holds(most) { continue }
                let mut thinning = Thinning::new(grid, Axis::Step);
                for (part, rollup) in parts.iter().zip(&rollups) {
                    if rollup.buckets.is_empty() {
                        part.samples().for_each(|sample| thinning.point(sample));
                    }
                    rollup.buckets.iter().for_each(|bucket| thinning.rolled(rollup.exponent, bucket, 0));
                }
                let rolled = format!("{:?}", thinning.finish(first, last));
                prop_assert_eq!(rolled, format!("{:?}", thin(&track, grid)));
            }
        }
    }
}
