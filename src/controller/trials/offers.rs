//! What a worker that hosts trials is given to do: its next trial, or to leave.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::{sync::watch, time::timeout};

/// What a worker hears when it asks for its next trial. If there is neither, it asks again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(in crate::controller) struct Offered {
    pub(super) trial: Option<Offer>,
    /// It is to end, well.
    pub(super) leave: bool,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Offer {
    /// Which of this worker's trials it is, from 1.
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) config: Map<String, Value>,
}

/// The way of trials to a worker.
#[derive(Debug)]
pub(in crate::controller) struct Offers(watch::Sender<Offered>);

impl Offers {
    pub(super) fn new() -> Self {
        Self(watch::channel(Offered::default()).0)
    }

    /// This is the next trial.
    pub(super) fn offer(&self, trial: Offer) {
        self.0.send_replace(Offered { trial: Some(trial), leave: false });
    }

    /// There is no other trial, ever.
    pub(super) fn leave(&self) {
        self.0.send_replace(Offered { trial: None, leave: true });
    }

    /// What there is after the trial with number `after`; nothing if there was nothing within the limit.
    pub(in crate::controller) async fn after(&self, after: u64, limit: Duration) -> Offered {
        let mut offered = self.0.subscribe();
        let is_new =
            |offered: &Offered| offered.leave || offered.trial.as_ref().is_some_and(|t| t.number > after);
        // The sender is ours, so that the wait ends with an offer or with the limit.
        match timeout(limit, offered.wait_for(is_new)).await {
            Ok(Ok(offered)) => offered.clone(),
            Ok(Err(_)) | Err(_) => Offered::default(),
        }
    }
}
