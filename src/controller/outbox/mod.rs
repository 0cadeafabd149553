//! What the controller says to the head, in order, whether the head is there or not. Training never waits for it: what
//! cannot be delivered waits here, and every message may be sent twice without harm.
//!
//! Verbs and metrics stand in one queue ([`queue`]), of which a bounded part is in memory and the rest on disk
//! ([`spool`]). One task delivers ([`delivery`]), another one says that the controller lives ([`pulse`]).

mod delivery;
mod item;
mod link;
mod pulse;
mod queue;
mod spool;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tracing::info;

pub(super) use link::{FromHead, limited};
use {
    delivery::Delivery,
    link::Link,
    pulse::Pulse,
    queue::{BeginAnswer, Limits},
    spool::Spool,
};

use super::session::Session;
use crate::{
    base::{Clock, RunId, Secret, Tasks},
    model::{
        commands::RegisterRun,
        ledger::Demand,
        verbs::{BeginAttempt, RunVerb},
    },
    state::StateClient,
};

/// However much there is to deliver, nobody waits longer for it.
const FLUSH_MOST: Duration = Duration::from_secs(120);

/// The way to the head.
pub(super) struct Outbox {
    link: Arc<Link>,
}

impl Outbox {
    /// Starts to deliver: first the registration. What memory does not hold goes to the run's directory.
    pub(super) fn start(
        client: Arc<dyn StateClient>,
        run: RunId,
        register: RegisterRun,
        session: Arc<Session>,
        clock: Arc<dyn Clock>,
        heartbeat: Duration,
        tasks: &Tasks,
    ) -> Self {
        let writer = register.controller.actor_id.clone();
        let spool = Spool::new(&session.info().storage_path);
        let link = Arc::new(Link::new(session, writer, Limits::default()));
        let pulse = Pulse { client: Arc::clone(&client), run: run.clone(), clock, link: Arc::clone(&link) };
        let delivery = Delivery::new(client, run, register, Arc::clone(&link), spool);
        Self::with(delivery, pulse, heartbeat, link, tasks)
    }

    fn with(delivery: Delivery, pulse: Pulse, heartbeat: Duration, link: Arc<Link>, tasks: &Tasks) -> Self {
        let stop = tasks.stopping();
        drop(tasks.spawn(async move {
            tokio::select! {
                () = async { tokio::join!(delivery.run(), pulse.run(heartbeat)); } => {}
                () = stop.cancelled() => {}
            }
        }));
        Self { link }
    }

    /// Says something to the head, some time, behind everything that was said and reported before. Never waits.
    pub(super) fn say(&self, verb: RunVerb) {
        self.link.put(|queue| queue.say(verb));
    }

    /// Begins an attempt, in its place behind everything that was said before. The answer is what the attempt got, or
    /// why the head refused. Whoever drops the receiver before withdraws the attempt: it is not begun when its turn
    /// comes. The end of an attempt that was withdrawn is to be said all the same, because its beginning may be under way.
    pub(super) fn begin(&self, body: BeginAttempt) -> oneshot::Receiver<BeginAnswer> {
        self.link.put(|queue| queue.begin(body))
    }

    /// What the run would like to have, from now on: the head is asked at once and with each heartbeat, and answers in
    /// `FromHead::fits`.
    pub(super) fn set_demand(&self, demand: Option<Demand>) {
        let changed = self.link.demand.send_if_modified(|known| {
            let changed = *known != demand;
            *known = demand;
            changed
        });
        if changed {
            self.link.tell.send_if_modified(|told| told.fits.take().is_some());
        }
    }

    /// What the head told.
    pub(super) fn news(&self) -> watch::Receiver<FromHead> {
        self.link.tell.subscribe()
    }

    /// The run's token, from its registration on.
    pub(super) fn token(&self) -> watch::Receiver<Option<Secret>> {
        self.link.token.subscribe()
    }

    /// Points for which there was no room while the head was away.
    pub(super) fn dropped_points(&self) -> u64 {
        self.link.queue.lock().dropped_points()
    }

    /// Waits until all was delivered; whether it was. Gives up when nothing was for `limit`, and in any case some time.
    pub(super) async fn flush(&self, limit: Duration) -> bool {
        let mut done = self.link.put(queue::Queue::flush);
        let all = async {
            loop {
                let before = self.link.delivered.load(Ordering::Relaxed);
                match timeout(limit, &mut done).await {
                    Ok(done) => return done.is_ok(),
                    Err(_) if self.link.delivered.load(Ordering::Relaxed) == before => return false,
                    Err(_) => info!("what is left to say to the head is being delivered"),
                }
            }
        };
        timeout(FLUSH_MOST.max(limit), all).await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
