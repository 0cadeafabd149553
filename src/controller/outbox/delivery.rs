//! The delivery: takes what is oldest in the queue, says it to the head until there is an answer, and keeps the queue
//! within its memory meanwhile. One message is under way at a time: that is the order.

use std::{
    path::PathBuf,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tracing::{debug, error, warn};

use super::{
    item::Item,
    keeper::Keeper,
    link::{Link, Refused, Registered, limited},
    queue::{BeginAnswer, Next, Part, Spill},
};
use crate::{
    base::{AttemptId, RunId, Secret, until},
    model::{
        commands::{RegisterRun, Registration},
        verbs::RunVerb,
    },
    state::{ClientError, StateClient},
};

/// Metrics of this long are sent together; and of this long while others wait.
const GATHER: Duration = Duration::from_millis(50);
const GATHER_BEHIND: Duration = Duration::from_secs(1);
/// With so many points they are not gathered any longer.
const MANY_POINTS: usize = 50_000;
/// The pause before another try, doubling to the other.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MOST: Duration = Duration::from_secs(1);
/// The pause after the disk did not take a segment.
const SPOOL_RETRY: Duration = Duration::from_secs(30);
/// When the head does not answer for so long, everything goes to disk: this process may be killed before it is back.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whoever wants what is not delivered to be kept, at this controller's end, and where it is then.
pub(super) type Keep = oneshot::Sender<Option<PathBuf>>;

enum Answer {
    Registered(Result<Registration, ClientError>),
    Begun(BeginAnswer),
    Said(Result<(), ClientError>),
}

type Sending = Pin<Box<dyn Future<Output = Answer> + Send>>;

pub(super) struct Delivery {
    client: Arc<dyn StateClient>,
    run: RunId,
    /// What is said first.
    register: RegisterRun,
    link: Arc<Link>,
    keeper: Keeper,
    keep: mpsc::Receiver<Keep>,
    /// What is being said, until there is an answer.
    current: Option<Item>,
    /// Since when the head has not answered.
    away_since: Option<Instant>,
    /// The disk is left alone until then.
    no_spool_until: Option<Instant>,
}

impl Delivery {
    pub(super) fn new(
        client: Arc<dyn StateClient>,
        run: RunId,
        register: RegisterRun,
        link: Arc<Link>,
        keeper: Keeper,
        keep: mpsc::Receiver<Keep>,
    ) -> Self {
        let (current, away_since, no_spool_until) = (None, None, None);
        Self { client, run, register, link, keeper, keep, current, away_since, no_spool_until }
    }

    pub(super) async fn run(mut self) {
        let mut sending: Option<Sending> = None;
        let mut pause = RETRY_FIRST;
        let mut retry = None;
        let mut gathered = None;
        loop {
            self.spill_in_time(sending.is_none()).await;
            if sending.is_none() && retry.is_none() {
                sending = self.send().await;
            }
            tokio::select! {
                answer = present(&mut sending) => {
                    sending = None;
                    let registers = matches!(answer, Answer::Registered(_));
                    match self.settle(answer) {
                        Settled::Done => {
                            (pause, self.away_since) = (RETRY_FIRST, None);
                            if registers {
                                let token = self.link.token.borrow().clone();
                                self.on_disk(|keeper| token.into_iter().for_each(|t| keeper.learn(t))).await;
                            }
                        }
                        Settled::NotNow => {
                            retry = Some(Instant::now() + pause);
                            pause = (pause * 2).min(RETRY_MOST);
                            self.away_since = self.away_since.or(Some(Instant::now()));
                        }
                        Settled::Refused => {
                            self.on_disk(Keeper::clear).await;
                            return;
                        }
                    }
                }
                Some(keep) = self.keep.recv() => {
                    drop(sending);
                    let kept = self.keep_all().await;
                    // Nobody waits for it if this fails.
                    let _ = keep.send(kept);
                    return;
                }
                () = until(retry) => retry = None,
                () = until(gathered) => {
                    gathered = None;
                    self.link.put(|_| ());
                }
                () = self.link.session.arrived() => {
                    if self.link.session.waiting_points() >= MANY_POINTS {
                        gathered = None;
                        self.link.put(|_| ());
                    } else if gathered.is_none() {
                        let behind = self.link.queue.lock().waits();
                        let wait = if behind { GATHER_BEHIND } else { GATHER };
                        gathered = Some(Instant::now() + wait);
                    }
                }
                () = self.link.changed.notified() => {}
            }
        }
    }

    /// Brings to the disk what is too much for the memory; or everything, with what was under way, if the head is away.
    async fn spill_in_time(&mut self, idle: bool) {
        if self.no_spool_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let away = self.away_since.is_some_and(|since| since.elapsed() >= PATIENCE);
        if away && idle && !self.set_aside().await {
            return;
        }
        self.spill(if away { Spill::Everything } else { Spill::Excess }).await;
    }

    /// Whether the disk took it all.
    async fn spill(&mut self, spill: Spill) -> bool {
        loop {
            let Some(part) = self.link.queue.lock().overflow(spill) else { return true };
            match self.write(part).await {
                Some(Ok((part, bytes))) => self.link.queue.lock().spilled(&part, bytes),
                Some(Err(part)) => {
                    self.link.queue.lock().not_spilled(part);
                    return false;
                }
                // The runtime ends, and this with it.
                None => return false,
            }
        }
    }

    /// Brings what was under way to the disk, if it is in memory only; whether that went well.
    async fn set_aside(&mut self) -> bool {
        let part = self.current.as_ref().and_then(|item| self.link.queue.lock().aside(item));
        let Some(part) = part else { return true };
        let Some(Ok((part, bytes))) = self.write(part).await else { return false };
        self.link.queue.lock().set_aside(&part, bytes);
        self.current = None;
        true
    }

    /// Writes a part; it and how many bytes it has there, or what could not be written.
    async fn write(&mut self, part: Part) -> Option<Result<(Part, u64), Part>> {
        let (written, part) =
            self.on_disk(move |keeper| (keeper.append(part.number, &part.items), part)).await?;
        match written {
            Ok(bytes) => {
                self.no_spool_until = None;
                Some(Ok((part, bytes)))
            }
            Err(e) => {
                if self.no_spool_until.is_none() {
                    warn!("what waits for the head cannot be kept on disk: {e}");
                }
                self.no_spool_until = Some(Instant::now() + SPOOL_RETRY);
                Some(Err(part))
            }
        }
    }

    /// This controller is at its end: what is not delivered is kept, for others to deliver. Where it is; none if there is
    /// nothing, or the disk does not take it.
    async fn keep_all(&mut self) -> Option<PathBuf> {
        self.link.put(|_| ());
        // What is left of the segment that was being delivered is there still.
        let whole = self.set_aside().await && self.spill(Spill::Last).await;
        if !whole {
            error!("what the head does not have could not all be kept on disk and is lost");
        }
        self.on_disk(Keeper::leave).await.flatten()
    }

    /// Takes the oldest item that is still wanted, unless one waits for its answer.
    async fn next(&mut self) -> Option<Item> {
        loop {
            self.forget_withdrawn();
            if self.current.is_some() {
                return self.current.clone();
            }
            let next = self.link.queue.lock().next();
            match next {
                Next::Item(item) => self.current = Some(item),
                Next::Remove(number) => drop(self.on_disk(move |keeper| keeper.remove(number)).await),
                Next::Load(number) => {
                    let items = match self.on_disk(move |keeper| keeper.read(number)).await? {
                        Ok((items, 0)) => items,
                        Ok((items, bad)) => {
                            error!(
                                "{bad} messages to the head could not be read back from disk and are lost"
                            );
                            items
                        }
                        Err(e) => {
                            error!("messages to the head could not be read back from disk and are lost: {e}");
                            Vec::new()
                        }
                    };
                    self.link.queue.lock().loaded(items);
                }
                Next::Nothing => return None,
            }
        }
    }

    /// An attempt for which nobody waits any more is not begun. If it was tried before, the head may have heard of it all
    /// the same: then the attempt's end, which follows, is not refused.
    fn forget_withdrawn(&mut self) {
        if let Some(Item::Begin { ticket, body }) = &self.current
            && self.link.queue.lock().is_withdrawn(*ticket, &body.attempt_id)
        {
            self.current = None;
        }
    }

    /// Begins to say what is next: the registration, or the oldest item.
    async fn send(&mut self) -> Option<Sending> {
        let (client, run) = (Arc::clone(&self.client), self.run.clone());
        let token = self.link.token.borrow().clone();
        let Some(token) = token else {
            let body = self.register.clone();
            return Some(Box::pin(async move { Answer::Registered(limited(client.register(body)).await) }));
        };
        let Some(item) = self.next().await else {
            let mut queue = self.link.queue.lock();
            if !queue.waits() {
                queue.flushed();
            }
            return None;
        };
        Some(Box::pin(async move { say(client, run, token, item).await }))
    }

    fn settle(&mut self, answer: Answer) -> Settled {
        let refusal = match &answer {
            Answer::Registered(Err(e)) | Answer::Begun(Err(e)) | Answer::Said(Err(e)) => Some(e.clone()),
            Answer::Registered(Ok(_)) | Answer::Begun(Ok(_)) | Answer::Said(Ok(())) => None,
        };
        if let Some(ClientError::Unreachable(why)) = refusal {
            self.link.trouble(&why);
            return Settled::NotNow;
        }
        self.link.answered();
        match answer {
            Answer::Registered(Ok(registration)) => self.registered(registration),
            Answer::Registered(Err(e)) => {
                warn!("the run is not recorded: {e}");
                self.link.queue.lock().close(&e);
                if let ClientError::Refused { slug, detail } = e {
                    self.link.tell.send_modify(|told| {
                        told.refused = Some(Refused { slug, detail });
                        told.fenced = true;
                    });
                }
                return Settled::Refused;
            }
            Answer::Begun(answer) => {
                self.refused(refusal.as_ref());
                if let Some(Item::Begin { ticket, .. }) = self.current.take() {
                    self.link.queue.lock().begun(ticket, answer);
                }
            }
            Answer::Said(_) => {
                self.refused(refusal.as_ref());
                self.current = None;
            }
        }
        self.link.delivered.fetch_add(1, Ordering::Relaxed);
        Settled::Done
    }

    fn registered(&self, registration: Registration) {
        let Registration { name, token, num_attempts, num_failures, .. } = registration;
        let registered = Registered { name, num_attempts, num_failures };
        self.link.tell.send_modify(|told| told.registered = Some(registered));
        self.link.token.send_replace(Some(token));
    }

    /// Says what was refused. Another try would get the same answer.
    fn refused(&self, refusal: Option<&ClientError>) {
        let Some(ClientError::Refused { slug, detail }) = refusal else { return };
        if slug == "stale-controller" {
            self.link.tell.send_modify(|told| told.fenced = true);
        }
        let what = match &self.current {
            Some(Item::Report(_)) => "metrics",
            // Whoever asked for it is told.
            Some(Item::Begin { .. }) => return,
            Some(Item::Say(verb)) if self.is_of_withdrawn(verb) => {
                debug!("the head does not know an attempt that was withdrawn");
                return;
            }
            _ => "a change",
        };
        warn!("the head did not take {what} ({slug}): {detail}");
    }

    fn is_of_withdrawn(&self, verb: &RunVerb) -> bool {
        attempt_of(verb).is_some_and(|attempt| self.link.queue.lock().was_withdrawn(attempt))
    }

    /// Works on the spool where it may block; none if the runtime ends.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Keeper) -> T + Send + 'static,
    ) -> Option<T> {
        let keeper = self.keeper.clone();
        tokio::task::spawn_blocking(move || work(&keeper)).await.ok()
    }
}

enum Settled {
    Done,
    NotNow,
    /// The head does not record this run.
    Refused,
}

async fn say(client: Arc<dyn StateClient>, run: RunId, token: Secret, item: Item) -> Answer {
    match item {
        Item::Say(verb) => Answer::Said(limited(client.say(&run, &token, verb)).await),
        Item::Begin { body, .. } => Answer::Begun(limited(client.begin_attempt(&run, &token, body)).await),
        Item::Report(batch) => Answer::Said(limited(client.report(&run, &token, batch)).await.map(drop)),
    }
}

fn attempt_of(verb: &RunVerb) -> Option<&AttemptId> {
    match verb {
        RunVerb::AttemptRunning(id, _) | RunVerb::ChangeWorkers(id, _) | RunVerb::EndAttempt(id, _) => {
            Some(id)
        }
        RunVerb::SetState(_) | RunVerb::BeginAttempt(_) | RunVerb::RecordCheckpoint(..) | RunVerb::End(_) => {
            None
        }
    }
}

async fn present(sending: &mut Option<Sending>) -> Answer {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}
