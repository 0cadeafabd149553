//! The driver's side of one worker: asks, stops, resets, and hears what becomes of whatever holds the function.

use std::{io, path::Path, sync::Arc, time::Duration};

use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{
    Reset, Trial, TrialEnd, TrialOptions,
    offers::{Offer, Offers},
    record::{How, Record},
};
use crate::{
    base::{RunId, Tasks, number},
    controller::{
        AgentGroup, ClosureGroup, Launch, WorkerSession,
        checkpoints::{Desk, Resume, Usable, Wait},
        group::{GroupEvent, GroupSpec, RankExit, WorkerGroup},
        session::{Drive, Recorded, Reporter, Session, SessionInfo, TrialError, TrialResult},
        session_server,
        words::describe,
    },
};

/// The variable that tells a worker's client how long a report may take.
const REPORTING_VARIABLE: &str = "TRAINHEAD_REPORTING";
/// What is left to do for a trial that is over gets no longer.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// One worker, which runs one trial after the other.
pub struct TrialWorker<G> {
    options: TrialOptions,
    group: G,
    tasks: Tasks,
    offers: Arc<Offers>,
    sessions: watch::Sender<Arc<Session>>,
    now: Now,
    up: Standing,
    /// Who the worker is, once it was started.
    by: Reporter,
    ended: TrialEnd,
}

/// The trial that is there.
struct Now {
    number: u64,
    trial: Trial,
    run: RunId,
    session: Arc<Session>,
    desk: Desk,
    /// What works for this trial alone.
    tasks: Tasks,
    /// What the desk has to do first.
    ready: Option<oneshot::Receiver<Resume>>,
    record: Option<Record>,
    begun: bool,
}

/// Whether there is a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Down,
    Starting,
    Running,
    /// It has ended, and what is left of it is being cleared away.
    Ending,
}

impl<G> std::fmt::Debug for TrialWorker<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrialWorker")
            .field("trial", &self.now.trial.name)
            .field("up", &self.up)
            .finish_non_exhaustive()
    }
}

impl TrialWorker<AgentGroup> {
    /// A worker that is a process, with `trial` as its first one. A program that asks for trials can be used again; one
    /// that just runs is a trial by itself.
    ///
    /// # Errors
    /// When the session's socket or the trial's directory cannot be made.
    pub fn process(mut launch: Launch, trial: Trial, options: TrialOptions) -> io::Result<Self> {
        let reporting = serde_json::to_value(options.reporting).map_err(io::Error::other)?;
        let reporting = reporting.as_str().unwrap_or_default().to_owned();
        launch.env.insert(REPORTING_VARIABLE.to_owned(), reporting);
        let socket = launch.session_socket.clone();
        Self::new(AgentGroup::new(launch), Some(&socket), trial, options)
    }
}

impl TrialWorker<ClosureGroup> {
    /// A worker that is a thread, which calls `train`.
    ///
    /// # Errors
    /// When the trial's directory cannot be made.
    pub fn closure<F>(train: F, trial: Trial, options: TrialOptions) -> io::Result<Self>
    where
        F: Fn(WorkerSession) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    {
        Self::new(ClosureGroup::new(train), None, trial, options)
    }
}

impl<G: WorkerGroup> TrialWorker<G> {
    fn new(group: G, socket: Option<&Path>, trial: Trial, options: TrialOptions) -> io::Result<Self> {
        let tasks = Tasks::new();
        let now = Now::new(1, trial, &options)?;
        let (sessions, current) = watch::channel(Arc::clone(&now.session));
        let offers = Arc::new(Offers::new());
        if let Some(socket) = socket {
            session_server::serve_trials(current, Arc::clone(&offers), socket, &tasks)?;
        }
        Ok(Self {
            options,
            group,
            tasks,
            offers,
            sessions,
            now,
            up: Standing::Down,
            by: Reporter::default(),
            ended: TrialEnd::default(),
        })
    }

    /// The next result of the trial; none when its function has ended and every result was given, and only then what it
    /// raised. The first call starts the function. May be dropped and called again.
    ///
    /// # Errors
    /// What the function raised, or that its worker died or could not be started; the same each time.
    pub async fn next_result(&mut self) -> Result<Option<TrialResult>, TrialError> {
        self.begin().await;
        loop {
            tokio::select! {
                biased;
                next = self.now.session.next_result() => return next,
                event = self.group.event(), if self.up != Standing::Down => self.heard(event),
            }
        }
    }

    /// Tells the function to end: its next report says so, and so does the one that it stands in.
    pub fn stop(&self) {
        self.now.session.request_stop();
    }

    /// Lets the function run on without results: from now on its reports are accepted and ignored.
    pub fn pause_reporting(&self) {
        self.now.session.pause_reporting();
    }

    /// Stops the function; whether it was gone within the limit.
    pub async fn finish(&mut self, limit: Duration) -> bool {
        self.stop();
        let deadline = Instant::now() + limit;
        loop {
            if self.now.session.has_function_ended() {
                return true;
            }
            tokio::select! {
                () = self.now.session.until_function_ended() => {}
                event = self.group.event(), if self.up != Standing::Down => self.heard(event),
                () = sleep_until(deadline) => return false,
            }
        }
    }

    /// Ends the trial and takes up another one. The worker is used again if the function has ended in time; otherwise
    /// nothing is left of it when this returns, and the next one is started with the trial.
    ///
    /// # Errors
    /// When the trial's directory cannot be made.
    pub async fn reset(&mut self, trial: Trial) -> io::Result<Reset> {
        let gone = self.finish(self.options.reuse_timeout).await;
        let by = self.by.clone();
        let is_thread = self.by.pid.is_none();
        let reset =
            if gone && (is_thread || self.up == Standing::Running) { Reset::Reused } else { Reset::Replaced };
        if reset == Reset::Replaced || is_thread {
            self.clear().await;
        }
        let next = Now::new(self.now.number + 1, trial, &self.options)?;
        next.session.set_reporter(self.by.clone());
        self.sessions.send_replace(Arc::clone(&next.session));
        let last = std::mem::replace(&mut self.now, next);
        let how = if gone { How::Ended } else { How::Left };
        // What is left to be said and moved of the last one does not hold the next one up.
        drop(self.tasks.spawn(last.close(how, by)));
        Ok(reset)
    }

    /// Ends the worker: its function by a stop, its program by leave to go, and after the grace whatever is left by
    /// force. How it ended.
    pub async fn close(mut self) -> TrialEnd {
        let gone = self.finish(self.options.grace).await;
        self.offers.leave();
        let deadline = Instant::now() + self.options.grace;
        while gone && self.up == Standing::Running {
            tokio::select! {
                event = self.group.event() => self.heard(event),
                () = sleep_until(deadline) => break,
            }
        }
        let by = self.by.clone();
        self.clear().await;
        self.now.close(if gone { How::Ended } else { How::Left }, by).await;
        self.tasks.shutdown("a worker of trials", CLOSE_LIMIT).await;
        self.ended
    }

    /// The latest checkpoint of the trial that is whole, as a directory on this node, when all that was handed in is.
    ///
    /// # Errors
    /// When it cannot be fetched.
    pub async fn checkpoint(&self) -> Result<Option<Usable>, String> {
        let _ = self.now.desk.list(Default::default(), None, Some(CLOSE_LIMIT)).await;
        self.now.desk.fetch_latest().await
    }

    /// What the function returned, if it said so.
    #[must_use]
    pub fn returned(&self) -> Option<serde_json::Value> {
        self.now.session.returned()
    }

    /// The worker's process; none if it is a thread, or not started yet.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.by.pid
    }

    /// The run that the trial is.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.now.run
    }

    /// Offers the trial to the worker, which is started if there is none.
    async fn begin(&mut self) {
        if let Some(ready) = &mut self.now.ready {
            // Without it there is nothing to wait for.
            let _ = ready.await;
            self.now.ready = None;
        }
        if !self.now.begun && !self.now.session.has_function_ended() {
            self.now.begun = true;
            let Trial { name, config, .. } = self.now.trial.clone();
            self.offers.offer(Offer { number: self.now.number, name, config });
            if self.up == Standing::Down {
                self.up = Standing::Starting;
                self.group.start(GroupSpec {
                    run: self.now.run.clone(),
                    attempt: 0,
                    restart_count: 0,
                    max_restarts: 0,
                    num_workers: 1,
                    reservation: Vec::new(),
                    grace: self.options.grace,
                    session: Arc::clone(&self.now.session),
                });
            }
        }
        while self.up == Standing::Starting {
            let event = self.group.event().await;
            self.heard(event);
        }
        if self.up == Standing::Running
            && let Some(record) = &mut self.now.record
        {
            record.running(&self.by);
        }
    }

    fn heard(&mut self, event: GroupEvent) {
        let session = &self.now.session;
        match event {
            GroupEvent::Started { workers, .. } => {
                self.up = Standing::Running;
                if let Some(worker) = workers.into_iter().next() {
                    self.by = Reporter { rank: worker.world_rank, host: worker.node_id, pid: worker.pid };
                    session.set_reporter(self.by.clone());
                }
            }
            GroupEvent::Exited(exit) => {
                self.up = Standing::Ending;
                self.ended.code = exit.code;
                session.function_ended(self.outcome(exit));
            }
            GroupEvent::StartFailed { message, .. } => {
                self.up = Standing::Down;
                session.function_ended(Err(TrialError::NotStarted(message)));
            }
            GroupEvent::Ended(report) | GroupEvent::Lost(report) => {
                self.up = Standing::Down;
                self.ended.report = report;
                session.function_ended(Err(TrialError::Died("its worker was ended".to_owned())));
            }
        }
    }

    fn outcome(&self, exit: RankExit) -> Result<(), TrialError> {
        if exit.is_success() {
            return Ok(());
        }
        Err(match exit.message {
            Some(message) if exit.out_of_memory.is_none() => TrialError::Raised { message, traceback: None },
            _ => TrialError::Died(describe(&exit, self.by.pid, &self.by.host)),
        })
    }

    /// Ends whatever holds the function, at once.
    async fn clear(&mut self) {
        if self.up == Standing::Down {
            return;
        }
        self.group.abort();
        while self.up != Standing::Down {
            let event = self.group.event().await;
            self.heard(event);
        }
        self.by = Reporter::default();
    }
}

impl Now {
    fn new(number: u64, trial: Trial, options: &TrialOptions) -> io::Result<Self> {
        let (run, tasks) = (RunId::generate(), Tasks::new());
        let storage_path = options.data_dir.run_dir(&run);
        std::fs::create_dir_all(&storage_path)?;
        let info = SessionInfo {
            run_id: run.clone(),
            run_name: trial.name.clone(),
            experiment: options.experiment.clone(),
            storage_path: storage_path.clone(),
            grace_period_ms: number::millis(options.grace),
            config: trial.config.clone(),
        };
        let clock = Arc::clone(&options.clock);
        let desk = Desk::open(
            options.checkpoints.clone(),
            run.clone(),
            options.experiment.clone(),
            storage_path,
            Arc::clone(&clock),
            &tasks,
        )
        .named(&trial.name);
        let recorded = if options.recorded_by.is_some() { Recorded::Yes } else { Recorded::No };
        let drive = Drive { number, trial: trial.name.clone(), reporting: options.reporting, recorded };
        let session = Arc::new(Session::of_trial(info, desk.clone(), clock, drive));
        session.begin_attempt(0, 0, 1, trial.checkpoint.clone());
        let ready = Some(desk.begin_attempt(0, 1));
        let record = options
            .recorded_by
            .as_ref()
            .map(|client| Record::begin(Arc::clone(client), (&run, &trial), &session, options, &tasks));
        Ok(Self { number, trial, run, session, desk, tasks, ready, record, begun: false })
    }

    /// Waits for what is under way: of its checkpoints, and of its record.
    async fn close(self, how: How, by: Reporter) {
        if how == How::Ended {
            self.desk.rank_done(0, 0);
        }
        // Whatever is not there by then is given up.
        let _ = timeout(CLOSE_LIMIT, self.desk.close_attempt(0, Wait::Uploads)).await;
        if let Some(record) = self.record {
            record.checkpoints(self.desk.all());
            record.end(self.session.function_error(), how, &by, CLOSE_LIMIT).await;
        }
        self.tasks.shutdown("a trial", CLOSE_LIMIT).await;
    }
}
