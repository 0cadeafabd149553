//! What webhooks need of the state: the trail as a queue, their place in it, and what people see of them. The trail is
//! read beside the StateActor; it only writes places, with whatever else it commits.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use tokio::sync::watch;

use super::{StateError, StateHandle, command::Command};
use crate::{
    base::{RunId, Timestamp},
    model::{Event, EventKind},
    store::{DeadLetterRow, WebhookRow},
};

/// A webhook as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Webhook {
    /// Hash of its address.
    pub name: String,
    /// Host of its address; the rest may hold a secret.
    pub host: String,
    /// The last event that is done with.
    pub last_event_id: i64,
    /// How many events the trail is ahead, of any kind.
    pub lag: i64,
    /// Events that were given up.
    pub dead_letters: i64,
    /// Why the last delivery failed; null after one that did not.
    pub last_error: Option<String>,
}

/// A webhook's place in the trail, and what was given up since the last time it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookPlace {
    /// Hash of its address.
    pub name: String,
    /// The last event that is done with; 0 before the first.
    pub last_event_id: i64,
    /// How many events were given up, ever.
    pub dead_letters: i64,
    /// Those that are not kept yet.
    pub buried: Vec<DeadLetter>,
}

/// An event that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Which.
    pub event_id: i64,
    /// When.
    pub time_ms: Timestamp,
    /// Why.
    pub why: String,
}

/// The webhooks of this head, as their deliverers last said.
#[derive(Debug, Default)]
pub(crate) struct WebhookBoard(Mutex<BTreeMap<String, Webhook>>);

impl WebhookPlace {
    pub(super) fn rows(self) -> (WebhookRow, Vec<DeadLetterRow>) {
        let Self { name, last_event_id, dead_letters, buried } = self;
        let letters = buried.into_iter().map(|DeadLetter { event_id, time_ms, why }| DeadLetterRow {
            webhook: name.clone(),
            event_id,
            time_ms,
            why,
        });
        let letters = letters.collect();
        (WebhookRow { name, last_event_id, dead_letters }, letters)
    }
}

impl StateHandle {
    /// A webhook's place. A new one begins at the end of the trail: nobody waits for history.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn open_webhook(&self, name: &str, host: &str) -> Result<WebhookPlace, StateError> {
        let (last_event_id, dead_letters) = match self.shared.reader.webhook(name).await? {
            Some(row) => (row.last_event_id, row.dead_letters),
            None => (*self.newest_event().borrow(), 0),
        };
        let place = WebhookPlace { name: name.to_owned(), last_event_id, dead_letters, buried: Vec::new() };
        self.keep_webhook(place.clone()).await?;
        self.show_webhook(host, &place, None);
        Ok(place)
    }

    /// Keeps a webhook's place.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn keep_webhook(&self, place: WebhookPlace) -> Result<(), StateError> {
        self.ask(|reply| Command::KeepWebhook { place, reply }).await
    }

    /// Shows people how far a webhook is.
    pub fn show_webhook(&self, host: &str, place: &WebhookPlace, last_error: Option<String>) {
        let webhook = Webhook {
            name: place.name.clone(),
            host: host.to_owned(),
            last_event_id: place.last_event_id,
            lag: 0,
            dead_letters: place.dead_letters,
            last_error,
        };
        self.shared.webhooks.0.lock().insert(place.name.clone(), webhook);
    }

    /// The webhooks of this head.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn webhooks(&self) -> Result<Vec<Webhook>, StateError> {
        let mut webhooks: Vec<Webhook> = self.shared.webhooks.0.lock().values().cloned().collect();
        if !webhooks.is_empty() {
            let newest = *self.newest_event().borrow();
            webhooks.iter_mut().for_each(|hook| hook.lag = (newest - hook.last_event_id).max(0));
        }
        Ok(webhooks)
    }

    /// The id of the newest event that was committed, 0 if there is none, and how it grows.
    #[must_use]
    pub fn newest_event(&self) -> watch::Receiver<i64> {
        self.shared.newest_event.subscribe()
    }

    /// Events of all runs after the event `after` and up to `up_to`, of these kinds, oldest first, `limit` at the most.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn trail(
        &self,
        kinds: &[EventKind],
        after: i64,
        up_to: i64,
        limit: u32,
    ) -> Result<Vec<Event>, StateError> {
        Ok(self.shared.reader.events_of_kinds(kinds, after, up_to, limit).await?)
    }

    /// A run as it is listed now, JSON; none if there is no such run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn listed(&self, run: &RunId) -> Result<Option<Bytes>, StateError> {
        if let Some(json) = self.shared.index.read().json(run) {
            return Ok(Some(json));
        }
        let stored = self.shared.reader.documents(std::slice::from_ref(run)).await?;
        Ok(stored.into_values().next().map(|doc| doc.json.into()))
    }
}
