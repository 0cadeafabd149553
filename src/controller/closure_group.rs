//! A worker group of Rust closures on threads: for programs that embed the crate.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync::mpsc, time::Instant};

use super::{
    group::{GroupEvent, GroupSpec, RankExit, WorkerGroup},
    policy::Permanent,
    session::{Session, WorkerSession},
    words::new_worker,
};
use crate::{base::until, model::StopReport};

/// A train function: one call a rank. It leaves when a report's answer says stop.
pub type TrainFn =
    dyn Fn(WorkerSession) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync;

/// Closures on threads. A thread cannot be killed: one that does not leave within the grace is reported as left.
pub struct ClosureGroup {
    train: Arc<TrainFn>,
    host: String,
    session: Option<Arc<Session>>,
    events: mpsc::Receiver<GroupEvent>,
    sender: mpsc::Sender<GroupEvent>,
    /// How the start went, which is told before anything else.
    first: Option<GroupEvent>,
    running: BTreeSet<u32>,
    /// When those that still run are given up.
    deadline: Option<Instant>,
    ended: bool,
}

impl std::fmt::Debug for ClosureGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClosureGroup").field("running", &self.running).finish_non_exhaustive()
    }
}

impl ClosureGroup {
    /// A group that calls `train` once a rank.
    pub fn new<F>(train: F) -> Self
    where
        F: Fn(WorkerSession) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    {
        let (sender, events) = mpsc::channel(1);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            train: Arc::new(train),
            host,
            session: None,
            events,
            sender,
            first: None,
            running: BTreeSet::new(),
            deadline: None,
            ended: true,
        }
    }

    fn spawn(&self, rank: u32, session: WorkerSession) -> std::io::Result<()> {
        let (train, events) = (Arc::clone(&self.train), self.sender.clone());
        let runtime = tokio::runtime::Handle::try_current().ok();
        std::thread::Builder::new().name(format!("rank-{rank}")).spawn(move || {
            // What the session waits for on this thread may need the runtime's timers.
            let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
            let result = catch_unwind(AssertUnwindSafe(|| train(session)));
            let message = match result {
                Ok(Ok(())) => None,
                Ok(Err(e)) => Some(e.to_string()),
                Err(panic) => {
                    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
                    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                    Some(format!("panicked: {}", text.unwrap_or_else(|| "no message".to_owned())))
                }
            };
            let code = Some(i32::from(message.is_some()));
            // The controller is gone: nobody to tell.
            let _ = events.blocking_send(GroupEvent::Exited(RankExit {
                rank,
                code,
                message,
                ..RankExit::default()
            }));
        })?;
        Ok(())
    }

    fn end(&mut self, forced: bool) -> GroupEvent {
        self.ended = true;
        let left = std::mem::take(&mut self.running).into_iter().collect();
        GroupEvent::Ended(StopReport { processes_ended: Vec::new(), forced, left })
    }
}

#[async_trait]
impl WorkerGroup for ClosureGroup {
    fn start(&mut self, spec: GroupSpec) {
        // A channel of its own for each attempt: a thread of an earlier one that was given up is not heard any more.
        let room = usize::try_from(spec.num_workers).unwrap_or(1).max(1);
        (self.sender, self.events) = mpsc::channel(room);
        self.running.clear();
        (self.deadline, self.ended) = (None, false);
        self.session = Some(Arc::clone(&spec.session));
        let mut workers = BTreeMap::new();
        for rank in 0..spec.num_workers {
            let started = spec.session.context(rank).map_err(|e| e.to_string()).and_then(|c| {
                self.spawn(rank, WorkerSession::new(Arc::clone(&spec.session), c)).map_err(|e| e.to_string())
            });
            match started {
                Ok(()) => {
                    self.running.insert(rank);
                    let reserved = spec.reservation.iter().find(|bundle| bundle.world_rank == rank);
                    workers.insert(rank, new_worker(rank, None, &self.host, reserved));
                }
                Err(e) => {
                    spec.session.request_stop();
                    let message = format!("rank {rank} could not be started: {e}");
                    self.first = Some(GroupEvent::StartFailed { message, permanent: Permanent::No });
                    self.ended = true;
                    return;
                }
            }
        }
        let workers = workers.into_values().collect();
        self.first = Some(GroupEvent::Started { workers, master_address: None });
    }

    async fn event(&mut self) -> GroupEvent {
        if let Some(event) = self.first.take() {
            return event;
        }
        if !self.ended && self.running.is_empty() {
            return self.end(false);
        }
        tokio::select! {
            event = self.events.recv() => match event {
                Some(GroupEvent::Exited(exit)) => {
                    self.running.remove(&exit.rank);
                    GroupEvent::Exited(exit)
                }
                Some(event) => event,
                None => std::future::pending().await,
            },
            () = until(self.deadline) => {
                self.deadline = None;
                self.end(true)
            }
        }
    }

    fn signal(&mut self, _signal: i32) {
        // Threads get no signals of their own.
    }

    fn shutdown(&mut self, _signal: i32, grace: Duration) {
        if let Some(session) = &self.session {
            session.request_stop();
        }
        let at = Instant::now() + grace;
        self.deadline = Some(self.deadline.map_or(at, |known| known.min(at)));
    }

    fn abort(&mut self) {
        self.shutdown(0, Duration::ZERO);
    }
}
