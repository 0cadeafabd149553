//! The `StateClient` trait: how a controller talks to the state, in process or over HTTP.

use async_trait::async_trait;
use bytes::Bytes;

use super::{StateError, StateHandle};
use crate::{
    base::{RunId, Secret},
    model::{
        commands::{Heartbeat, HeartbeatAnswer, RegisterRun, Registration},
        metrics::{ReportBatch, Stored},
        verbs::{BeginAttempt, Begun, RunVerb},
    },
};

/// Why a message did not go through.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answered, or not now: worth another try.
    #[error("the head cannot be reached: {0}")]
    Unreachable(String),
    /// It was understood and refused: another try gets the same answer.
    #[error("the head refused it ({slug}): {detail}")]
    Refused {
        /// The stable word for it, `run-exists`.
        slug: String,
        /// What the head said.
        detail: String,
    },
}

/// What a controller needs of the state.
#[async_trait]
pub trait StateClient: Send + Sync + std::fmt::Debug {
    /// The head's address, if it is always the same one.
    fn address(&self) -> Option<String> {
        None
    }
    /// Registers a run.
    async fn register(&self, body: RegisterRun) -> Result<Registration, ClientError>;
    /// Says something about a run.
    async fn say(&self, run: &RunId, token: &Secret, verb: RunVerb) -> Result<(), ClientError>;
    /// Begins an attempt and says what it got.
    async fn begin_attempt(
        &self,
        run: &RunId,
        token: &Secret,
        body: BeginAttempt,
    ) -> Result<Begun, ClientError>;
    /// Appends bytes that begin at `offset` to the log of an attempt's rank; how long it is after that.
    async fn append_log(
        &self,
        run: &RunId,
        token: &Secret,
        whose: (u32, u32),
        offset: u64,
        bytes: Bytes,
    ) -> Result<u64, ClientError>;
    /// Stores metrics of a run.
    async fn report(&self, run: &RunId, token: &Secret, batch: ReportBatch) -> Result<Stored, ClientError>;
    /// Says that its controller lives.
    async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatAnswer, ClientError>;
}

#[async_trait]
impl StateClient for StateHandle {
    async fn register(&self, body: RegisterRun) -> Result<Registration, ClientError> {
        Ok(Self::register(self, body).await?.0)
    }

    async fn say(&self, run: &RunId, token: &Secret, verb: RunVerb) -> Result<(), ClientError> {
        Self::say(self, run, token, verb).await?;
        Ok(())
    }

    async fn begin_attempt(
        &self,
        run: &RunId,
        token: &Secret,
        body: BeginAttempt,
    ) -> Result<Begun, ClientError> {
        let (begun, _) = Self::begin_attempt(self, run, token, body).await?;
        Ok(begun)
    }

    async fn append_log(
        &self,
        run: &RunId,
        token: &Secret,
        whose: (u32, u32),
        offset: u64,
        bytes: Bytes,
    ) -> Result<u64, ClientError> {
        Ok(Self::append_log(self, run, token, whose, offset, bytes).await?)
    }

    async fn report(&self, run: &RunId, token: &Secret, batch: ReportBatch) -> Result<Stored, ClientError> {
        Ok(Self::report(self, run, token, batch).await?)
    }

    async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatAnswer, ClientError> {
        let answers = self.heartbeats(vec![beat]).await?;
        answers.into_iter().next().ok_or_else(|| ClientError::Unreachable("no answer to a heartbeat".into()))
    }
}

impl From<StateError> for ClientError {
    fn from(e: StateError) -> Self {
        match e {
            StateError::Refused(refusal) => {
                Self::Refused { slug: super::apply::slug(&refusal).to_owned(), detail: refusal.to_string() }
            }
            StateError::Busy
            | StateError::DiskFull
            | StateError::Unavailable(_)
            | StateError::Stopping
            | StateError::NewerDatabase { .. } => Self::Unreachable(e.to_string()),
        }
    }
}
