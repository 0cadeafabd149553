//! The session as a train function in Rust has it.

use std::sync::Arc;

use serde_json::Value;

use super::{Context, ReportAnswer, Session, SessionError, WorkerReport};
use crate::model::metrics::MetricValue;

/// The session as one rank has it: what a train function in Rust gets.
#[derive(Clone, Debug)]
pub struct WorkerSession {
    session: Arc<Session>,
    context: Context,
}

impl WorkerSession {
    pub(in crate::controller) fn new(session: Arc<Session>, context: Context) -> Self {
        Self { session, context }
    }

    /// Who this worker is.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Reports metrics at a step (the report index if none). Leave the train function when the answer says stop.
    ///
    /// # Errors
    /// When a value cannot be stored: a key that is not printable.
    pub fn report<'a>(
        &self,
        step: Option<u64>,
        metrics: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<ReportAnswer, SessionError> {
        let value = |x| serde_json::to_value(MetricValue(x)).unwrap_or_default();
        let metrics = metrics.into_iter().map(|(key, x)| (key.to_owned(), value(x))).collect();
        self.session.report(self.context.rank, WorkerReport { step, time_ms: None, metrics })
    }

    /// Says that this rank acts on a notice by itself, before its group is preempted or resized.
    pub fn heed_notices(&self) {
        // The rank is the session's own.
        let _ = self.session.heeds_notices(self.context.rank);
    }

    /// Hands over what this rank returns; that of rank 0 is the run's.
    pub fn finish(&self, value: Value) {
        let _ = self.session.finish(self.context.rank, value);
    }

    /// Whether the run is to stop.
    #[must_use]
    pub fn stops(&self) -> bool {
        self.session.stops()
    }
}
