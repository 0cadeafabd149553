//! The loop: waits for whatever happens first, has the machine decide, and performs what it decided. Nothing in it waits
//! for one thing alone, so that it can be spoken to in every state.

use std::{collections::VecDeque, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};
use tracing::{debug, info};

use super::{
    callbacks::{Callbacks, Hook, RunContext},
    group::{GroupEvent, GroupSpec, WorkerGroup},
    handle::{Ask, ControllerHandle, asks},
    last_report::LastReport,
    log_shipper::LogShipper,
    machine::{Machine, Rules},
    options::{ControllerOptions, ControllerView, TrainResult},
    outbox::{FromHead, Outbox},
    policy::{Permanent, Why, drain},
    session::{Session, SessionInfo},
    session_server, stacks,
    steps::{Effect, History, Input, Outcome},
};
use crate::{
    base::{ActorId, RunId, Tasks, number},
    model::{
        commands::{ControllerIdentity, RegisterRun},
        ledger::Bundle,
        names::made_up_name,
        verbs::Begun,
    },
    state::{ClientError, DataDir, StateClient},
};

/// What is said at the end is delivered within this, or the user is told that it was not.
const FLUSH: Duration = Duration::from_secs(10);
/// The rest of the logs is sent within this.
const LAST_LOGS: Duration = Duration::from_secs(10);
/// Callbacks have this long to hear of the end.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// The display is brought up to date this often.
const SHOW: Duration = Duration::from_millis(250);
/// The group's health is looked at this often.
const LOOK: Duration = Duration::from_secs(1);

/// Drives one run.
pub struct TrainController<G> {
    options: ControllerOptions,
    run_id: RunId,
    group: G,
    machine: Machine,
    session: Arc<Session>,
    outbox: Outbox,
    callbacks: Callbacks,
    /// For a head that has its logs elsewhere.
    shipper: Option<LogShipper>,
    tasks: Tasks,
    asks: mpsc::Receiver<Ask>,
    show: watch::Sender<ControllerView>,
    handle: ControllerHandle,
    /// No rank makes steps.
    stalled: bool,
    waits: Waits,
    /// What the machine has decided and nobody has done yet.
    effects: VecDeque<Effect>,
    outcome: Option<Outcome>,
    /// When it began, on the monotonic clock.
    begun: Duration,
}

/// What the loop waits for.
#[derive(Default)]
struct Waits {
    /// The head's answer to an attempt that was asked for.
    asked: Option<oneshot::Receiver<Result<Begun, ClientError>>>,
    /// Callbacks that are called before a group may start.
    gate: Option<oneshot::Receiver<()>>,
    /// The ranks' stacks.
    stacks: Option<oneshot::Receiver<Vec<String>>>,
    pause: Option<Instant>,
    settle: Option<Instant>,
    /// When a group that was given notice gets the stop signal, and its grace then.
    drained: Option<(Instant, Duration)>,
}

impl<G> std::fmt::Debug for TrainController<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainController").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

impl<G: WorkerGroup> TrainController<G> {
    /// A controller for a run. The head need not be there yet: the run is registered when it is.
    ///
    /// # Errors
    /// When the session's socket cannot be made.
    pub fn new(
        mut options: ControllerOptions,
        client: Arc<dyn StateClient>,
        group: G,
    ) -> std::io::Result<Self> {
        let run_id = options.run_id.clone();
        let tasks = Tasks::new();
        let begun = options.clock.monotonic();
        let name = options.name.clone().unwrap_or_else(|| made_up_name(&run_id));
        let storage_path = options.data_dir.run_dir(&run_id);
        std::fs::create_dir_all(&storage_path)?;
        let info = SessionInfo {
            run_id: run_id.clone(),
            run_name: name.clone(),
            experiment: options.experiment.clone(),
            storage_path: storage_path.clone(),
            grace_period_ms: number::millis(options.grace),
            config: options.settings.clone(),
        };
        let session = Arc::new(Session::new(info, Arc::clone(&options.clock)));
        if let Some(socket) = &options.session_socket {
            session_server::serve(Arc::clone(&session), socket, &tasks)?;
        }
        let register = RegisterRun {
            id: Some(run_id.clone()),
            name: Some(name.clone()),
            experiment: options.experiment.clone(),
            settings: options.settings.clone(),
            tags: options.tags.clone(),
            start_time_ms: Some(options.clock.now()),
            controller: ControllerIdentity {
                actor_id: ActorId::generate(),
                lease_ttl_ms: u64::try_from(options.lease_ttl.as_millis()).ok(),
                process: options.process.clone(),
            },
            resume: options.resume,
            ..RegisterRun::by(ActorId::generate())
        };
        let outbox = Outbox::start(
            Arc::clone(&client),
            run_id.clone(),
            register,
            Arc::clone(&session),
            Arc::clone(&options.clock),
            options.heartbeat,
            &tasks,
        );
        let shipper = options.ships_logs.then(|| {
            LogShipper::start(client, run_id.clone(), options.data_dir.clone(), outbox.token(), &tasks)
        });
        let rules = Rules {
            run: run_id.clone(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            scaling: options.scaling.clone(),
            failures: options.failures,
            health: options.health,
        };
        let machine = Machine::new(rules);
        let run = RunContext {
            run_id: run_id.clone(),
            run_name: name,
            experiment: options.experiment.clone(),
            storage_path,
        };
        let callbacks = Callbacks::start(std::mem::take(&mut options.callbacks), run, &tasks);
        let (show, view) = watch::channel(ControllerView {
            state: machine.state(),
            detail: None,
            attempt: 0,
            workers_alive: 0,
            workers: 0,
            failures: machine.failures(),
            last: LastReport::default(),
            registered: None,
        });
        let (handle, asks) = asks(view);
        Ok(Self {
            options,
            run_id,
            group,
            machine,
            session,
            outbox,
            callbacks,
            shipper,
            tasks,
            asks,
            show,
            handle,
            stalled: false,
            waits: Waits::default(),
            effects: VecDeque::new(),
            outcome: None,
            begun,
        })
    }

    /// The run's id.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// The run's name.
    #[must_use]
    pub fn run_name(&self) -> &str {
        &self.session.info().run_name
    }

    /// Talks to this controller while it runs.
    #[must_use]
    pub fn handle(&self) -> ControllerHandle {
        self.handle.clone()
    }

    /// Drives the run to its end. No path leaves without a final word to the head.
    pub async fn run(mut self) -> TrainResult {
        let mut from_head = self.outbox.news();
        let mut told = self.session.told();
        let mut show = interval(SHOW);
        let mut look = interval(LOOK);
        show.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.callbacks.call(Hook::ControllerStart);
        // A run that is resumed goes on from what the head knows of it.
        if !self.options.resume {
            self.step(Input::Begin);
        }
        loop {
            self.publish(&from_head.borrow());
            if let Some(outcome) = self.outcome.take() {
                return self.finish(outcome).await;
            }
            let waits = &mut self.waits;
            tokio::select! {
                event = self.group.event() => self.happened(event),
                Some(ask) = self.asks.recv() => self.obey(ask),
                Ok(()) = from_head.changed() => {
                    let news = from_head.borrow_and_update().clone();
                    self.heard(news);
                }
                Ok(()) = told.changed() => {
                    let notice = told.borrow_and_update().clone();
                    if let Some(detail) = notice {
                        self.step(Input::Preempt(detail));
                    }
                }
                answer = answered(&mut waits.asked) => self.answered(answer),
                _ = answered(&mut waits.gate) => self.perform(),
                tail = answered(&mut waits.stacks) => {
                    self.step(Input::StacksWritten(tail.unwrap_or_default()));
                }
                what = self.callbacks.failure() => self.step(Input::CallbackFailed(what)),
                () = until(waits.pause) => {
                    waits.pause = None;
                    self.step(Input::PauseOver);
                }
                () = until(waits.settle) => {
                    waits.settle = None;
                    self.step(Input::Settled);
                }
                () = until(waits.drained.map(|(at, _)| at)) => {
                    let grace = waits.drained.take().map(|(_, grace)| grace);
                    self.shut_down(grace.unwrap_or(self.options.grace));
                }
                _ = look.tick() => self.look(),
                _ = show.tick() => {}
            }
        }
    }

    fn happened(&mut self, event: GroupEvent) {
        let attempt = self.machine.attempt();
        let input = match event {
            GroupEvent::Started { workers, master_address } => {
                self.callbacks.call(Hook::TrainingStart(attempt, workers.clone()));
                if let Some(shipper) = &self.shipper {
                    shipper.attempt(attempt, u32::try_from(workers.len()).unwrap_or(u32::MAX));
                }
                Input::Started { workers, master_address }
            }
            GroupEvent::Exited(exit) => Input::Exited(exit),
            GroupEvent::StartFailed { message, permanent } => Input::StartFailed { message, permanent },
            GroupEvent::Ended(report) => {
                self.callbacks.call(Hook::Shutdown(attempt, report.clone()));
                Input::Ended(report)
            }
            GroupEvent::Lost(report) => {
                self.callbacks.call(Hook::Shutdown(attempt, report.clone()));
                Input::Lost(report)
            }
        };
        self.step(input);
    }

    fn obey(&mut self, ask: Ask) {
        match ask {
            Ask::Stop { detail, grace } => self.step(Input::Stop { detail, grace }),
            Ask::Kill => self.step(Input::Kill),
            Ask::Preempt(detail) => self.step(Input::Preempt(detail)),
            Ask::Signal(signal) => self.group.signal(signal),
        }
    }

    /// What the head told, as something that happens to the run.
    fn heard(&mut self, news: FromHead) {
        if let Some(registered) = &news.registered
            && std::mem::take(&mut self.options.resume)
        {
            let history = History { attempts: registered.num_attempts, failures: registered.num_failures };
            self.machine.remember(history);
            self.step(Input::Begin);
        }
        if news.fenced {
            let detail = match news.refused {
                Some(why) => format!("the head does not record this run ({}): {}", why.slug, why.detail),
                None => "another controller took this run over".to_owned(),
            };
            self.step(Input::Stop { detail, grace: None });
        } else if let Some((reason, grace_ms)) = news.stop {
            let why = reason.map(|r| format!(": {r}")).unwrap_or_default();
            self.step(Input::Stop {
                detail: format!("stopped by user (API){why}"),
                grace: grace_ms.map(Duration::from_millis),
            });
        }
        if let Some(n) = news.fits {
            self.step(Input::Fits(n));
        }
    }

    fn answered(&mut self, answer: Option<Result<Begun, ClientError>>) {
        match answer {
            Some(Ok(begun)) => self.step(Input::Begun(begun)),
            Some(Err(ClientError::Refused { slug, detail })) if slug == "no-resources" => {
                self.step(Input::NoRoom(detail));
            }
            Some(Err(ClientError::Refused { detail, .. })) => self.step(Input::Refused(detail)),
            Some(Err(ClientError::Unreachable(why))) => self.step(Input::NoRoom(why)),
            // The way to the head is closed: this run is at its end.
            None => {}
        }
    }

    fn look(&mut self) {
        let alive = self.machine.alive();
        if alive.is_empty() {
            return;
        }
        self.callbacks.call(Hook::Poll(self.machine.attempt(), alive.clone()));
        let stalled = self.session.is_stalled();
        if std::mem::replace(&mut self.stalled, stalled) != stalled {
            self.callbacks.call(Hook::Stall(stalled));
        }
        self.step(Input::Tick(self.session.silence(&alive)));
    }

    fn step(&mut self, input: Input) {
        debug!("the controller has {input:?}");
        let before = self.machine.state();
        let effects = self.machine.on(input, self.options.clock.now());
        let after = self.machine.state();
        if before != after {
            info!(run.id = %self.run_id, "the controller goes from {before} to {after}");
            let detail = self.machine.detail().map(str::to_owned);
            self.callbacks.call(Hook::StateUpdate(before, after, detail));
        }
        self.effects.extend(effects);
        self.perform();
    }

    /// Does what was decided, up to a start that callbacks have to hear of before.
    fn perform(&mut self) {
        while let Some(effect) = self.effects.pop_front() {
            match effect {
                Effect::Start { .. } if self.waits.gate.is_some() => {
                    // Still being called.
                    self.effects.push_front(effect);
                    return self.unless_told_to_end();
                }
                Effect::Start { attempt, restart_count, num_workers, reservation } => {
                    let spec = self.begin_group(attempt, restart_count, num_workers, reservation);
                    self.group.start(spec);
                    self.callbacks.call(Hook::GroupStart(attempt));
                }
                Effect::Announce(attempt, placed) => {
                    self.waits.gate = self.callbacks.gate(Hook::BeforeGroupStart(attempt, placed));
                }
                Effect::Say(verb) => self.outbox.say(verb),
                Effect::Ask(begin) => self.waits.asked = Some(self.outbox.begin(begin)),
                Effect::Withdraw => self.waits.asked = None,
                Effect::Demand(demand) => self.outbox.set_demand(demand),
                Effect::Failed(failure) => self.callbacks.call(Hook::Failure(failure)),
                Effect::Resizing(from, to) => self.callbacks.call(Hook::Resize(from, to)),
                Effect::Drain(why) => self.drain(why),
                Effect::Shutdown { grace } => self.shut_down(grace.unwrap_or(self.options.grace)),
                Effect::Abort => {
                    let attempt = self.machine.attempt();
                    self.callbacks.call(Hook::BeforeAbort(attempt));
                    self.group.abort();
                    self.callbacks.call(Hook::Abort(attempt));
                }
                Effect::WriteStacks(ranks) => {
                    let ranks = ranks.into_iter().map(|(rank, pid)| (pid, self.log(rank))).collect();
                    self.waits.stacks = Some(stacks::write(ranks, &self.tasks));
                }
                Effect::Pause(pause) => self.waits.pause = Some(Instant::now() + pause),
                Effect::Settle(settle) => self.waits.settle = Some(Instant::now() + settle),
                Effect::Done(how) => self.outcome = Some(how),
            }
        }
    }

    /// A group that is to be ended before it was started is not started.
    fn unless_told_to_end(&mut self) {
        let ends =
            |effect: &Effect| matches!(effect, Effect::Shutdown { .. } | Effect::Drain(_) | Effect::Abort);
        if self.effects.iter().any(ends) {
            self.waits.gate = None;
            self.effects.retain(|effect| !ends(effect) && !matches!(effect, Effect::Start { .. }));
            let message = "stopped before the workers were started".to_owned();
            self.step(Input::StartFailed { message, permanent: Permanent::No });
        }
    }

    fn begin_group(
        &mut self,
        attempt: u32,
        restart_count: u32,
        num_workers: u32,
        reservation: Vec<Bundle>,
    ) -> GroupSpec {
        self.session.begin_attempt(attempt, restart_count, num_workers);
        self.waits.drained = None;
        GroupSpec {
            run: self.run_id.clone(),
            attempt,
            restart_count,
            max_restarts: self.options.failures.max_failures,
            num_workers,
            reservation,
            grace: self.options.grace,
            session: Arc::clone(&self.session),
        }
    }

    fn drain(&mut self, why: Why) {
        let heeded = self.session.all_heed(&self.machine.alive());
        let (after, grace) = drain(why, self.options.grace, heeded);
        self.session.give_notice(why, after + grace);
        if after.is_zero() {
            self.shut_down(grace);
        } else {
            self.waits.drained = Some((Instant::now() + after, grace));
        }
    }

    fn shut_down(&mut self, grace: Duration) {
        self.waits.drained = None;
        self.session.request_stop();
        self.callbacks.call(Hook::BeforeShutdown(self.machine.attempt()));
        self.group.shutdown(self.options.stop_signal, grace);
    }

    fn log(&self, rank: u32) -> PathBuf {
        self.options.data_dir.root().join(DataDir::log(&self.run_id, self.machine.attempt(), rank))
    }

    fn publish(&self, from_head: &FromHead) {
        let view = ControllerView {
            state: self.machine.state(),
            detail: self.machine.detail().map(str::to_owned),
            attempt: self.machine.attempt(),
            workers_alive: self.machine.alive().len(),
            workers: self.machine.workers(),
            failures: self.machine.failures(),
            last: self.session.last_report().0,
            registered: from_head.registered.as_ref().map(|registered| registered.name.clone()),
        };
        self.show.send_if_modified(|shown| {
            let changed = *shown != view;
            *shown = view;
            changed
        });
    }

    async fn finish(self, outcome: Outcome) -> TrainResult {
        let took = self.options.clock.monotonic().saturating_sub(self.begun);
        self.callbacks.call(Hook::BeforeControllerShutdown);
        let delivered = self.outbox.flush(FLUSH).await;
        self.publish(&self.outbox.news().borrow());
        // The run has ended by now, whatever becomes of its logs.
        if let Some(shipper) = self.shipper
            && !shipper.finish(LAST_LOGS).await
        {
            tracing::warn!("the head does not have all logs; they are whole in the run's directory");
        }
        let (last, dropped) = self.session.last_report();
        let dropped = dropped + self.outbox.dropped_points();
        if dropped > 0 {
            tracing::warn!("{dropped} points could not be kept while the head was away");
        }
        let (run_status, status_detail, exit_code) = match outcome {
            Outcome::Finished => ("FINISHED", None, 0),
            Outcome::Errored { detail, exit_code } => ("ERRORED", Some(detail), exit_code.max(1)),
            Outcome::Aborted { detail, exit_code } => ("ABORTED", Some(detail), exit_code),
        };
        let (num_attempts, num_failures) = (self.machine.num_attempts(), self.machine.failures());
        let (attempts, error) = self.machine.into_parts();
        let result = TrainResult {
            run_id: self.run_id.clone(),
            run_status,
            status_detail,
            error,
            num_attempts,
            num_failures,
            attempts,
            return_value: self.session.returned(),
            took,
            storage_path: self.options.data_dir.run_dir(&self.run_id),
            last_metrics: last.metrics.into_iter().collect(),
            delivered,
            exit_code,
        };
        if let Some(called) = self.callbacks.gate(Hook::Finish(Box::new(result.clone())))
            && timeout(LAST_CALLS, called).await.is_err()
        {
            tracing::warn!("callbacks did not hear of the run's end within {} s", LAST_CALLS.as_secs());
        }
        self.tasks.shutdown("the controller", Duration::from_secs(5)).await;
        result
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The answer that is waited for, which is not waited for then any more; none if there will not be one.
async fn answered<T>(waits: &mut Option<oneshot::Receiver<T>>) -> Option<T> {
    let Some(receiver) = waits else { return std::future::pending().await };
    let answer = receiver.await.ok();
    *waits = None;
    answer
}
