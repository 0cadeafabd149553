//! Deciding about metrics: who may deliver them, what of a batch is new, and how far the run is then.

use std::sync::Arc;

use super::{
    command::Points,
    group::{Around, Group},
    working_set::WorkingSet,
};
use crate::{
    base::{Invalid, RunId, Secret, limits, number, secret::SigningKey},
    model::{Refusal, metrics::Stored, points::count, progress::Progress},
    store::metrics::{PointRow, WriterRow},
};

/// Who delivers metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// The run's controller, of which this is a sign of life.
    Controller,
    /// Somebody who delivers what is late, or who has joined: says nothing of the controller.
    Another,
}

/// The token with which metrics of a run can be delivered, and nothing else be done. Whoever asks may have it, as anybody
/// may register a run: it keeps controllers apart, and those who join from them.
pub(super) fn writer_token(key: &SigningKey, id: &RunId) -> Secret {
    key.token(&[id.as_str(), "writer"])
}

impl WorkingSet {
    pub(super) fn report(
        &mut self,
        id: &RunId,
        token: &Secret,
        batch: Points,
        group: &mut Group,
        around: Around<'_>,
    ) -> Result<Stored, Refusal> {
        let sender = self.sender(id, token)?;
        let result = self.store(id, batch, group, around)?;
        if sender == Sender::Controller {
            self.heard_of(id, None, "the controller reported again", group, around);
        }
        Ok(result)
    }

    fn sender(&self, id: &RunId, token: &Secret) -> Result<Sender, Refusal> {
        let record = self.records.get(id).ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        match record.authorize(token) {
            Ok(()) => Ok(Sender::Controller),
            // What an earlier controller measured is no less true for that.
            Err(Refusal::StaleController { .. }) => Ok(Sender::Another),
            Err(_) if writer_token(&self.key, id).hash().matches(token) => Ok(Sender::Another),
            Err(refusal) => Err(refusal),
        }
    }

    fn store(
        &mut self,
        id: &RunId,
        batch: Points,
        group: &mut Group,
        around: Around<'_>,
    ) -> Result<Stored, Refusal> {
        let Points { writer, seq, attempt, rank, blocks } = batch;
        let record = self.records.get(id).ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        if usize::try_from(attempt).unwrap_or(usize::MAX) >= record.attempts.len().max(1) {
            return Err(Refusal::AttemptNotFound { run: id.clone(), attempt: attempt.to_string() });
        }
        let Some(state) = self.metrics.get_mut(id) else { return Err(Refusal::RunNotFound(id.clone())) };
        let columns = || blocks.iter().flat_map(|block| &block.columns);
        let mut new_keys: Vec<Arc<str>> =
            columns().map(|c| &c.key).filter(|key| !state.keys.contains_key(*key)).cloned().collect();
        new_keys.sort_unstable();
        new_keys.dedup();
        if state.keys.len() + new_keys.len() > limits::METRIC_KEYS {
            return Err(Invalid::over("metrics", limits::METRIC_KEYS, "metric keys in a run").into());
        }
        let stored = state.writers.entry(writer.clone()).or_default();
        let taken = count(&blocks);
        if !stored.insert(seq)? {
            return Ok(Stored { points: number::size(taken), known: true });
        }
        group.batch.metric_writer(&WriterRow { run_id: id, writer: &writer, stored });
        for key in new_keys {
            group.batch.metric_key(self.next_metric_key_id, id, &key);
            state.keys.insert(key, self.next_metric_key_id);
            self.next_metric_key_id += 1;
        }
        let note = |progress: &mut Progress, at| {
            let top = blocks.iter().flat_map(|block| &block.step).max().copied().unwrap_or(0);
            progress.report(attempt, rank, top, at);
            for block in blocks.iter().filter(|_| rank == 0) {
                // Of equal steps the last.
                let Some((row, step)) = block.step.iter().enumerate().max_by_key(|(_, step)| **step) else {
                    continue;
                };
                for column in &block.columns {
                    if let Some(value) = column.values.get(row) {
                        progress.value(&column.key, attempt, *step, *value);
                    }
                }
            }
        };
        let lives = around.live.update(id, |facts| note(&mut facts.progress, around.now)).is_some();
        if !lives && let Some(progress) = self.rested.get_mut(id) {
            // Of a run that has ended: it was measured then, and the list learns of it.
            let measured = blocks.iter().flat_map(|block| &block.time).max().copied();
            note(progress, measured.unwrap_or(around.now));
            group.batch.progress(id, progress);
            group.last_values.insert(id.clone(), progress.last_values());
            group.touched.entry(id.clone()).or_default();
        }
        for block in &blocks {
            for column in &block.columns {
                let Some(&key) = state.keys.get(&column.key) else { continue };
                for ((step, time), value) in block.step.iter().zip(&block.time).zip(&column.values) {
                    group.batch.metric_point(&PointRow::new(key, rank, *step, attempt, *time, *value));
                }
            }
        }
        *group.reported.entry(id.clone()).or_default() += taken;
        Ok(Stored { points: number::size(taken), known: false })
    }
}
