//! The sealer: one task that takes streams off the StateActor's hands, reads what they reported, compresses it where that
//! holds nobody up, and hands the chunks back to be committed.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{seal::Seal, window::SealState};
use crate::{
    base::{RunId, error::chain},
    state::{StateError, blocking::blocking, command::Command, shared::Shared},
    store::{codec::tail, metrics::Sealing},
};

/// Streams that may wait to be sealed.
const WAITING: usize = 16_384;
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// A stream to be sealed.
#[derive(Clone, Debug)]
pub(in crate::state) struct SealRequest {
    pub(in crate::state) run: RunId,
    pub(in crate::state) stream_id: i64,
    /// Its run has ended: small chunks become one.
    pub(in crate::state) last: bool,
}

/// The task that seals.
#[derive(Debug)]
pub(in crate::state) struct Sealer {
    shared: Arc<Shared>,
    actor: mpsc::WeakSender<Command>,
    requests: mpsc::Receiver<SealRequest>,
}

impl Sealer {
    /// The task, and where it is asked.
    pub(in crate::state) fn new(
        shared: Arc<Shared>,
        actor: &mpsc::Sender<Command>,
    ) -> (Self, mpsc::Sender<SealRequest>) {
        let (sender, requests) = mpsc::channel(WAITING);
        (Self { shared, actor: actor.downgrade(), requests }, sender)
    }

    pub(in crate::state) async fn run(mut self, stop: CancellationToken) {
        loop {
            let request = tokio::select! {
                request = self.requests.recv() => request,
                () = stop.cancelled() => break,
            };
            let Some(request) = request else { break };
            let Err(e) = self.seal(&request).await else { continue };
            // It is asked for again; until then the points are where they were.
            self.shared.windows.update(&request.run, |window| {
                if let Some(stream) = window.by_id(request.stream_id) {
                    stream.seal = SealState::Idle;
                }
            });
            if stop.is_cancelled() {
                break;
            }
            warn!("metrics of run {} stay uncompressed for now: {}", request.run, chain(&e));
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = stop.cancelled() => break,
            }
        }
    }

    async fn seal(&self, request: &SealRequest) -> Result<(), StateError> {
        let &SealRequest { ref run, stream_id, last } = request;
        let sealing = self.compress(run, stream_id, last).await?;
        let Some(actor) = self.actor.upgrade() else { return Err(StateError::Stopping) };
        let (reply, answer) = oneshot::channel();
        let command = Command::Seal { run: run.clone(), last, sealing: Box::new(sealing), reply };
        actor.send(command).await.map_err(|_| StateError::Stopping)?;
        answer.await.map_err(|_| StateError::Stopping)?
    }

    /// Chunks for all that is in the stream's tail now.
    async fn compress(&self, run: &RunId, stream_id: i64, last: bool) -> Result<Sealing, StateError> {
        let batches = self.shared.windows.update(run, |w| w.by_id(stream_id).map(|s| s.unsealed()));
        let batches = batches.flatten().unwrap_or_default();
        let mut snapshot = self.shared.reader.snapshot().await?;
        let Some((stream, sealed)) = snapshot.summary(stream_id).await? else {
            // It was deleted.
            return Ok(Sealing { stream_id, ..Sealing::default() });
        };
        let rows = snapshot.tail(&batches).await?;
        let through = rows.last().map_or(stream.sealed_through, |row| row.id);
        let seal = blocking(move || {
            let mut blocks = Vec::with_capacity(rows.len());
            for row in &rows {
                blocks.extend(tail::decode(&row.points)?);
            }
            Ok::<_, StateError>(Seal::of(stream_id, through, blocks, sealed, last))
        })
        .await??;
        let old = snapshot.chunks(stream_id, &seal.ranges()).await?;
        let digests = snapshot.digests(stream_id, &seal.disordered()).await?;
        drop(snapshot);
        let sealing = blocking(move || seal.finish(old, digests)).await??;
        Ok(Sealing { batches, ..sealing })
    }
}
