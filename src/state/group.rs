//! One group commit in the making: rows, what changed, and answers that wait for the commit.

use std::{collections::HashMap, time::Duration};

use parking_lot::RwLock;

use super::{
    Ack, StateError, command::Reply, index::RunIndex, live::LiveMap, metrics::Windows,
    processes::ProcessWatch, working_set::WorkingSet,
};
use crate::{
    base::{RunId, Timestamp},
    model::{RunRecord, Trail, ledger::Ledger, points::Block, progress::LastReported, view::Document},
    store::{Batch, ListedRun, metrics::Stream},
};

/// One group commit in the making.
#[derive(Default)]
pub(super) struct Group {
    pub(super) batch: Batch,
    /// Runs that changed, with what changed of them.
    pub(super) touched: HashMap<RunId, Trail>,
    /// Runs that are at hand only for this group.
    pub(super) visited: Vec<RunId>,
    /// Batches of metrics, in order.
    pub(super) reported: Vec<Reported>,
    /// Streams that chunks were written of.
    pub(super) sealed: Vec<SealedStream>,
    /// Runs that were deleted.
    pub(super) purged: Vec<RunId>,
    /// What runs that came to rest reported last.
    pub(super) last_reported: HashMap<RunId, LastReported>,
    answers: Vec<Answer>,
}

/// A batch of metrics of this group.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) run: RunId,
    pub(super) stream: Stream,
    /// The batch's id.
    pub(super) id: i64,
    pub(super) blocks: Vec<Block>,
}

/// A stream of which this group writes chunks.
#[derive(Debug)]
pub(super) struct SealedStream {
    pub(super) run: RunId,
    pub(super) stream_id: i64,
    pub(super) through: i64,
    pub(super) last: bool,
}

/// Sends an answer; `None` means that the commit succeeded.
type Answer = Box<dyn FnOnce(Option<StateError>, &RunIndex) + Send>;

/// The surroundings of a decision.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) live: &'a LiveMap,
    pub(super) processes: &'a ProcessWatch,
    pub(super) now: Timestamp,
    pub(super) monotonic: Duration,
    pub(super) ledger: &'a RwLock<Ledger>,
    pub(super) windows: &'a Windows,
}

impl Around<'_> {
    /// The ledger follows the run's live attempt.
    pub(super) fn account(&self, record: &RunRecord) {
        let bundles = record.live_attempt().map(|a| a.reservation.as_slice()).unwrap_or_default();
        let known = self.ledger.read().holds(&record.run.id);
        if known || !bundles.is_empty() {
            self.ledger.write().set(&record.run.id, bundles);
        }
    }
}

impl Group {
    pub(super) fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, result: Result<T, StateError>) {
        self.answers.push(Box::new(move |failed, _| {
            // A caller that is gone needs no answer.
            let _ = reply.send(failed.map_or(result, Err));
        }));
    }

    /// Answers with the run as it is listed after the commit.
    pub(super) fn answer_listed<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        run: RunId,
        result: Result<(), StateError>,
        make: impl FnOnce(Ack) -> T + Send + 'static,
    ) {
        self.answers.push(Box::new(move |failed, index| {
            let doc = index.json(&run).unwrap_or_default();
            let _ = reply.send(failed.map_or(result, Err).map(|()| make(Ack { doc })));
        }));
    }

    /// Sends all answers.
    pub(super) fn settle(self, failed: Option<&StateError>, index: &RunIndex) {
        for answer in self.answers {
            answer(failed.cloned(), index);
        }
    }

    /// Lets go of runs that were at hand only for this group.
    pub(super) fn settle_visited(&mut self, set: &mut WorkingSet) {
        set.evict(std::mem::take(&mut self.visited));
    }

    /// Collects the rows of all runs that changed; gives the lists' new entries.
    pub(super) fn seal(&mut self, set: &mut WorkingSet, around: Around<'_>) -> Vec<(ListedRun, Document)> {
        let mut listed = Vec::new();
        for (id, trail) in &mut self.touched {
            let Some(record) = set.records.get(id) else { continue };
            around.account(record);
            around.live.update(id, |facts| facts.training = record.training());
            let doc = record.document();
            for event in &mut trail.events {
                event.id = set.next_event_id;
                set.next_event_id += 1;
            }
            self.batch.record(record, &doc, trail);
            trail.events.iter().for_each(|event| self.batch.event(event));
            listed.push((ListedRun::of(record, self.last_reported.remove(id)), doc));
        }
        listed
    }
}
