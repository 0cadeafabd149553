//! How long an event has been deliverable: where the trail ended at some times. By a clock that does not jump, which the
//! times of the events themselves do.

use std::{collections::VecDeque, time::Instant};

/// More are not kept; what comes then counts from its first attempt.
const MARKS: usize = 256;

/// Ends of the trail (ids of events), with when they were seen.
#[derive(Debug, Default)]
pub(super) struct Marks(VecDeque<(i64, Instant)>);

impl Marks {
    /// The trail ends at `end` now, and all up to `done` is done with.
    pub(super) fn note(&mut self, done: i64, end: i64, now: Instant) {
        while self.0.front().is_some_and(|(seen, _)| *seen <= done) {
            self.0.pop_front();
        }
        let known = self.0.back().map_or(done, |(seen, _)| *seen);
        if end > known && self.0.len() < MARKS {
            self.0.push_back((end, now));
        }
    }

    /// Since when an event has been deliverable, as far as is known; else `now`.
    pub(super) fn since(&self, event: i64, now: Instant) -> Instant {
        self.0.iter().find(|(seen, _)| *seen >= event).map_or(now, |(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_event_counts_from_when_the_trail_was_first_seen_to_hold_it() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut marks = Marks::default();
        for (second, done, end) in [(0, 0, 3), (1, 0, 3), (2, 0, 5), (3, 3, 5)] {
            marks.note(done, end, at(second));
        }
        assert_eq!(marks.since(4, at(9)), at(2));
        assert_eq!(marks.since(5, at(9)), at(2));
        assert_eq!(marks.since(6, at(9)), at(9));
        assert_eq!(marks.0.len(), 1);
        for end in 6..1000 {
            marks.note(3, end, at(10));
        }
        assert_eq!(marks.0.len(), MARKS);
    }
}
