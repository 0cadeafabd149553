//! The head of a data directory, wherever it is just now: if it dies, its successor is used, and if there is none, this
//! process becomes it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::{
    head::{EmbeddedHead, Port, Published},
    options::Global,
    terminal::say,
};
use crate::{
    base::{RunId, Secret},
    model::{
        commands::{Heartbeat, HeartbeatAnswer, RegisterRun, Registration},
        metrics::{ReportBatch, Stored},
        verbs::{BeginAttempt, Begun, RunVerb},
    },
    state::{ClientError, DataDir, HttpState, StateClient},
};

/// A client that follows the head of a data directory.
#[derive(Clone)]
pub(super) struct Follower {
    global: Global,
    data_dir: DataDir,
    now: Arc<Mutex<Now>>,
}

/// The head in use.
pub(super) enum Now {
    Elsewhere(HttpState),
    Here(EmbeddedHead),
    /// This process is at its end.
    Left,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

impl Follower {
    pub(super) fn new(global: &Global, data_dir: DataDir, now: Now) -> Self {
        Self { global: global.clone(), data_dir, now: Arc::new(Mutex::new(now)) }
    }

    /// The head that this process is, if it has become one; it is not followed any more.
    pub(super) async fn leave(&self) -> Option<EmbeddedHead> {
        match std::mem::replace(&mut *self.now.lock().await, Now::Left) {
            Now::Here(head) => Some(head),
            Now::Elsewhere(_) | Now::Left => None,
        }
    }

    async fn client(&self) -> Result<Arc<dyn StateClient>, ClientError> {
        match &*self.now.lock().await {
            Now::Elsewhere(http) => Ok(Arc::new(http.clone())),
            Now::Here(head) => Ok(Arc::new(head.state.clone())),
            Now::Left => Err(ClientError::Unreachable("this process is at its end".to_owned())),
        }
    }

    /// Passes an answer on. If nobody answered, looks for who serves the directory now: the next try goes there.
    async fn heard<T>(&self, result: Result<T, ClientError>) -> Result<T, ClientError> {
        if matches!(result, Err(ClientError::Unreachable(_)))
            && let Err(e) = self.look().await
        {
            warn!("no head for {}: {}", self.data_dir.root().display(), e);
        }
        result
    }

    async fn look(&self) -> anyhow::Result<()> {
        let mut now = self.now.lock().await;
        let Now::Elsewhere(known) = &*now else { return Ok(()) };
        if let Some(lock) = self.data_dir.try_lock()? {
            let port = Port::Preferably(self.global.port);
            let head =
                EmbeddedHead::start(&self.global, self.data_dir.clone(), lock, port, Published::Yes).await?;
            if !self.global.quiet {
                say(&format!("trainhead: the head is gone; TrainHead is at {}", head.url));
            }
            *now = Now::Here(head);
        } else if let Some(info) = self.data_dir.head_info().filter(|info| info.url != known.url()) {
            info!("the head is at {} now", info.url);
            *now = Now::Elsewhere(HttpState::new(&info.url)?);
        }
        Ok(())
    }
}

#[async_trait]
impl StateClient for Follower {
    async fn register(&self, body: RegisterRun) -> Result<Registration, ClientError> {
        let client = self.client().await?;
        self.heard(client.register(body).await).await
    }

    async fn say(&self, run: &RunId, token: &Secret, verb: RunVerb) -> Result<(), ClientError> {
        let client = self.client().await?;
        self.heard(client.say(run, token, verb).await).await
    }

    async fn begin_attempt(
        &self,
        run: &RunId,
        token: &Secret,
        body: BeginAttempt,
    ) -> Result<Begun, ClientError> {
        let client = self.client().await?;
        self.heard(client.begin_attempt(run, token, body).await).await
    }

    async fn append_log(
        &self,
        run: &RunId,
        token: &Secret,
        whose: (u32, u32),
        offset: u64,
        bytes: Bytes,
    ) -> Result<u64, ClientError> {
        let client = self.client().await?;
        self.heard(client.append_log(run, token, whose, offset, bytes).await).await
    }

    async fn report(&self, run: &RunId, token: &Secret, batch: ReportBatch) -> Result<Stored, ClientError> {
        let client = self.client().await?;
        self.heard(client.report(run, token, batch).await).await
    }

    async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatAnswer, ClientError> {
        let client = self.client().await?;
        self.heard(client.heartbeat(beat).await).await
    }
}
