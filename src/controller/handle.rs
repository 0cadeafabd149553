//! How a controller that runs is spoken to.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::options::ControllerView;

/// Asks that nobody has taken yet. One that finds no room comes after as many that mean no less.
const ASKS: usize = 64;

pub(super) enum Ask {
    Stop { detail: String, grace: Option<Duration> },
    Kill,
    Preempt(String),
    Signal(i32),
}

/// Talks to a controller that runs.
#[derive(Clone, Debug)]
pub struct ControllerHandle {
    asks: mpsc::Sender<Ask>,
    view: watch::Receiver<ControllerView>,
}

/// A handle, and where what it asks for arrives.
pub(super) fn asks(view: watch::Receiver<ControllerView>) -> (ControllerHandle, mpsc::Receiver<Ask>) {
    let (asks, received) = mpsc::channel(ASKS);
    (ControllerHandle { asks, view }, received)
}

impl ControllerHandle {
    /// Asks for a graceful stop. `by` is who and how, `root (SIGINT)`.
    pub fn stop(&self, by: &str) {
        // Full or closed: it is stopping already.
        let _ = self.asks.try_send(Ask::Stop { detail: format!("stopped by user {by}"), grace: None });
    }

    /// Asks to end the workers by force, at once.
    pub fn kill(&self) {
        let _ = self.asks.try_send(Ask::Kill);
    }

    /// Tells of a preemption: the machine is going to be taken away. `detail` is who says so.
    pub fn preempt(&self, detail: &str) {
        let _ = self.asks.try_send(Ask::Preempt(detail.to_owned()));
    }

    /// Passes a signal on to the workers.
    pub fn signal(&self, signal: i32) {
        let _ = self.asks.try_send(Ask::Signal(signal));
    }

    /// What it shows of itself.
    #[must_use]
    pub fn view(&self) -> watch::Receiver<ControllerView> {
        self.view.clone()
    }
}
