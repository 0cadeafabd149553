//! The small buckets of a chunk.

use super::{Bytes, Scan};
use crate::{
    model::{
        buckets::{Bucket, Rollup, Shape},
        track::Sample,
    },
    store::StoreError,
};

const FORM: u8 = 1;

pub(crate) fn encode(rollup: &Rollup) -> Vec<u8> {
    let mut out = Bytes::of(FORM);
    out.len(rollup.buckets.len());
    out.unsigned(u64::from(rollup.exponent));
    let (mut index, mut time) = (0, 0_i64);
    let mut values = Vec::new();
    for bucket in &rollup.buckets {
        out.signed(bucket.index - index);
        index = bucket.index;
        out.unsigned(bucket.count);
        out.unsigned(bucket.nan_count);
        let samples = match bucket.shape {
            Shape::Gap(sample) => [Some(sample), None],
            Shape::Range(min, max) => [Some(min), Some(max)],
        };
        for sample in samples.into_iter().flatten() {
            out.signed(sample.step - (index << rollup.exponent));
            out.signed(sample.time_ms.wrapping_sub(time));
            time = sample.time_ms;
            values.push(sample.value);
        }
    }
    out.floats(values.iter());
    out.0
}

/// log₂ of its buckets' width; nothing if it has none.
///
/// # Errors
/// When these are not the bytes of a rollup.
pub(crate) fn exponent(bytes: &[u8]) -> Result<Option<u32>, StoreError> {
    let mut scan = Scan::of("metric_chunks", FORM, bytes)?;
    let n = scan.unsigned()?;
    Ok(if n == 0 { None } else { u32::try_from(scan.unsigned()?).ok() })
}

/// # Errors
/// When these are not the bytes of a rollup.
pub(crate) fn decode(bytes: &[u8]) -> Result<Rollup, StoreError> {
    let mut scan = Scan::of("metric_chunks", FORM, bytes)?;
    let n = scan.len()?;
    let exponent = u32::try_from(scan.unsigned()?).unwrap_or(0).min(62);
    let (mut index, mut time, mut samples) = (0_i64, 0_i64, 0);
    let mut buckets = Vec::with_capacity(n);
    for _ in 0..n {
        index = index.wrapping_add(scan.signed()?);
        let (count, nan_count) = (scan.unsigned()?, scan.unsigned()?);
        let mut sample = || {
            samples += 1;
            let step = (index << exponent).wrapping_add(scan.signed()?);
            time = time.wrapping_add(scan.signed()?);
            Ok::<_, StoreError>(Sample { step, time_ms: time, value: f64::NAN, attempt: 0 })
        };
        let shape =
            if count == nan_count { Shape::Gap(sample()?) } else { Shape::Range(sample()?, sample()?) };
        buckets.push(Bucket { index, count, nan_count, shape });
    }
    let mut values = scan.floats(samples)?.into_iter();
    for bucket in &mut buckets {
        match &mut bucket.shape {
            Shape::Gap(sample) => sample.value = values.next().unwrap_or(f64::NAN),
            Shape::Range(min, max) => {
                min.value = values.next().unwrap_or(f64::NAN);
                max.value = values.next().unwrap_or(f64::NAN);
            }
        }
    }
    Ok(Rollup { exponent, buckets })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::track::Track;

    #[test]
    fn a_rollup_reads_back() {
        for stride in [1, 3, 1000] {
            let mut track = Track::default();
            track.extend((0..4096).map(|i| Sample {
                step: 17 + i * stride,
                time_ms: 1_800_000_000_000 + i * 50,
                value: if i % 900 < 100 { f64::NAN } else { f64::from(u32::try_from(i).unwrap()).sin() },
                attempt: 0,
            }));
            let rollup = Rollup::of(&track);
            assert!((32..=66).contains(&rollup.buckets.len()), "{}", rollup.buckets.len());
            let back = decode(&encode(&rollup)).unwrap();
            // NaN is not equal to itself.
            assert_eq!(format!("{back:?}"), format!("{rollup:?}"));
        }
    }
}
