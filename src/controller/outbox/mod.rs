//! What the controller says to the head, in order, whether the head is there or not. Training never waits for it: what
//! cannot be delivered waits here, and every message may be sent twice without harm.
//!
//! Verbs and metrics stand in one queue ([`queue`]), of which a bounded part is in memory and the rest on disk ([`spool`],
//! by way of its [`keeper`]). One task delivers ([`delivery`]), another one says that the controller lives ([`pulse`]), a
//! third one delivers what an earlier controller of the run left ([`inherit`]). What this one leaves is delivered by that,
//! or by `trainhead sync` ([`leftover`]).

mod courier;
mod delivery;
mod inherit;
mod item;
mod keeper;
mod leftover;
mod link;
mod pulse;
mod queue;
mod spool;

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tracing::info;

pub use courier::{Tally, Undelivered};
pub use inherit::{is_spool_dir, spools_of_run};
pub use leftover::{FoundSpool, Leftover};
pub(super) use link::{FromHead, limited};
pub use spool::About;
use {
    delivery::{Delivery, Keep},
    inherit::Inheritance,
    keeper::Keeper,
    link::Link,
    pulse::Pulse,
    queue::{BeginAnswer, Limits},
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
    keep: mpsc::Sender<Keep>,
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
        Self::with(client, run, register, session, clock, heartbeat, Limits::default(), tasks)
    }

    #[expect(clippy::too_many_arguments, reason = "tests have other limits; each part gets its own of these")]
    fn with(
        client: Arc<dyn StateClient>,
        run: RunId,
        register: RegisterRun,
        session: Arc<Session>,
        clock: Arc<dyn Clock>,
        heartbeat: Duration,
        limits: Limits,
        tasks: &Tasks,
    ) -> Self {
        let writer = register.controller.actor_id.clone();
        let run_dir = session.info().storage_path.clone();
        let keeper = Keeper::new(&run_dir, &run, client.address(), &register);
        let link = Arc::new(Link::new(session, writer, limits));
        let (keep, wanted) = mpsc::channel(1);
        let inheritance =
            Inheritance { client: Arc::clone(&client), run: run.clone(), link: Arc::clone(&link), run_dir };
        let pulse = Pulse { client: Arc::clone(&client), run: run.clone(), clock, link: Arc::clone(&link) };
        let delivery = Delivery::new(client, run, register, Arc::clone(&link), keeper, wanted);
        let stop = tasks.stopping();
        drop(tasks.spawn(async move {
            let all = async { tokio::join!(delivery.run(), pulse.run(heartbeat), inheritance.run()) };
            tokio::select! {
                _ = all => {}
                () = stop.cancelled() => {}
            }
        }));
        Self { link, keep }
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

    /// Waits until all was delivered, and what earlier controllers of the run left; whether it was. Gives up when nothing
    /// was for `limit`, and in any case some time.
    pub(super) async fn flush(&self, limit: Duration) -> bool {
        let own = self.link.put(queue::Queue::flush);
        let mut inherited = self.link.inherited.subscribe();
        let done = async {
            let none_left = |left: &Option<Vec<PathBuf>>| left.as_ref().is_some_and(Vec::is_empty);
            own.await.is_ok() && inherited.wait_for(none_left).await.is_ok()
        };
        tokio::pin!(done);
        let all = async {
            loop {
                let before = self.link.delivered.load(Ordering::Relaxed);
                match timeout(limit, &mut done).await {
                    Ok(done) => return done,
                    Err(_) if self.link.delivered.load(Ordering::Relaxed) == before => return false,
                    Err(_) => info!("what is left to say to the head is being delivered"),
                }
            }
        };
        timeout(FLUSH_MOST.max(limit), all).await.unwrap_or(false)
    }

    /// Ends the delivery. What is left is kept on disk, for others to deliver; where.
    pub(super) async fn keep(&self) -> Vec<PathBuf> {
        let (keep, kept) = oneshot::channel();
        // There is no delivery any more if the head does not record this run: then nothing is to be kept.
        let own = if self.keep.send(keep).await.is_ok() { kept.await.ok().flatten() } else { None };
        let inherited = self.link.inherited.borrow().clone().unwrap_or_default();
        own.into_iter().chain(inherited).collect()
    }
}

#[cfg(test)]
mod tests;
