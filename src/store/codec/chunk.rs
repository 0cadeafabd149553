//! The points of a chunk: steps, times and values, each compressed by pco, which is at the entropy of such columns and
//! reads some 100 million numbers a second.

use pco::{
    ChunkConfig,
    standalone::{simple_compress, simple_decompress},
};

use super::{Bytes, LONG, SHORT, Scan, corrupt, narrow};
use crate::{model::track::Track, store::StoreError};

const FORM: u8 = 1;
const TABLE: &str = "metric_chunks";
/// The level from which on more time brings next to nothing.
const LEVEL: usize = 4;

/// # Errors
/// When it cannot be compressed, which no column is known to cause.
pub(crate) fn encode(track: &Track) -> Result<Vec<u8>, StoreError> {
    let config = ChunkConfig::default().with_compression_level(LEVEL);
    let failed = |e: pco::errors::PcoError| corrupt(TABLE, e.to_string());
    let mut out = Bytes::of(FORM);
    let mut column = |kind: Option<u8>, bytes: Vec<u8>| {
        out.0.extend(kind);
        out.len(bytes.len());
        out.0.extend(bytes);
    };
    column(None, simple_compress(track.steps(), &config).map_err(failed)?);
    column(None, simple_compress(track.times_ms(), &config).map_err(failed)?);
    let short: Option<Vec<f32>> = track.values().iter().map(|x| narrow(*x)).collect();
    match short {
        Some(short) => column(Some(SHORT), simple_compress(&short, &config).map_err(failed)?),
        None => column(Some(LONG), simple_compress(track.values(), &config).map_err(failed)?),
    }
    Ok(out.0)
}

/// # Errors
/// When these are not the bytes of a chunk.
pub(crate) fn decode(bytes: &[u8]) -> Result<Track, StoreError> {
    let failed = |e: pco::errors::PcoError| corrupt(TABLE, e.to_string());
    let mut scan = Scan::of(TABLE, FORM, bytes)?;
    let mut column = || {
        let n = scan.len()?;
        scan.take(n)
    };
    let steps = simple_decompress::<i64>(column()?).map_err(failed)?;
    let times = simple_decompress::<i64>(column()?).map_err(failed)?;
    let kind = scan.byte()?;
    let n = scan.len()?;
    let values = scan.take(n)?;
    let values = if kind == SHORT {
        simple_decompress::<f32>(values).map_err(failed)?.into_iter().map(f64::from).collect()
    } else {
        simple_decompress::<f64>(values).map_err(failed)?
    };
    Track::of(steps, times, values).ok_or_else(|| corrupt(TABLE, "its columns do not fit".to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::track::Sample;

    proptest! {
        #[test]
        fn a_chunk_reads_back_bit_by_bit(
            points in prop::collection::btree_map(0..i64::MAX, (any::<i64>(), any::<u64>()), 1..300),
            short in any::<bool>(),
        ) {
            let mut track = Track::default();
            track.extend(points.iter().map(|(&step, &(time_ms, bits))| {
                let value = if short { f64::from(f32::from_bits(u32::try_from(bits >> 32).unwrap())) } else { f64::from_bits(bits) };
                Sample { step, time_ms, value, attempt: 0 }
            }));
            prop_assert_eq!(decode(&encode(&track).unwrap()).unwrap(), track);
        }
    }

    #[test]
    fn odd_floats_are_kept_bit_by_bit() {
        let odd = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, f64::MAX, 0.1];
        let mut track = Track::default();
        track.extend((0..).zip(odd).map(|(step, value)| Sample { step, time_ms: 0, value, attempt: 0 }));
        assert_eq!(decode(&encode(&track).unwrap()).unwrap(), track);
        assert!(decode(&encode(&track).unwrap()[..9]).is_err());
    }
}
