//! Digests: of a chunk, and of all series of a stream.

use super::{Bytes, Scan};
use crate::{
    model::track::{Digest, Sample},
    store::StoreError,
};

const FORM: u8 = 1;
const TABLE: &str = "metric_streams";

/// What is sealed of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sealed {
    pub(crate) key_id: i64,
    pub(crate) digest: Digest,
    /// How many of its last chunks are small, and at which step the first of them begins: in time they become one.
    pub(crate) small: u32,
    pub(crate) small_from: i64,
}

fn put(out: &mut Bytes, digest: &Digest) {
    out.unsigned(digest.count);
    out.unsigned(digest.nan_count);
    for Sample { step, time_ms, value, .. } in [digest.first, digest.last] {
        out.signed(step);
        out.signed(time_ms);
        out.float(value);
    }
    let (min, max) = digest.range.unwrap_or((f64::NAN, f64::NAN));
    out.float(min);
    out.float(max);
    out.signed(digest.times_ms.0);
    out.signed(digest.times_ms.1);
}

fn get(scan: &mut Scan<'_>) -> Result<Digest, StoreError> {
    let (count, nan_count) = (scan.unsigned()?, scan.unsigned()?);
    let mut sample = || {
        let (step, time_ms) = (scan.signed()?, scan.signed()?);
        Ok::<_, StoreError>(Sample { step, time_ms, value: scan.float()?, attempt: 0 })
    };
    let (first, last) = (sample()?, sample()?);
    let range = (scan.float()?, scan.float()?);
    let range = (!range.0.is_nan()).then_some(range);
    Ok(Digest { count, nan_count, first, last, range, times_ms: (scan.signed()?, scan.signed()?) })
}

pub(crate) fn encode_digest(digest: &Digest) -> Vec<u8> {
    let mut out = Bytes::of(FORM);
    put(&mut out, digest);
    out.0
}

/// # Errors
/// When these are not the bytes of a digest.
pub(crate) fn decode_digest(bytes: &[u8]) -> Result<Digest, StoreError> {
    get(&mut Scan::of("metric_chunks", FORM, bytes)?)
}

/// All series of a stream, by the id of their key.
pub(crate) fn encode<'a>(series: impl ExactSizeIterator<Item = &'a Sealed>) -> Vec<u8> {
    let mut out = Bytes::of(FORM);
    out.len(series.len());
    let mut key = 0;
    for sealed in series {
        out.signed(sealed.key_id - key);
        key = sealed.key_id;
        put(&mut out, &sealed.digest);
        out.unsigned(u64::from(sealed.small));
        out.signed(sealed.small_from);
    }
    out.0
}

/// # Errors
/// When these are not the bytes of a stream's summaries.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Sealed>, StoreError> {
    let mut scan = Scan::of(TABLE, FORM, bytes)?;
    let mut key_id = 0_i64;
    let mut out = Vec::new();
    for _ in 0..scan.len()? {
        key_id = key_id.wrapping_add(scan.signed()?);
        let digest = get(&mut scan)?;
        let small = u32::try_from(scan.unsigned()?).unwrap_or(u32::MAX);
        out.push(Sealed { key_id, digest, small, small_from: scan.signed()? });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_read_back() {
        let sample = |step, value| Sample { step, time_ms: step / 2, value, attempt: 0 };
        let a = Digest::of(sample(3, -0.0)).followed_by(Digest::of(sample(9, f64::INFINITY)));
        let all: Vec<Sealed> = [(2, a), (900, Digest::of(sample(i64::MAX, 5e-324)))]
            .map(|(key_id, digest)| Sealed { key_id, digest, small: 1, small_from: 3 })
            .into();
        assert_eq!(decode(&encode(all.iter())).unwrap(), all);
        assert_eq!(decode_digest(&encode_digest(&a)).unwrap(), a);
        let gap = Digest::of(sample(1, f64::NAN));
        assert_eq!(decode_digest(&encode_digest(&gap)).unwrap().range, None);
    }
}
