//! The task of one webhook: reads the trail after its place, delivers one event after the other, and keeps its place now
//! and then; what it does between two times of keeping is done again after a crash.

use std::time::{Duration, Instant};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    marks::Marks,
    message::Message,
    verdict::{Outcome, Verdict, judge},
    wire::{Wire, jitter},
};
use crate::{
    base::number::count,
    model::{Event, EventKind},
    state::{DeadLetter, StateError, StateHandle, WebhookPlace},
};

/// Events that are read at once.
const PAGE: u32 = 100;
/// The trail is looked at this often even if nothing is heard of it.
const LOOK: Duration = Duration::from_secs(5);
/// The place is kept after so many events, or so long after a delivery.
const KEEP_EVENTS: i64 = 100;
const KEEP_AFTER: Duration = Duration::from_secs(1);
/// A request that is under way when the head stops gets this long, and what waits behind it this long.
const LAST_REQUEST: Duration = Duration::from_secs(1);
const DRAIN: Duration = Duration::from_secs(4);
/// Dead letters that wait to be kept; as many as the store keeps.
const BURIED: usize = 1000;

/// What is delivered, and how long it is tried.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) kinds: Vec<EventKind>,
    pub(super) give_up: Duration,
    pub(super) server: Option<String>,
}

/// Delivers to one webhook.
#[derive(Debug)]
pub(super) struct Deliverer {
    state: StateHandle,
    wire: Wire,
    target: Target,
    place: WebhookPlace,
    /// What is kept of the place.
    kept: i64,
    /// When the oldest delivery that is not kept was made.
    unkept_since: Option<Instant>,
    marks: Marks,
    last_error: Option<String>,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// There is more.
    More,
    /// All is delivered.
    Wait,
    /// The head stops.
    Stop,
}

impl Deliverer {
    pub(super) fn new(state: StateHandle, wire: Wire, place: WebhookPlace, target: Target) -> Self {
        let kept = place.last_event_id;
        Self {
            state,
            wire,
            target,
            place,
            kept,
            unkept_since: None,
            marks: Marks::default(),
            last_error: None,
        }
    }

    /// Delivers until the head stops.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            // Listening begins before the look, so that nothing falls between.
            let heard = self.state.newest_event();
            match self.deliver_page(&stop).await {
                Ok(Next::More) => {}
                Ok(Next::Wait) => self.wait(heard, &stop).await,
                Ok(Next::Stop) => break,
                Err(e) => {
                    warn!("webhook {}: the trail cannot be read: {e}", self.wire.host());
                    self.wait(heard, &stop).await;
                }
            }
            self.keep_if_due().await;
        }
        if timeout(DRAIN, self.drain()).await != Ok(Next::Wait) {
            let why = self.last_error.as_deref().unwrap_or("no time was left");
            let host = self.wire.host();
            warn!("webhook {host}: {why}; what waits is delivered after the next start");
        }
        self.keep().await;
    }

    /// Delivers one page of the trail.
    async fn deliver_page(&mut self, stop: &CancellationToken) -> Result<Next, StateError> {
        let (events, end) = self.read().await?;
        let full = count(events.len()) >= i64::from(PAGE);
        for event in events {
            if self.deliver(&event, stop).await == Next::Stop {
                return Ok(Next::Stop);
            }
            self.keep_if_due().await;
        }
        if full {
            return Ok(Next::More);
        }
        // Nothing of what follows is wanted.
        self.place.last_event_id = self.place.last_event_id.max(end);
        self.show();
        Ok(Next::Wait)
    }

    /// The next events, and how far the trail was looked at.
    async fn read(&mut self) -> Result<(Vec<Event>, i64), StateError> {
        let (after, end) = (self.place.last_event_id, *self.state.newest_event().borrow());
        self.marks.note(after, end, Instant::now());
        let wanted = end > after;
        let events =
            if wanted { self.state.trail(&self.target.kinds, after, end, PAGE).await? } else { Vec::new() };
        Ok((events, end))
    }

    /// Delivers one event, however often it takes, or gives it up.
    async fn deliver(&mut self, event: &Event, stop: &CancellationToken) -> Next {
        let message = Message::new(event, &self.place.name, self.target.server.as_deref(), &self.state).await;
        let since = self.marks.since(event.id, Instant::now());
        let mut attempt = 0;
        loop {
            let outcome = tokio::select! {
                outcome = self.post(&message) => outcome,
                () = async { stop.cancelled().await; sleep(LAST_REQUEST).await } => return Next::Stop,
            };
            match judge(&outcome, attempt, since.elapsed(), self.target.give_up, jitter()) {
                Verdict::Delivered => self.done(event),
                Verdict::GiveUp(why) => self.bury(event, why),
                Verdict::Again(wait, why) => {
                    self.last_error = Some(why);
                    self.show();
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = stop.cancelled() => return Next::Stop,
                    }
                    attempt += 1;
                    // So that it is known of those behind how long they wait.
                    let end = *self.state.newest_event().borrow();
                    self.marks.note(self.place.last_event_id, end, Instant::now());
                    continue;
                }
            }
            return Next::More;
        }
    }

    /// Before the end: each event has one attempt, and the first that fails ends it.
    async fn drain(&mut self) -> Next {
        while let Ok((events, _)) = self.read().await {
            if events.is_empty() {
                return Next::Wait;
            }
            for event in events {
                let message =
                    Message::new(&event, &self.place.name, self.target.server.as_deref(), &self.state).await;
                let outcome = self.post(&message).await;
                match judge(&outcome, 0, Duration::ZERO, self.target.give_up, 0.0) {
                    Verdict::Delivered => self.done(&event),
                    Verdict::GiveUp(why) => self.bury(&event, why),
                    Verdict::Again(_, why) => {
                        self.last_error = Some(why);
                        return Next::Stop;
                    }
                }
            }
        }
        Next::Stop
    }

    async fn post(&self, message: &Message) -> Outcome {
        self.wire.post(&message.id, &message.body, self.state.now()).await
    }

    fn done(&mut self, event: &Event) {
        self.place.last_event_id = event.id;
        self.unkept_since.get_or_insert_with(Instant::now);
        self.last_error = None;
        self.show();
    }

    fn bury(&mut self, event: &Event, why: String) {
        warn!("webhook {}: event {} is given up: {why}", self.wire.host(), event.id);
        self.place.last_event_id = event.id;
        self.place.dead_letters += 1;
        self.place.buried.push(DeadLetter {
            event_id: event.id,
            time_ms: self.state.now(),
            why: why.clone(),
        });
        if self.place.buried.len() > BURIED {
            self.place.buried.remove(0);
        }
        self.unkept_since.get_or_insert_with(Instant::now);
        self.last_error = Some(why);
        self.show();
    }

    fn show(&self) {
        self.state.show_webhook(self.wire.host(), &self.place, self.last_error.clone());
    }

    /// Until there is something to do.
    async fn wait(&self, mut heard: watch::Receiver<i64>, stop: &CancellationToken) {
        let limit = self.unkept_since.map_or(LOOK, |since| KEEP_AFTER.saturating_sub(since.elapsed()));
        tokio::select! {
            _ = heard.changed() => {}
            () = sleep(limit) => {}
            () = stop.cancelled() => {}
        }
    }

    async fn keep_if_due(&mut self) {
        let old = self.unkept_since.is_some_and(|since| since.elapsed() >= KEEP_AFTER);
        if old || self.place.last_event_id - self.kept >= KEEP_EVENTS {
            self.keep().await;
        }
    }

    async fn keep(&mut self) {
        if self.place.last_event_id == self.kept && self.place.buried.is_empty() {
            return;
        }
        match self.state.keep_webhook(self.place.clone()).await {
            Ok(()) => {
                self.kept = self.place.last_event_id;
                self.place.buried.clear();
                self.unkept_since = None;
            }
            Err(e) => {
                // The StateActor has said it louder. What is not kept is delivered again after a start.
                debug!("webhook {}: its place is not kept: {e}", self.wire.host());
                self.unkept_since = Some(Instant::now());
            }
        }
    }
}
