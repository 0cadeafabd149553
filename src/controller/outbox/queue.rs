//! The queue: everything that is still to be said, in one order. What was put in last is in memory; when that is too
//! much, its oldest part goes to segments on disk, and comes back a segment at a time. Plain bookkeeping, no I/O: it says
//! which segment is to be written or read, and is told how that went.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use super::item::Item;
use crate::{
    base::AttemptId,
    model::{
        ControllerState, Phase,
        metrics::ReportBatch,
        verbs::{BeginAttempt, Begun, RunVerb},
    },
    state::ClientError,
};

/// Where the answer to a new attempt goes.
pub(super) type BeginAnswer = Result<Begun, ClientError>;

/// How much the queue holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Items in memory before the oldest go to disk.
    pub(super) items: usize,
    /// The same in bytes, roughly.
    pub(super) weight: usize,
    /// Most of one segment, which is in memory while it is delivered.
    pub(super) segment_items: usize,
    /// The same in bytes, roughly.
    pub(super) segment_weight: usize,
    /// Bytes on disk beyond which nothing more goes there.
    pub(super) spool_bytes: u64,
}

/// While the disk takes nothing, memory holds this many times its limits before metrics are dropped.
const PATIENCE: usize = 4;

impl Default for Limits {
    fn default() -> Self {
        Self {
            items: 4096,
            weight: 16 * 1024 * 1024,
            segment_items: 1024,
            segment_weight: 4 * 1024 * 1024,
            spool_bytes: 1024 * 1024 * 1024,
        }
    }
}

/// What comes next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Item(Item),
    /// A segment is to be read and handed in by [`Queue::loaded`].
    Load(u64),
    /// A segment is delivered and can go.
    Remove(u64),
    Nothing,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    items: usize,
    weight: usize,
}

/// What of the memory is to go to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spill {
    /// What is too much.
    Excess,
    /// Everything: the head is away, and this process may not see it come back.
    Everything,
    /// The same, and however much is there already: this is the end.
    Last,
}

/// A part of the queue on its way to the disk: what is to be added to the segment of this number.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) number: u64,
    pub(super) items: Vec<Item>,
    weight: usize,
}

/// Everything that is to be said.
#[derive(Debug, Default)]
pub(super) struct Queue {
    limits: Limits,
    /// What is left of the segment that is being delivered.
    front: VecDeque<Item>,
    delivering: Option<Segment>,
    /// Oldest first.
    segments: VecDeque<Segment>,
    spooled_bytes: u64,
    last_segment: u64,
    /// Newer than all segments.
    back: VecDeque<Item>,
    back_weight: usize,
    /// The state that was said before the newest one, and the newest one.
    before: Option<ControllerState>,
    newest: Option<ControllerState>,
    begins: HashMap<u64, oneshot::Sender<BeginAnswer>>,
    last_ticket: u64,
    /// The number of the newest batch. A batch gets its own when it is put in, so that whoever delivers it, and however
    /// often, it is stored once.
    last_seq: u64,
    /// The attempt that was withdrawn last: the head may not know it.
    withdrawn: Option<AttemptId>,
    dropped_points: u64,
    /// Nothing more is taken, because of this.
    closed: Option<ClientError>,
    flush: Option<oneshot::Sender<()>>,
}

impl Queue {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Puts in a verb, which is never dropped. Of two states in a row the newer is enough, where the head's table allows
    /// to go there at once.
    pub(super) fn say(&mut self, verb: RunVerb) {
        if let RunVerb::SetState(new) = &verb {
            let before = self.before;
            if let Some(Item::Say(RunVerb::SetState(waiting))) = self.back.back_mut()
                && may_follow(before, new.state)
            {
                self.newest = Some(new.state);
                waiting.clone_from(new);
                return;
            }
            self.before = self.newest.replace(new.state);
        }
        self.push(Item::Say(verb));
    }

    /// Puts in a new attempt.
    pub(super) fn begin(&mut self, body: BeginAttempt) -> oneshot::Receiver<BeginAnswer> {
        let (answer, receiver) = oneshot::channel();
        if let Some(why) = &self.closed {
            // Nobody waits for it if this fails.
            let _ = answer.send(Err(why.clone()));
            return receiver;
        }
        self.last_ticket += 1;
        self.begins.insert(self.last_ticket, answer);
        self.push(Item::Begin { ticket: self.last_ticket, body });
        receiver
    }

    /// Puts in metrics; whether there was room for them. What is dropped has no number.
    pub(super) fn report(&mut self, batch: ReportBatch) -> bool {
        let item = Item::Report(ReportBatch { seq: self.last_seq + 1, ..batch });
        let full = self.back.len() >= self.limits.items.saturating_mul(PATIENCE)
            || self.back_weight >= self.limits.weight.saturating_mul(PATIENCE);
        if full {
            self.dropped_points += item.points();
        } else {
            self.last_seq += 1;
            self.push(item);
        }
        !full
    }

    fn push(&mut self, item: Item) {
        if self.closed.is_none() {
            self.back_weight += item.weight();
            self.back.push_back(item);
        }
    }

    /// The oldest part of what is in memory, as far as it is to go to the disk and that has room for it.
    /// [`Queue::spilled`] or [`Queue::not_spilled`] is told what became of it, before anything else is asked for.
    pub(super) fn overflow(&mut self, spill: Spill) -> Option<Part> {
        let goes = match spill {
            Spill::Excess => self.back.len() > self.limits.items || self.back_weight > self.limits.weight,
            Spill::Everything | Spill::Last => !self.back.is_empty(),
        };
        if !goes || (spill != Spill::Last && self.spooled_bytes >= self.limits.spool_bytes) {
            return None;
        }
        let (number, many, heavy) = match self.segments.back() {
            Some(last) if self.has_room(last) => (last.number, last.items, last.weight),
            Some(_) => (self.last_segment + 1, 0, 0),
            // One number is left free, for what is under way: it came before.
            None => (self.last_segment + 2, 0, 0),
        };
        let (mut weight, mut items) = (0, Vec::new());
        while many + items.len() < self.limits.segment_items && heavy + weight < self.limits.segment_weight {
            let Some(item) = self.pop_back_part() else { break };
            weight += item.weight();
            items.push(item);
        }
        Some(Part { number, items, weight })
    }

    /// A part was written, with so many bytes.
    pub(super) fn spilled(&mut self, part: &Part, bytes: u64) {
        let Part { number, items, weight } = part;
        self.spooled_bytes += bytes;
        match self.segments.back_mut() {
            Some(last) if last.number == *number => {
                last.bytes += bytes;
                last.items += items.len();
                last.weight += weight;
            }
            _ => {
                self.last_segment = *number;
                let segment = Segment { number: *number, bytes, items: items.len(), weight: *weight };
                self.segments.push_back(segment);
            }
        }
    }

    /// A part could not be written: its items stay in memory.
    pub(super) fn not_spilled(&mut self, part: Part) {
        for item in part.items.into_iter().rev() {
            self.back_weight += item.weight();
            self.back.push_front(item);
        }
    }

    /// What is under way, as a part of its own before all others; none if it is on disk already.
    /// [`Queue::set_aside`] is told when it was written.
    pub(super) fn aside(&self, item: &Item) -> Option<Part> {
        let number =
            self.segments.front().map_or(self.last_segment + 1, |first| first.number.saturating_sub(1));
        self.delivering.is_none().then(|| Part { number, items: vec![item.clone()], weight: item.weight() })
    }

    /// What was under way is on disk now, with so many bytes, and comes next.
    pub(super) fn set_aside(&mut self, part: &Part, bytes: u64) {
        self.spooled_bytes += bytes;
        self.last_segment = self.last_segment.max(part.number);
        // Full, so that nothing is added to what came before all others.
        let full = Segment { number: part.number, bytes, items: usize::MAX, weight: usize::MAX };
        self.segments.push_front(full);
    }

    fn has_room(&self, segment: &Segment) -> bool {
        segment.items < self.limits.segment_items && segment.weight < self.limits.segment_weight
    }

    /// What comes next. What came before must be delivered.
    pub(super) fn next(&mut self) -> Next {
        if let Some(item) = self.front.pop_front() {
            return Next::Item(item);
        }
        if let Some(Segment { number, bytes, .. }) = self.delivering.take() {
            self.spooled_bytes = self.spooled_bytes.saturating_sub(bytes);
            return Next::Remove(number);
        }
        if let Some(segment) = self.segments.pop_front() {
            let number = segment.number;
            self.delivering = Some(segment);
            return Next::Load(number);
        }
        self.pop_back_part().map_or(Next::Nothing, Next::Item)
    }

    /// A segment was read.
    pub(super) fn loaded(&mut self, items: Vec<Item>) {
        self.front.extend(items);
    }

    /// Whether something waits.
    pub(super) fn waits(&self) -> bool {
        !(self.front.is_empty() && self.segments.is_empty() && self.back.is_empty())
    }

    /// Whether nobody waits for this attempt any more.
    pub(super) fn is_withdrawn(&mut self, ticket: u64, attempt: &AttemptId) -> bool {
        let withdrawn = self.begins.get(&ticket).is_none_or(oneshot::Sender::is_closed);
        if withdrawn {
            self.begins.remove(&ticket);
            self.withdrawn = Some(attempt.clone());
        }
        withdrawn
    }

    /// Whether the head need not know this attempt.
    pub(super) fn was_withdrawn(&self, attempt: &AttemptId) -> bool {
        self.withdrawn.as_ref() == Some(attempt)
    }

    /// The answer to a new attempt is there.
    pub(super) fn begun(&mut self, ticket: u64, answer: BeginAnswer) {
        if let Some(waiting) = self.begins.remove(&ticket) {
            // Nobody waits for it if this fails.
            let _ = waiting.send(answer);
        }
    }

    /// Tells when everything is delivered.
    pub(super) fn flush(&mut self) -> oneshot::Receiver<()> {
        let (done, delivered) = oneshot::channel();
        if self.closed.is_none() {
            self.flush = Some(done);
        }
        delivered
    }

    /// Everything is delivered.
    pub(super) fn flushed(&mut self) {
        if let Some(done) = self.flush.take() {
            // Nobody waits for it if this fails.
            let _ = done.send(());
        }
    }

    /// The head does not record this run: nothing is kept and nothing more is taken.
    pub(super) fn close(&mut self, why: &ClientError) {
        for (_, waiting) in self.begins.drain() {
            let _ = waiting.send(Err(why.clone()));
        }
        *self = Self { closed: Some(why.clone()), ..Self::new(self.limits) };
    }

    /// Points for which there was no room.
    pub(super) fn dropped_points(&self) -> u64 {
        self.dropped_points
    }

    /// What is in memory: items and, roughly, bytes of those that were not on disk.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> (usize, usize) {
        (self.front.len() + self.back.len(), self.back_weight)
    }

    fn pop_back_part(&mut self) -> Option<Item> {
        let item = self.back.pop_front()?;
        self.back_weight = self.back_weight.saturating_sub(item.weight());
        Some(item)
    }
}

/// Whether the head takes a state after another one.
fn may_follow(before: Option<ControllerState>, next: ControllerState) -> bool {
    match before {
        Some(state) => state == next || state.may_go_to(next),
        // These phases can be entered from each one that is not an end.
        None => matches!(next.phase(), Phase::Scheduling | Phase::Running),
    }
}

#[cfg(test)]
mod tests;
