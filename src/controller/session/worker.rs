//! The session as a train function in Rust has it.

use std::{
    path::PathBuf,
    pin::pin,
    sync::Arc,
    task::{Poll, Wake, Waker},
    thread::Thread,
};

use serde_json::Value;

use super::{Context, ReportAnswer, Session, SessionError, WorkerReport};
use crate::{
    controller::checkpoints::{HandedShard, UploadMode, Usable},
    model::metrics::MetricValue,
};

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

    /// Reports metrics at a step (the report's index if none). Leave the train function when the answer says stop.
    ///
    /// # Errors
    /// When a value cannot be stored: a key that is not printable.
    pub fn report<'a>(
        &self,
        step: Option<u64>,
        metrics: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<ReportAnswer, SessionError> {
        self.hand_over(step, metrics, None)
    }

    /// The same with a checkpoint of this step: the files of a directory, which is an absolute path and stays. When this
    /// returns they are moved, unless `mode` says otherwise. The next attempt finds them by [`WorkerSession::checkpoint`]
    /// when every rank has handed its own or has gone past the step.
    ///
    /// # Errors
    /// When a value cannot be stored, when `directory` is none, or when its files cannot be moved.
    pub fn report_checkpoint<'a>(
        &self,
        step: Option<u64>,
        metrics: impl IntoIterator<Item = (&'a str, f64)>,
        directory: impl Into<PathBuf>,
        mode: UploadMode,
    ) -> Result<ReportAnswer, SessionError> {
        let shard =
            HandedShard { path: directory.into(), upload_mode: mode, delete_local: false, ranks: None };
        self.hand_over(step, metrics, Some(shard))
    }

    /// The checkpoint to go on from: the latest one that is whole, as a directory on this node.
    ///
    /// # Errors
    /// When it cannot be fetched.
    pub fn checkpoint(&self) -> Result<Option<Usable>, SessionError> {
        block_on(self.session.checkpoint(self.context.rank))
    }

    fn hand_over<'a>(
        &self,
        step: Option<u64>,
        metrics: impl IntoIterator<Item = (&'a str, f64)>,
        checkpoint: Option<HandedShard>,
    ) -> Result<ReportAnswer, SessionError> {
        let value = |x| serde_json::to_value(MetricValue(x)).unwrap_or_default();
        let metrics = metrics.into_iter().map(|(key, x)| (key.to_owned(), value(x))).collect();
        let report = WorkerReport { seq: None, step, time_ms: None, metrics, checkpoint };
        if !self.session.is_in(self.context.attempt) {
            // A thread of an attempt that was given up: nothing of it belongs to the next one.
            return Ok(ReportAnswer { stop: true, report_index: 0, preemption: None, checkpoint: None });
        }
        block_on(self.session.report(self.context.rank, report))
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
        self.session.stops() || !self.session.is_in(self.context.attempt)
    }
}

/// Waits on a thread of the user's, which may have a runtime of its own.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = std::task::Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
