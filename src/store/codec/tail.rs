//! A batch as it stands in `metric_tail`: its blocks, column by column. This is what a commit writes, so it is made quickly
//! and hardly compressed.

use super::{Bytes, Scan, corrupt};
use crate::{
    base::Timestamp,
    model::points::{Block, Column},
    store::StoreError,
};

const FORM: u8 = 1;

/// The blocks with ids in place of keys; columns of keys that have no id are left out.
pub(crate) fn encode(blocks: &[Block], id_of: impl Fn(&Column) -> Option<i64>) -> Vec<u8> {
    let mut out = Bytes::of(FORM);
    out.len(blocks.len());
    for block in blocks {
        let columns: Vec<(i64, &Column)> =
            block.columns.iter().filter_map(|column| Some((id_of(column)?, column))).collect();
        out.len(block.step.len());
        out.len(columns.len());
        out.ascent(block.step.iter().copied());
        out.ascent(block.time.iter().map(|time| time.as_ms()));
        out.ascent(columns.iter().map(|(id, _)| *id));
        out.floats(columns.iter().flat_map(|(_, column)| &column.values));
    }
    out.0
}

/// A block whose columns have ids.
#[derive(Debug, PartialEq)]
pub(crate) struct TailBlock {
    pub(crate) step: Vec<i64>,
    pub(crate) time_ms: Vec<i64>,
    pub(crate) columns: Vec<(i64, Vec<f64>)>,
}

/// # Errors
/// When these are not the bytes of a batch.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<TailBlock>, StoreError> {
    let mut scan = Scan::of("metric_tail", FORM, bytes)?;
    let mut blocks = Vec::new();
    for _ in 0..scan.len()? {
        let (rows, width) = (scan.len()?, scan.len()?);
        let (step, time_ms, ids) = (scan.ascent(rows)?, scan.ascent(rows)?, scan.ascent(width)?);
        let values = scan.floats(rows.saturating_mul(width))?;
        let columns = ids.into_iter().zip(values.chunks(rows.max(1)).map(<[f64]>::to_vec)).collect();
        blocks.push(TailBlock { step, time_ms, columns });
    }
    if scan.rest.is_empty() {
        Ok(blocks)
    } else {
        Err(corrupt("metric_tail", "it goes on after its end".into()))
    }
}

impl TailBlock {
    /// With the names of its keys; columns of unknown ids are left out.
    pub(crate) fn named(self, name: impl Fn(i64) -> Option<std::sync::Arc<str>>) -> Block {
        Block {
            step: self.step,
            time: self.time_ms.into_iter().map(Timestamp::from_ms).collect(),
            columns: self
                .columns
                .into_iter()
                .filter_map(|(id, values)| Some(Column { key: name(id)?, values }))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn odd_float() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<u64>().prop_map(f64::from_bits),
            any::<f32>().prop_map(f64::from),
            prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, 0.1])
        ]
    }

    proptest! {
        #[test]
        fn a_batch_reads_back_bit_by_bit(
            rows in prop::collection::vec((0..i64::MAX, any::<i64>()), 1..20),
            columns in prop::collection::vec((any::<i64>(), prop::collection::vec(odd_float(), 20)), 1..5),
        ) {
            let block = Block {
                step: rows.iter().map(|r| r.0).collect(),
                time: rows.iter().map(|r| Timestamp::from_ms(r.1)).collect(),
                columns: columns
                    .iter()
                    .map(|(id, values)| Column { key: id.to_string().into(), values: values[..rows.len()].to_vec() })
                    .collect(),
            };
            let blocks = [block.clone(), block];
            let bytes = encode(&blocks, |column| column.key.parse().ok());
            let back: Vec<Block> =
                decode(&bytes).unwrap().into_iter().map(|b| b.named(|id| Some(id.to_string().into()))).collect();
            prop_assert_eq!(back.len(), 2);
            for (a, b) in blocks.iter().zip(&back) {
                prop_assert_eq!((&a.step, &a.time), (&b.step, &b.time));
                let bits = |b: &Block| -> Vec<_> {
                    b.columns.iter().map(|c| (c.key.clone(), c.values.iter().map(|x| x.to_bits()).collect::<Vec<_>>())).collect()
                };
                prop_assert_eq!(bits(a), bits(b));
            }
            for cut in 0..bytes.len() {
                prop_assert!(decode(&bytes[..cut]).is_err());
            }
        }
    }
}
