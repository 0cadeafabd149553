//! What one group commit writes: rows collected by the StateActor, written in one transaction.

use serde::Serialize;

use super::{
    DeadLetterRow, StoreError, WebhookRow, Writer, attempts, checkpoints, events,
    json_row::{Rows, Transaction},
    metrics::{self, KeyRow, Sealing, StreamRow, WriterRow},
    nodes::{self as node_rows, NodeRow},
    progress::{self, ProgressRow},
    purge, runs, webhooks,
};
use crate::{
    base::{RunId, Timestamp},
    model::{Event, RunRecord, Trail, ledger::NodeOffer, progress::Progress, view::Document},
};

/// Rows to be written together. Later rows of the same key replace earlier ones.
#[derive(Debug)]
pub(crate) struct Batch {
    runs: Rows,
    actors: Rows,
    attempts: Rows,
    workers: Rows,
    checkpoints: Rows,
    events: Rows,
    contacts: Rows,
    progress: Rows,
    metric_keys: Rows,
    metric_streams: Rows,
    metric_tail: Rows,
    metric_writers: Rows,
    seals: Rows,
    replaced_chunks: Rows,
    metric_chunks: Rows,
    upgraded: Rows,
    nodes: Rows,
    purged: Rows,
    purged_tail: Rows,
    webhooks: Rows,
    dead_letters: Rows,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            runs: Rows::of("runs"),
            actors: Rows::of("actors"),
            attempts: Rows::of("attempts"),
            workers: Rows::of("workers"),
            checkpoints: Rows::of("checkpoints"),
            events: Rows::of("events"),
            contacts: Rows::of("actors"),
            progress: Rows::of("progress"),
            metric_keys: Rows::of("metric_keys"),
            metric_streams: Rows::of("metric_streams"),
            metric_tail: Rows::of("metric_tail"),
            metric_writers: Rows::of("metric_writers"),
            seals: Rows::of("metric_streams"),
            replaced_chunks: Rows::of("metric_chunks"),
            metric_chunks: Rows::of("metric_chunks"),
            upgraded: Rows::of("metric_points"),
            nodes: Rows::of("nodes"),
            purged: Rows::of("runs"),
            purged_tail: Rows::of("metric_tail"),
            webhooks: Rows::of("webhooks"),
            dead_letters: Rows::of("dead_letters"),
        }
    }
}

/// A contact that changed nothing but its own time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Contact {
    pub(crate) run_id: RunId,
    pub(crate) epoch: u32,
    pub(crate) at: Timestamp,
    pub(crate) clock_skew_ms: Option<i64>,
}

impl Batch {
    /// The run with its controller, and of its attempts and workers those that the trail names. `doc` is the run as a
    /// list shows it.
    pub(crate) fn record(&mut self, record: &RunRecord, doc: &Document, trail: &Trail) {
        runs::push(&mut self.runs, record, doc);
        self.actors.push(&runs::actor_row(record));
        attempts::rows(record, trail).for_each(|row| self.attempts.push(&row));
        attempts::worker_rows(record, trail).for_each(|row| self.workers.push(&row));
        checkpoints::rows(record, trail).for_each(|row| self.checkpoints.push(&row));
    }

    /// An event, whose id is set.
    pub(crate) fn event(&mut self, event: &Event) {
        self.events.push(event);
    }

    pub(crate) fn contact(&mut self, contact: &Contact) {
        self.contacts.push(contact);
    }

    pub(crate) fn progress(&mut self, run_id: &RunId, progress: &Progress) {
        self.progress.push(&ProgressRow { run_id, progress });
    }

    pub(crate) fn metric_key(&mut self, id: i64, run_id: &RunId, key: &str) {
        self.metric_keys.push(&KeyRow { id, run_id, key });
    }

    pub(crate) fn metric_stream(&mut self, row: &StreamRow<'_>) {
        self.metric_streams.push(row);
    }

    /// A batch of a stream, in the form of `codec::tail`.
    pub(crate) fn metric_tail(&mut self, id: i64, stream_id: i64, points: &[u8]) {
        let points = self.metric_tail.long_bytes(points);
        self.metric_tail.push(&(id, stream_id, points));
    }

    /// Chunks in place of a stream's batches.
    pub(crate) fn seal(&mut self, sealing: &Sealing) {
        let Sealing { stream_id, through, batches, summaries, chunks, replaced } = sealing;
        let summaries = self.seals.long_bytes(summaries);
        self.seals.push(&(stream_id, through, summaries, batches));
        replaced.iter().for_each(|id| self.replaced_chunks.push(id));
        for chunk in chunks {
            let long =
                [&chunk.digest, &chunk.rollup, &chunk.points].map(|b| self.metric_chunks.long_bytes(b));
            self.metric_chunks.push(&(chunk.key_id, stream_id, chunk.first_step, chunk.last_step, long));
        }
    }

    pub(crate) fn metric_writer(&mut self, row: &WriterRow<'_>) {
        self.metric_writers.push(row);
    }

    /// The points of a run that an earlier version wrote are in chunks now.
    pub(crate) fn upgraded(&mut self, run_id: &RunId) {
        self.upgraded.push(run_id);
    }

    pub(crate) fn node(&mut self, offer: &NodeOffer, first_seen_ms: Timestamp) {
        self.nodes.push(&NodeRow { node_id: &offer.node_id, offer, first_seen_ms });
    }

    /// Deletes a run with all that belongs to it, these unsealed batches among it, before anything else of this batch is
    /// written.
    pub(crate) fn purge(&mut self, run_id: &RunId, batches: &[i64]) {
        self.purged.push(run_id);
        batches.iter().for_each(|id| self.purged_tail.push(id));
    }

    pub(crate) fn webhook(&mut self, row: &WebhookRow) {
        self.webhooks.push(row);
    }

    pub(crate) fn dead_letter(&mut self, row: &DeadLetterRow) {
        self.dead_letters.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            runs,
            actors,
            attempts,
            workers,
            checkpoints,
            events,
            contacts,
            progress,
            metric_keys,
            metric_streams,
            metric_tail,
            metric_writers,
            seals,
            replaced_chunks,
            metric_chunks,
            upgraded,
            nodes,
            purged,
            purged_tail,
            webhooks,
            dead_letters,
        } = self;
        runs.is_empty()
            && actors.is_empty()
            && attempts.is_empty()
            && workers.is_empty()
            && checkpoints.is_empty()
            && events.is_empty()
            && contacts.is_empty()
            && progress.is_empty()
            && metric_keys.is_empty()
            && metric_streams.is_empty()
            && metric_tail.is_empty()
            && metric_writers.is_empty()
            && seals.is_empty()
            && replaced_chunks.is_empty()
            && metric_chunks.is_empty()
            && upgraded.is_empty()
            && nodes.is_empty()
            && purged.is_empty()
            && purged_tail.is_empty()
            && webhooks.is_empty()
            && dead_letters.is_empty()
    }
}

impl Writer {
    /// Writes all of a batch durably, or nothing of it.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(crate) async fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        // Destructured, so that no table is forgotten.
        let Batch {
            runs,
            actors,
            attempts,
            workers,
            checkpoints: of_checkpoints,
            events,
            contacts,
            progress,
            metric_keys,
            metric_streams,
            metric_tail,
            metric_writers,
            seals,
            replaced_chunks,
            metric_chunks,
            upgraded,
            nodes,
            purged,
            purged_tail,
            webhooks: places,
            dead_letters,
        } = batch;
        let mut tx = Transaction::default();
        // First, as the same id may have been registered anew since.
        tx.add(purged_tail, &[metrics::REMOVE_TAIL])?;
        tx.add(purged, &purge::STATEMENTS)?;
        tx.add(runs, &[runs::WRITE])?;
        tx.add(actors, &[runs::WRITE_ACTORS])?;
        tx.add(attempts, &[attempts::WRITE])?;
        tx.add(workers, &[attempts::WRITE_WORKERS])?;
        tx.add(of_checkpoints, &[checkpoints::FORGET, checkpoints::WRITE])?;
        tx.add(events, &[events::WRITE])?;
        tx.add(contacts, &[runs::WRITE_CONTACTS])?;
        tx.add(progress, &[progress::WRITE])?;
        tx.add(metric_keys, &[metrics::WRITE_KEYS])?;
        tx.add(metric_streams, &[metrics::WRITE_STREAMS])?;
        tx.add(metric_tail, &[metrics::WRITE_TAIL])?;
        tx.add(metric_writers, &[metrics::WRITE_WRITERS])?;
        tx.add(seals, &metrics::WRITE_SEALS)?;
        tx.add(replaced_chunks, &[metrics::REMOVE_CHUNKS])?;
        tx.add(metric_chunks, &[metrics::WRITE_CHUNKS])?;
        tx.add(upgraded, &[metrics::upgrade::REMOVE_OLD_POINTS])?;
        tx.add(nodes, &[node_rows::WRITE])?;
        tx.add(places, &[webhooks::WRITE])?;
        tx.add(dead_letters, &[webhooks::WRITE_DEAD_LETTERS, webhooks::TRIM_DEAD_LETTERS])?;
        tx.commit(&mut self.connection).await
    }
}
