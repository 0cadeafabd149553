//! What one group commit writes: rows collected by the StateActor, written in one transaction.

use std::sync::Arc;

use serde::Serialize;
use sqlx::Connection;

use super::{
    StoreError, Writer, attempts, events,
    metrics::{self, KeyRow, PointRow, WriterRow},
    progress, runs,
};
use crate::{
    base::{RunId, Timestamp},
    model::{Event, RunRecord, Trail, progress::Progress},
};

/// Rows to be written together. Later rows of the same key replace earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    runs: Vec<serde_json::Value>,
    actors: Vec<serde_json::Value>,
    attempts: Vec<serde_json::Value>,
    workers: Vec<serde_json::Value>,
    events: Vec<Event>,
    contacts: Vec<Contact>,
    progress: Vec<serde_json::Value>,
    metric_keys: Vec<KeyRow>,
    metric_points: Vec<PointRow>,
    metric_writers: Vec<WriterRow>,
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
    pub(crate) fn record(&mut self, record: &RunRecord, doc: &str, trail: &Trail) {
        self.runs.push(runs::row(record, doc));
        self.actors.push(runs::actor_row(record));
        self.attempts.extend(attempts::rows(record, trail));
        self.workers.extend(attempts::worker_rows(record, trail));
    }

    /// Events, whose ids are set.
    pub(crate) fn events(&mut self, events: impl IntoIterator<Item = Event>) {
        self.events.extend(events);
    }

    pub(crate) fn contact(&mut self, contact: Contact) {
        self.contacts.push(contact);
    }

    pub(crate) fn progress(&mut self, run: &RunId, progress: &Progress) {
        self.progress.push(serde_json::json!({"run_id": run, "progress": progress}));
    }

    pub(crate) fn metric_key(&mut self, id: i64, run: &RunId, key: &Arc<str>) {
        self.metric_keys.push(KeyRow { id, run_id: run.clone(), key: Arc::clone(key) });
    }

    pub(crate) fn metric_point(&mut self, point: PointRow) {
        self.metric_points.push(point);
    }

    pub(crate) fn metric_writer(&mut self, row: WriterRow) {
        self.metric_writers.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            runs,
            actors,
            attempts,
            workers,
            events,
            contacts,
            progress,
            metric_keys,
            metric_points,
            metric_writers,
        } = self;
        runs.is_empty()
            && actors.is_empty()
            && attempts.is_empty()
            && workers.is_empty()
            && events.is_empty()
            && contacts.is_empty()
            && progress.is_empty()
            && metric_keys.is_empty()
            && metric_points.is_empty()
            && metric_writers.is_empty()
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
            events,
            contacts,
            progress,
            metric_keys,
            metric_points,
            metric_writers,
        } = batch;
        let mut tx = self.connection.begin_with("begin immediate").await?;
        runs::write(&mut tx, &runs).await?;
        runs::write_actors(&mut tx, &actors).await?;
        attempts::write(&mut tx, &attempts).await?;
        attempts::write_workers(&mut tx, &workers).await?;
        events::write(&mut tx, &events).await?;
        runs::write_contacts(&mut tx, &contacts).await?;
        progress::write(&mut tx, &progress).await?;
        metrics::write_keys(&mut tx, &metric_keys).await?;
        metrics::write_points(&mut tx, &metric_points).await?;
        metrics::write_writers(&mut tx, &metric_writers).await?;
        tx.commit().await?;
        Ok(())
    }
}
