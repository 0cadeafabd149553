//! The loop: waits for whatever happens first, has the machine decide, and performs what it decided.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use tracing::{debug, info};

use super::{
    failure,
    group::{GroupEvent, GroupSpec, RankExit, WorkerGroup},
    last_report::LastReport,
    machine::Machine,
    options::{ControllerOptions, ControllerView, TrainResult},
    outbox::{FromHead, Outbox},
    session::{Session, SessionInfo},
    session_server,
    steps::{Effect, Input, Outcome},
    words::Evidence,
};
use crate::{
    base::{ActorId, RunId, Tasks, number},
    model::{
        ControllerState,
        commands::{ControllerIdentity, RegisterRun},
        names::made_up_name,
    },
    state::{DataDir, StateClient},
};

/// What is said at the end is delivered within this, or the user is told that it was not.
const FLUSH: Duration = Duration::from_secs(10);
/// The display is brought up to date this often.
const SHOW: Duration = Duration::from_millis(250);

enum Ask {
    Stop { detail: String, grace: Option<Duration> },
    Kill,
    Signal(i32),
}

/// Talks to a controller that runs.
#[derive(Clone, Debug)]
pub struct ControllerHandle {
    asks: mpsc::Sender<Ask>,
    view: watch::Receiver<ControllerView>,
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

/// Drives one run.
pub struct TrainController<G> {
    options: ControllerOptions,
    run_id: RunId,
    group: G,
    machine: Machine,
    session: Arc<Session>,
    outbox: Outbox,
    tasks: Tasks,
    asks: mpsc::Receiver<Ask>,
    show: watch::Sender<ControllerView>,
    handle: ControllerHandle,
    pause: Option<Instant>,
    /// When it began, on the monotonic clock.
    begun: Duration,
}

impl<G> std::fmt::Debug for TrainController<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainController").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

impl<G: WorkerGroup> TrainController<G> {
    /// A controller for a new run. The head need not be there yet: the run is registered when it is.
    ///
    /// # Errors
    /// When the session's socket cannot be made.
    pub fn new(options: ControllerOptions, client: Arc<dyn StateClient>, group: G) -> std::io::Result<Self> {
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
            world_size: options.num_workers,
            storage_path,
            grace_period_ms: number::millis(options.grace),
            config: options.settings.clone(),
        };
        let session = Arc::new(Session::new(info, Arc::clone(&options.clock)));
        if let Some(socket) = &options.session_socket {
            session_server::serve(Arc::clone(&session), socket, &tasks)?;
        }
        let register = RegisterRun {
            id: Some(run_id.clone()),
            name: Some(name),
            experiment: options.experiment.clone(),
            settings: options.settings.clone(),
            tags: options.tags.clone(),
            start_time_ms: Some(options.clock.now()),
            controller: ControllerIdentity {
                actor_id: ActorId::generate(),
                lease_ttl_ms: u64::try_from(options.lease_ttl.as_millis()).ok(),
                process: options.process.clone(),
            },
            ..RegisterRun::by(ActorId::generate())
        };
        let outbox = Outbox::start(
            client,
            run_id.clone(),
            register,
            Arc::clone(&session),
            Arc::clone(&options.clock),
            options.heartbeat,
            &tasks,
        );
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let machine = Machine::new(host, options.num_workers, options.failures);
        let (sender, asks) = mpsc::channel(16);
        let (show, view) = watch::channel(ControllerView {
            state: machine.state(),
            attempt: 0,
            workers_alive: 0,
            workers: 0,
            failures: 0,
            last: LastReport::default(),
            registered: None,
        });
        let handle = ControllerHandle { asks: sender, view };
        Ok(Self {
            options,
            run_id,
            group,
            machine,
            session,
            outbox,
            tasks,
            asks,
            show,
            handle,
            pause: None,
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
        let mut show = interval(SHOW);
        show.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut outcome = self.step(Input::Begin).await;
        while outcome.is_none() {
            let pause = self.pause;
            let paused = async {
                match pause {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = self.group.event() => {
                    let input = self.happened(event).await;
                    outcome = self.step(input).await;
                }
                Some(ask) = self.asks.recv() => {
                    let input = match ask {
                        Ask::Stop { detail, grace } => Input::Stop { detail, grace },
                        Ask::Kill => Input::Kill,
                        Ask::Signal(signal) => {
                            self.group.signal(signal).await;
                            continue;
                        }
                    };
                    outcome = self.step(input).await;
                }
                Ok(()) = from_head.changed() => {
                    let told = from_head.borrow_and_update().clone();
                    if let Some(input) = heard(told) {
                        outcome = self.step(input).await;
                    }
                }
                () = paused => {
                    self.pause = None;
                    outcome = self.step(Input::PauseOver).await;
                }
                _ = show.tick() => {}
            }
            self.publish(&from_head.borrow());
        }
        self.finish(outcome.unwrap_or(Outcome::Finished)).await
    }

    /// Turns an event of the group into the machine's input, with what a failed rank left behind. Not part of the wait:
    /// whatever else happens, this is carried to its end.
    async fn happened(&mut self, event: GroupEvent) -> Input {
        match event {
            GroupEvent::Started(workers) => Input::Started(workers),
            GroupEvent::Exited(exit) => {
                let evidence = if self.machine.would_be_first_failure(&exit) {
                    self.evidence(&exit).await
                } else {
                    Evidence::default()
                };
                Input::Exited(exit, evidence)
            }
            GroupEvent::StartFailed { message, permanent } => {
                self.group.clear_away().await;
                Input::StartFailed { message, permanent }
            }
            GroupEvent::Ended(report) => {
                self.group.clear_away().await;
                Input::Ended(report)
            }
            GroupEvent::Lost => Input::Lost(self.group.clear_away().await),
        }
    }

    async fn evidence(&self, exit: &RankExit) -> Evidence {
        let attempt = self.machine.attempt();
        let log = self.options.data_dir.root().join(DataDir::log(&self.run_id, attempt, exit.rank));
        let error = self.options.data_dir.error_file(&self.run_id, attempt, exit.rank);
        tokio::task::spawn_blocking(move || failure::evidence(&log, &error)).await.unwrap_or_default()
    }

    async fn step(&mut self, input: Input) -> Option<Outcome> {
        debug!("the controller has {input:?}");
        let before = self.machine.state();
        let effects = self.machine.on(input, self.options.clock.now());
        let after = self.machine.state();
        if before != after {
            info!(run.id = %self.run_id, "the controller goes from {before} to {after}");
        }
        let mut outcome = None;
        for effect in effects {
            match effect {
                Effect::Say(verb) => self.outbox.say(verb),
                Effect::Start { attempt, restart_count } => {
                    self.session.begin_attempt(attempt, restart_count);
                    let spec = GroupSpec {
                        run: self.run_id.clone(),
                        attempt,
                        restart_count,
                        max_restarts: self.options.failures.max_failures,
                        num_workers: self.options.num_workers,
                        session: Arc::clone(&self.session),
                    };
                    self.group.start(spec).await;
                }
                Effect::Shutdown { grace } => {
                    if matches!(after, ControllerState::ShuttingDown) {
                        self.session.request_stop();
                    }
                    self.group.shutdown(self.options.stop_signal, grace.unwrap_or(self.options.grace)).await;
                }
                Effect::Abort => self.group.abort().await,
                Effect::Pause(pause) => self.pause = Some(Instant::now() + pause),
                Effect::Done(how) => outcome = Some(how),
            }
        }
        outcome
    }

    fn publish(&self, from_head: &FromHead) {
        let (workers_alive, workers) = self.machine.workers();
        let view = ControllerView {
            state: self.machine.state(),
            attempt: self.machine.attempt(),
            workers_alive,
            workers,
            failures: self.machine.worker_failures(),
            last: self.session.last_report().0,
            registered: from_head.registered.as_ref().map(|r| r.name.clone()),
        };
        self.show.send_if_modified(|shown| {
            let changed = *shown != view;
            *shown = view;
            changed
        });
    }

    async fn finish(self, outcome: Outcome) -> TrainResult {
        let took = self.options.clock.monotonic().saturating_sub(self.begun);
        let delivered = self.outbox.flush(FLUSH).await;
        self.publish(&self.outbox.news().borrow());
        let (last, dropped) = self.session.last_report();
        let dropped = dropped + self.outbox.dropped_points();
        if dropped > 0 {
            tracing::warn!("{dropped} points could not be kept while the head was away");
        }
        self.tasks.shutdown("the controller", Duration::from_secs(5)).await;
        let (run_status, status_detail, exit_code) = match outcome {
            Outcome::Finished => ("FINISHED", None, 0),
            Outcome::Errored { detail, exit_code } => ("ERRORED", Some(detail), exit_code.max(1)),
            Outcome::Aborted { detail } => ("ABORTED", Some(detail), 130),
        };
        TrainResult {
            run_id: self.run_id.clone(),
            run_status,
            status_detail,
            num_attempts: self.machine.attempt() + 1,
            took,
            storage_path: self.options.data_dir.run_dir(&self.run_id),
            last_metrics: last.metrics.into_iter().collect(),
            delivered,
            exit_code,
        }
    }
}

/// What the head told, as something that happens to the run.
fn heard(told: FromHead) -> Option<Input> {
    if told.fenced {
        let detail = match told.refused {
            Some(why) => format!("the head does not record this run ({}): {}", why.slug, why.detail),
            None => "another controller took this run over".to_owned(),
        };
        return Some(Input::Stop { detail, grace: None });
    }
    let (reason, grace_ms) = told.stop?;
    let why = reason.map(|r| format!(": {r}")).unwrap_or_default();
    Some(Input::Stop {
        detail: format!("stopped by user (API){why}"),
        grace: grace_ms.map(Duration::from_millis),
    })
}
