//! An Arrow IPC stream: a row for each point, a record batch for some points of one series.

use std::{ops::Range, sync::Arc};

use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};

use super::{Rows, Unwritable};
use crate::model::series::Series;

/// Writes an Arrow IPC stream.
pub(crate) struct ArrowStream {
    schema: Arc<Schema>,
    writer: StreamWriter<Vec<u8>>,
}

impl Rows for ArrowStream {
    fn begin() -> Result<(Self, Vec<u8>), Unwritable> {
        let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let columns = [
            ("key", DataType::Utf8),
            ("attempt", DataType::UInt32),
            ("rank", DataType::UInt32),
            ("step", DataType::Int64),
            ("time_ms", time),
            ("value", DataType::Float64),
        ];
        let fields = columns.map(|(name, kind)| Field::new(name, kind, false));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        let head = std::mem::take(writer.get_mut());
        Ok((Self { schema, writer }, head))
    }

    fn piece(&mut self, series: &Series, points: Range<usize>) -> Result<Vec<u8>, Unwritable> {
        let rows = points.len();
        let steps = series.step.get(points.clone()).unwrap_or_default();
        let times = series.time_ms.get(points.clone()).unwrap_or_default();
        let attempts = series.attempt_at.get(points.clone()).unwrap_or_default();
        let values = series.value.get(points).unwrap_or_default();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&series.key, rows))),
            Arc::new(UInt32Array::from(attempts.to_vec())),
            Arc::new(UInt32Array::from(vec![series.rank; rows])),
            Arc::new(Int64Array::from(steps.to_vec())),
            Arc::new(TimestampMillisecondArray::from(times.to_vec()).with_timezone("UTC")),
            Arc::new(values.iter().map(|value| value.0).collect::<Float64Array>()),
        ];
        self.writer.write(&RecordBatch::try_new(Arc::clone(&self.schema), columns)?)?;
        Ok(std::mem::take(self.writer.get_mut()))
    }

    fn end(mut self) -> Result<Vec<u8>, Unwritable> {
        self.writer.finish()?;
        Ok(std::mem::take(self.writer.get_mut()))
    }
}

impl From<ArrowError> for Unwritable {
    fn from(e: ArrowError) -> Self {
        Self(e.to_string())
    }
}
