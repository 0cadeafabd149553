//! Deciding about metrics: who may deliver them, what of a batch is new, and how far the run is then.

use std::sync::Arc;

use super::{
    StateError,
    command::Points,
    group::{Around, Group, Reported, SealedStream},
    working_set::WorkingSet,
};
use crate::{
    base::{Invalid, RunId, Secret, limits, number, secret::SigningKey},
    model::{Refusal, metrics::Stored, points::count, progress::Progress},
    store::{
        codec::tail,
        metrics::{Sealing, Stream, StreamRow, WriterRow},
    },
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
        let Points { writer, seq, attempt, rank, mut blocks } = batch;
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
            group.batch.metric_key(self.next.key, id, &key);
            state.keys.insert(key, self.next.key);
            self.next.key += 1;
        }
        let stream = *state.streams.entry((attempt, rank)).or_insert_with(|| {
            let stream = Stream { id: self.next.stream, attempt, rank, sealed_through: 0 };
            group.batch.metric_stream(&StreamRow { id: stream.id, run_id: id, attempt, rank });
            self.next.stream += 1;
            stream
        });
        for column in blocks.iter_mut().flat_map(|block| &mut block.columns) {
            // One text for all batches.
            if let Some((known, _)) = state.keys.get_key_value(&column.key) {
                column.key = Arc::clone(known);
            }
        }
        let batch = self.next.batch;
        self.next.batch += 1;
        group.batch.metric_tail(
            batch,
            stream.id,
            &tail::encode(&blocks, |c| state.keys.get(&c.key).copied()),
        );
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
            group.last_reported.insert(id.clone(), progress.last_reported());
            group.touched.entry(id.clone()).or_default();
        }
        group.reported.push(Reported { run: id.clone(), stream, id: batch, blocks });
        Ok(Stored { points: number::size(taken), known: false })
    }

    /// Chunks in place of what a stream reported.
    pub(super) fn seal(
        &self,
        run: RunId,
        last: bool,
        sealing: &Sealing,
        group: &mut Group,
        around: Around<'_>,
    ) -> Result<(), StateError> {
        // Deleted meanwhile, or read anew after a commit that failed.
        if group.purged.contains(&run) || !around.windows.has_stream(&run, sealing.stream_id) {
            return Err(StateError::Unavailable("the stream is not at hand any more".to_owned()));
        }
        if !sealing.chunks.is_empty() {
            group.batch.seal(sealing);
        }
        let &Sealing { stream_id, through, .. } = sealing;
        group.sealed.push(SealedStream { run, stream_id, through, last });
        Ok(())
    }
}
