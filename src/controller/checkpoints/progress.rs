//! How far the bytes are that are being moved.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

/// Bytes done and bytes in all of everything that is under way. Begins anew when nothing is.
#[derive(Clone, Default)]
pub(super) struct Progress {
    state: Arc<Mutex<State>>,
    /// Told of each step.
    show: Option<Arc<Show>>,
}

type Show = dyn Fn(u64, u64) + Send + Sync;

#[derive(Debug, Default)]
struct State {
    moves: usize,
    done: u64,
    total: u64,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.state).finish()
    }
}

/// One move, as long as it lives.
#[derive(Debug)]
pub(super) struct Move(Progress);

impl Progress {
    /// One that tells bytes done and bytes in all as they change.
    pub(super) fn showing(show: Box<Show>) -> Self {
        Self { show: Some(show.into()), ..Self::default() }
    }

    /// A move of so many bytes begins.
    pub(super) fn begin(&self, bytes: u64) -> Move {
        let mut state = self.state.lock();
        state.moves += 1;
        state.total += bytes;
        Move(self.clone())
    }

    /// Bytes done and bytes in all; none if nothing is under way.
    pub(super) fn moving(&self) -> Option<(u64, u64)> {
        let state = self.state.lock();
        (state.moves > 0).then(|| (state.done.min(state.total), state.total))
    }
}

impl Move {
    /// So many more bytes are done.
    pub(super) fn add(&self, bytes: u64) {
        let mut state = self.0.state.lock();
        state.done += bytes;
        if let Some(show) = &self.0.show {
            show(state.done.min(state.total), state.total);
        }
    }
}

impl Drop for Move {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.moves -= 1;
        if state.moves == 0 {
            *state = State::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_all_moves_together_and_begins_anew_after_them() {
        let progress = Progress::default();
        let (a, b) = (progress.begin(10), progress.begin(5));
        a.add(10);
        drop(a);
        assert_eq!(progress.moving(), Some((10, 15)));
        drop(b);
        assert_eq!(progress.moving(), None);
    }
}
