//! What the controller says to the head, in order, whether the head is there or not. Training never waits for it: what
//! cannot be delivered waits here, and every message may be sent twice without harm.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval, timeout},
};
use tracing::{info, warn};

use super::session::{Session, Taken};
use crate::{
    base::{ActorId, Clock, RunId, Secret, Tasks},
    model::{
        commands::{Heartbeat, HeartbeatAnswer, RegisterRun, Registration},
        metrics::{Columns, MetricValue, Report, ReportBatch},
        verbs::RunVerb,
    },
    state::{ClientError, StateClient},
};

/// Metrics of this long are sent together.
const GATHER: Duration = Duration::from_millis(50);
/// The pause before another try, doubling to the other.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MOST: Duration = Duration::from_secs(1);
/// Most reports of one message.
const REPORTS: usize = 2000;

/// What the head tells its controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FromHead {
    /// The answer to the registration.
    pub(super) registered: Option<String>,
    /// Somebody wants the run to stop: why, and with how much grace.
    pub(super) stop: Option<(Option<String>, Option<u64>)>,
    /// Another controller took the run over.
    pub(super) fenced: bool,
}

enum Message {
    Say(RunVerb),
    /// Deliver everything that is there, then answer.
    Flush(oneshot::Sender<()>),
}

/// The way to the head.
pub(super) struct Outbox {
    sender: mpsc::UnboundedSender<Message>,
    from_head: watch::Receiver<FromHead>,
}

impl Outbox {
    /// Starts to deliver: first the registration.
    pub(super) fn start(
        client: Arc<dyn StateClient>,
        run: RunId,
        register: RegisterRun,
        session: Arc<Session>,
        clock: Arc<dyn Clock>,
        heartbeat: Duration,
        tasks: &Tasks,
    ) -> Self {
        // Unbounded in form only: the controller says a bounded number of things in each attempt, and metrics wait in
        // the session, which is bounded.
        let (sender, messages) = mpsc::unbounded_channel();
        let (tell, from_head) = watch::channel(FromHead::default());
        let writer = register.controller.actor_id.clone();
        let delivery = Delivery {
            client,
            run,
            register: Some(register),
            token: None,
            session,
            clock,
            queue: VecDeque::new(),
            flush: None,
            tell,
            writer,
            seq: 0,
            troubled: false,
            refused: false,
        };
        let stop = tasks.stopping();
        drop(tasks.spawn(async move {
            tokio::select! {
                () = delivery.run(messages, heartbeat) => {}
                () = stop.cancelled() => {}
            }
        }));
        Self { sender, from_head }
    }

    /// Says something to the head, some time.
    pub(super) fn say(&self, verb: RunVerb) {
        // The delivery ends after the controller only.
        let _ = self.sender.send(Message::Say(verb));
    }

    /// What the head told.
    pub(super) fn news(&self) -> watch::Receiver<FromHead> {
        self.from_head.clone()
    }

    /// Waits until all was delivered, at most `limit`; whether it was.
    pub(super) async fn flush(&self, limit: Duration) -> bool {
        let (done, delivered) = oneshot::channel();
        if self.sender.send(Message::Flush(done)).is_err() {
            return false;
        }
        matches!(timeout(limit, delivered).await, Ok(Ok(())))
    }
}

enum Item {
    Say(RunVerb),
    Report(ReportBatch),
}

struct Delivery {
    client: Arc<dyn StateClient>,
    run: RunId,
    register: Option<RegisterRun>,
    token: Option<Secret>,
    session: Arc<Session>,
    clock: Arc<dyn Clock>,
    queue: VecDeque<Item>,
    flush: Option<oneshot::Sender<()>>,
    tell: watch::Sender<FromHead>,
    writer: ActorId,
    seq: u64,
    /// The head did not answer; it was said once.
    troubled: bool,
    /// The head does not record this run.
    refused: bool,
}

impl Delivery {
    async fn run(mut self, mut messages: mpsc::UnboundedReceiver<Message>, heartbeat: Duration) {
        let mut beat = interval(heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pause = RETRY_FIRST;
        loop {
            self.take_metrics(Take::IfNoneWaits);
            let delivered = self.deliver_one().await;
            // What came in the meantime keeps its order behind what waits.
            while let Ok(message) = messages.try_recv() {
                self.accept(message);
            }
            let wait = match delivered {
                Delivered::One => {
                    pause = RETRY_FIRST;
                    Duration::ZERO
                }
                Delivered::NotNow => {
                    let now = pause;
                    pause = (pause * 2).min(RETRY_MOST);
                    now
                }
                Delivered::Nothing if self.queue.is_empty() || self.refused => {
                    if let Some(done) = self.flush.take() {
                        let _ = done.send(());
                        continue;
                    }
                    Duration::MAX
                }
                Delivered::Nothing => Duration::ZERO,
            };
            tokio::select! {
                // However much there is to deliver, the lease is renewed, and a stop is heard of with it.
                biased;
                _ = beat.tick() => self.beat().await,
                message = messages.recv(), if wait > Duration::ZERO => match message {
                    Some(message) => self.accept(message),
                    None => return,
                },
                () = self.session.arrived(), if wait == Duration::MAX => tokio::time::sleep(GATHER).await,
                () = std::future::ready(()), if wait == Duration::ZERO => {}
                () = tokio::time::sleep(wait), if wait < Duration::MAX => {}
            }
        }
    }

    fn accept(&mut self, message: Message) {
        match message {
            Message::Say(verb) => {
                // What was reported before belongs before.
                self.take_metrics(Take::All);
                self.queue.push_back(Item::Say(verb));
            }
            Message::Flush(done) => self.flush = Some(done),
        }
    }

    fn take_metrics(&mut self, take: Take) {
        // What is not taken waits in the session, whose bound holds.
        if take == Take::IfNoneWaits && self.queue.iter().any(|item| matches!(item, Item::Report(_))) {
            return;
        }
        for ((attempt, rank), reports) in self.session.take_reports() {
            for part in reports.chunks(REPORTS) {
                self.seq += 1;
                let mut batch = batch(part);
                batch.writer = self.writer.clone();
                (batch.seq, batch.attempt, batch.rank) = (self.seq, attempt, rank);
                self.queue.push_back(Item::Report(batch));
            }
        }
    }

    /// Delivers the oldest message.
    async fn deliver_one(&mut self) -> Delivered {
        let Some(token) = self.token.clone() else { return self.register().await };
        let (what, result) = match self.queue.front() {
            None => return Delivered::Nothing,
            Some(Item::Say(verb)) => ("a change", self.client.say(&self.run, &token, verb.clone()).await),
            Some(Item::Report(batch)) => {
                ("metrics", self.client.report(&self.run, &token, batch.clone()).await)
            }
        };
        self.settle(what, result)
    }

    async fn register(&mut self) -> Delivered {
        let Some(body) = self.register.clone() else { return Delivered::Nothing };
        match self.client.register(body).await {
            Ok(Registration { name, token, .. }) => {
                self.answered();
                self.token = Some(token);
                self.register = None;
                self.tell.send_modify(|told| told.registered = Some(name));
                Delivered::One
            }
            Err(ClientError::Unreachable(why)) => self.trouble(&why),
            Err(e @ ClientError::Refused { .. }) => {
                warn!("the run is not recorded: {e}");
                self.register = None;
                self.refused = true;
                self.tell.send_modify(|told| told.fenced = true);
                Delivered::Nothing
            }
        }
    }

    fn settle(&mut self, what: &str, result: Result<(), ClientError>) -> Delivered {
        match result {
            Ok(()) => self.answered(),
            Err(ClientError::Unreachable(why)) => return self.trouble(&why),
            Err(ClientError::Refused { slug, detail }) => {
                warn!("the head did not take {what} ({slug}): {detail}");
                if slug == "stale-controller" {
                    self.tell.send_modify(|told| told.fenced = true);
                }
            }
        }
        self.queue.pop_front();
        Delivered::One
    }

    async fn beat(&mut self) {
        let Some(controller_token) = self.token.clone() else { return };
        let beat = Heartbeat {
            run_id: self.run.clone(),
            controller_token,
            time_ms: Some(self.clock.now()),
            progress: None,
            demand: None,
        };
        match self.client.heartbeat(beat).await {
            Ok(HeartbeatAnswer { stop_requested, stop_reason, grace_period_ms, problem, .. }) => {
                self.answered();
                let fenced = problem.as_deref() == Some("stale-controller");
                let stop = stop_requested.then_some((stop_reason, grace_period_ms));
                self.tell.send_if_modified(|told| {
                    let news = FromHead {
                        registered: told.registered.clone(),
                        stop: stop.or(told.stop.clone()),
                        fenced,
                    };
                    let changed = *told != news;
                    *told = news;
                    changed
                });
            }
            Err(e) => drop(self.trouble(&e.to_string())),
        }
    }

    fn trouble(&mut self, why: &str) -> Delivered {
        if !std::mem::replace(&mut self.troubled, true) {
            warn!("{why}; training goes on, and what there is to say is delivered later");
        }
        Delivered::NotNow
    }

    fn answered(&mut self) {
        if std::mem::take(&mut self.troubled) {
            info!("the head answers again");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Take {
    All,
    IfNoneWaits,
}

enum Delivered {
    One,
    Nothing,
    NotNow,
}

/// Reports as a message: as columns where all have the same keys, which is the quick form.
fn batch(reports: &[Taken]) -> ReportBatch {
    // Writer, number, attempt and rank are set by the caller.
    let mut batch = ReportBatch {
        writer: ActorId::generate(),
        seq: 0,
        attempt: 0,
        rank: 0,
        reports: Vec::new(),
        columns: None,
    };
    let keys = |r: &Taken| r.metrics.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let first = reports.first().map(keys).unwrap_or_default();
    if reports.iter().all(|r| r.metrics.iter().map(|(key, _)| key).eq(first.iter())) {
        let column =
            |at: usize| reports.iter().filter_map(move |r| r.metrics.get(at)).map(|(_, x)| MetricValue(*x));
        batch.columns = Some(Columns {
            step: reports.iter().map(|r| r.step).collect(),
            time_ms: Some(reports.iter().map(|r| r.time).collect()),
            metrics: first.into_iter().enumerate().map(|(at, key)| (key, column(at).collect())).collect(),
        });
    } else {
        let value = |x: f64| serde_json::to_value(MetricValue(x)).unwrap_or_default();
        batch.reports = reports
            .iter()
            .map(|r| Report {
                step: r.step,
                time_ms: Some(r.time),
                metrics: r.metrics.iter().map(|(key, x)| (key.clone(), value(*x))).collect(),
            })
            .collect();
    }
    batch
}
