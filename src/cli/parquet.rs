//! Points as a Parquet file: a row each, in groups that hold many series or a part of one.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use parquet::{
    basic::Compression,
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::parser::parse_message_type,
};

use crate::{
    head::formats::{Rows, Unwritable},
    model::series::Series,
};

const SCHEMA: &str = "message points {
    required binary key (string);
    required int32 attempt (integer(32, false));
    required int32 rank (integer(32, false));
    required int64 step;
    required int64 time_ms (timestamp(millis, true));
    required double value;
}";
/// Rows of a group: many enough to be packed well, few enough to be held in memory.
const GROUP: usize = 128 * 1024;

/// Writes Parquet.
pub(super) struct Parquet {
    writer: SerializedFileWriter<Vec<u8>>,
    waiting: Columns,
}

/// Rows that are not yet many enough.
#[derive(Default)]
struct Columns {
    key: Vec<ByteArray>,
    attempt: Vec<i32>,
    rank: Vec<i32>,
    step: Vec<i64>,
    time_ms: Vec<i64>,
    value: Vec<f64>,
}

impl Rows for Parquet {
    fn begin() -> Result<(Self, Vec<u8>), Unwritable> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut parquet = Self { writer, waiting: Columns::default() };
        let head = parquet.taken()?;
        Ok((parquet, head))
    }

    fn piece(&mut self, series: &Series, points: Range<usize>) -> Result<Vec<u8>, Unwritable> {
        let Columns { key, attempt, rank, step, time_ms, value } = &mut self.waiting;
        let name = ByteArray::from(Bytes::copy_from_slice(series.key.as_bytes()));
        key.extend(std::iter::repeat_n(name, points.len()));
        rank.extend(std::iter::repeat_n(series.rank.cast_signed(), points.len()));
        let attempts = series.attempt_at.get(points.clone()).unwrap_or_default();
        attempt.extend(attempts.iter().map(|ordinal| ordinal.cast_signed()));
        step.extend(series.step.get(points.clone()).unwrap_or_default());
        time_ms.extend(series.time_ms.get(points.clone()).unwrap_or_default());
        value.extend(series.value.get(points).unwrap_or_default().iter().map(|value| value.0));
        if self.waiting.step.len() >= GROUP {
            self.write_group()?;
        }
        self.taken()
    }

    fn end(mut self) -> Result<Vec<u8>, Unwritable> {
        if !self.waiting.step.is_empty() {
            self.write_group()?;
        }
        Ok(self.writer.into_inner()?)
    }
}

impl Parquet {
    fn write_group(&mut self) -> Result<(), Unwritable> {
        let Columns { key, attempt, rank, step, time_ms, value } = std::mem::take(&mut self.waiting);
        let mut group = self.writer.next_row_group()?;
        column::<ByteArrayType>(&mut group, &key)?;
        column::<Int32Type>(&mut group, &attempt)?;
        column::<Int32Type>(&mut group, &rank)?;
        column::<Int64Type>(&mut group, &step)?;
        column::<Int64Type>(&mut group, &time_ms)?;
        column::<DoubleType>(&mut group, &value)?;
        group.close()?;
        Ok(())
    }

    /// What was written since the last time. The writer counts for itself how much there was before.
    fn taken(&mut self) -> Result<Vec<u8>, Unwritable> {
        self.writer.flush().map_err(|e| Unwritable(e.to_string()))?;
        Ok(std::mem::take(self.writer.inner_mut()))
    }
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[T::T],
) -> Result<(), Unwritable> {
    let Some(mut column) = group.next_column()? else {
        return Err(Unwritable("a column too many".to_owned()));
    };
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()?;
    Ok(())
}

impl From<ParquetError> for Unwritable {
    fn from(e: ParquetError) -> Self {
        Self(e.to_string())
    }
}
