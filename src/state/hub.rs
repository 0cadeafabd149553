//! Events as they happen: a bounded ring to resume from and a bounded channel to each reader. A reader that is too slow
//! is told to start anew; it never holds anything up. A frame's text is made once, however many read it, and not at all
//! when nobody has listened for a while.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::base::RunId;

/// Frames that can be resumed from, and that a reader may be behind.
const KEPT: usize = 8192;
/// A reader that was away for longer starts anew.
const AWAY: Duration = Duration::from_secs(600);

/// One event on its way to browsers.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Position in this head's life.
    pub seq: u64,
    /// The run it is about.
    pub run: RunId,
    /// The frame as server-sent events have it, with its id.
    pub text: Bytes,
}

/// What a reader gets: what it missed, then what comes.
#[derive(Debug)]
pub struct Subscription {
    /// This head's life: positions of another life mean nothing here.
    pub boot: String,
    /// Newest position when this began.
    pub last_seq: u64,
    /// Frames that were missed; none if they are no longer kept.
    pub missed: Option<Vec<Arc<Frame>>>,
    /// Frames to come.
    pub next: broadcast::Receiver<Arc<Frame>>,
}

#[derive(Debug)]
pub(crate) struct Hub {
    boot: String,
    ring: Mutex<Ring>,
    sender: broadcast::Sender<Arc<Frame>>,
}

#[derive(Debug)]
struct Ring {
    last_seq: u64,
    frames: VecDeque<Arc<Frame>>,
    /// When somebody last listened.
    listened: Option<Instant>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self {
            boot: uuid::Uuid::now_v7().simple().to_string(),
            ring: Mutex::new(Ring { last_seq: 0, frames: VecDeque::new(), listened: None }),
            sender: broadcast::Sender::new(KEPT),
        }
    }

    /// Sends a frame to everybody who listens; `data` makes its JSON, which has no line breaks.
    pub(crate) fn publish(&self, run: &RunId, event: &'static str, data: impl FnOnce() -> String) {
        let mut ring = self.ring.lock();
        ring.last_seq += 1;
        if self.sender.receiver_count() > 0 {
            ring.listened = Some(Instant::now());
        } else if ring.listened.is_none_or(|at| at.elapsed() > AWAY) {
            ring.frames.clear();
            return;
        }
        let seq = ring.last_seq;
        let text = format!("id: {}-{seq}\nevent: {event}\ndata: {}\n\n", self.boot, data());
        let frame = Arc::new(Frame { seq, run: run.clone(), text: text.into() });
        if ring.frames.len() == KEPT {
            ring.frames.pop_front();
        }
        ring.frames.push_back(Arc::clone(&frame));
        // Under the lock, so that a new reader misses nothing between the ring and the channel. Nobody listening is fine.
        let _ = self.sender.send(frame);
    }

    /// How many listen.
    pub(crate) fn listeners(&self) -> usize {
        self.sender.receiver_count()
    }

    /// Begins to listen, after the position `last_event_id` (`BOOT-SEQ`) if it is given.
    pub(crate) fn subscribe(&self, last_event_id: Option<&str>) -> Subscription {
        let mut ring = self.ring.lock();
        ring.listened = Some(Instant::now());
        let missed = match last_event_id {
            None => Some(Vec::new()),
            Some(id) => self.position(id).and_then(|seq| {
                let oldest = ring.frames.front().map_or(ring.last_seq + 1, |f| f.seq);
                let complete = seq + 1 >= oldest && seq <= ring.last_seq;
                complete.then(|| ring.frames.iter().filter(|f| f.seq > seq).cloned().collect())
            }),
        };
        Subscription {
            boot: self.boot.clone(),
            last_seq: ring.last_seq,
            missed,
            next: self.sender.subscribe(),
        }
    }

    fn position(&self, id: &str) -> Option<u64> {
        let (boot, seq) = id.split_once('-')?;
        (boot == self.boot).then(|| seq.parse().ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_resumes_without_a_gap_or_is_told_so() {
        let hub = Hub::new();
        let run = RunId::generate();
        let first = hub.subscribe(None);
        for _ in 0..10 {
            hub.publish(&run, "run", String::new);
        }
        let at = |seq: u64| format!("{}-{seq}", first.boot);
        let seqs = |s: Subscription| s.missed.map(|m| m.iter().map(|f| f.seq).collect::<Vec<_>>());
        assert_eq!(seqs(hub.subscribe(Some(&at(7)))), Some(vec![8, 9, 10]));
        assert_eq!(seqs(hub.subscribe(Some(&at(10)))), Some(vec![]));
        for lost in [at(11), "other-3".to_owned(), "nonsense".to_owned()] {
            assert_eq!(seqs(hub.subscribe(Some(&lost))), None, "{lost}");
        }
        for _ in 0..KEPT {
            hub.publish(&run, "run", String::new);
        }
        assert_eq!(seqs(hub.subscribe(Some(&at(9)))), None);
        assert_eq!(hub.subscribe(Some(&at(10))).missed.map(|m| m.len()), Some(KEPT));
    }
}
