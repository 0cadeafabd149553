//! A worker group of processes on this machine: each attempt has an agent of its own, which is the parent of the ranks,
//! so that the tree of an attempt is exactly the descendants of its agent.

use std::{collections::BTreeMap, net::TcpListener, path::PathBuf, time::Duration};

use async_trait::async_trait;
use tracing::warn;

use super::{
    agent::{
        AgentError, AgentProcess, CgroupUse, FromAgent, RankSpec, StartedWorker, ToAgent, sweep_orphans,
    },
    group::{GroupEvent, GroupSpec, RankExit, WorkerGroup},
    policy::Permanent,
    process::signal_name,
    words::new_worker,
};
use crate::{
    base::{error::chain, number},
    model::StopReport,
    state::DataDir,
};

/// What a group of processes runs.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables on top of our own environment.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Where logs and error files go.
    pub data_dir: DataDir,
    /// The socket on which workers reach their session.
    pub session_socket: PathBuf,
    /// The trainhead program, which is started as the agent.
    pub agent: PathBuf,
    /// Host name, for the record.
    pub host: String,
    /// Whose the orphans of this process are.
    pub orphans: Orphans,
}

/// Whose the processes are that come home to this one when a killed agent leaves them behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphans {
    /// The run's: this process exists for it alone and is a subreaper, so that they can be ended.
    Ours,
    /// Perhaps somebody else's: a program that embeds the controller has children of its own, which are left alone.
    Unknown,
}

/// How long what is left of a killed agent's tree may take to go.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// Processes on this machine, held by an agent.
#[derive(Debug)]
pub struct AgentGroup {
    launch: Launch,
    agent: Option<AgentProcess>,
    /// What happened before anybody asked.
    pending: Option<GroupEvent>,
}

impl AgentGroup {
    /// A group that runs `launch`.
    #[must_use]
    pub fn new(launch: Launch) -> Self {
        Self { launch, agent: None, pending: None }
    }

    async fn try_start(&mut self, spec: &GroupSpec) -> Result<(), GroupEvent> {
        let failed = |message: String, permanent| GroupEvent::StartFailed { message, permanent };
        let ranks = self
            .ranks(spec)
            .map_err(|e| failed(format!("no port or directory for the workers: {e}"), Permanent::No))?;
        let mut agent = AgentProcess::spawn(&self.launch.agent).await.map_err(|e| {
            let permanent =
                if matches!(e, AgentError::Spawn { .. }) { Permanent::Yes } else { Permanent::No };
            failed(format!("the agent: {}", chain(&e)), permanent)
        })?;
        let start = ToAgent::Start { ranks, cgroup: CgroupUse::IfPossible };
        agent.send(&start).await.map_err(|e| failed(format!("the agent: {}", chain(&e)), Permanent::No))?;
        self.agent = Some(agent);
        Ok(())
    }

    fn ranks(&self, spec: &GroupSpec) -> std::io::Result<Vec<RankSpec>> {
        let Launch { command, env, cwd, data_dir, session_socket, .. } = &self.launch;
        let (program, args) = match command.split_first() {
            Some((program, args)) => (PathBuf::from(program), args.to_vec()),
            None => (PathBuf::new(), Vec::new()),
        };
        // The port is free now; another program could take it before rank 0 does, which then fails and is retried.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let n = spec.num_workers;
        (0..n)
            .map(|rank| {
                let error_file = data_dir.error_file(&spec.run, spec.attempt, rank);
                if let Some(parent) = error_file.parent() {
                    std::fs::create_dir_all(parent)?;
                }
                let mut all: BTreeMap<String, String> = [
                    ("RANK", rank.to_string()),
                    ("LOCAL_RANK", rank.to_string()),
                    ("NODE_RANK", "0".to_owned()),
                    ("GROUP_RANK", "0".to_owned()),
                    ("WORLD_SIZE", n.to_string()),
                    ("LOCAL_WORLD_SIZE", n.to_string()),
                    ("MASTER_ADDR", "127.0.0.1".to_owned()),
                    ("MASTER_PORT", port.to_string()),
                    ("TORCHELASTIC_RUN_ID", spec.run.to_string()),
                    ("TORCHELASTIC_RESTART_COUNT", spec.restart_count.to_string()),
                    ("TORCHELASTIC_MAX_RESTARTS", spec.max_restarts.to_string()),
                    ("TORCHELASTIC_ERROR_FILE", error_file.display().to_string()),
                    ("TRAINHEAD_SESSION", format!("unix:{}", session_socket.display())),
                    ("TRAINHEAD_RUN_ID", spec.run.to_string()),
                    ("TRAINHEAD_ATTEMPT", spec.attempt.to_string()),
                    // A log that is read while it is written.
                    ("PYTHONUNBUFFERED", "1".to_owned()),
                ]
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
                if n > 1 && std::env::var_os("OMP_NUM_THREADS").is_none() {
                    all.insert("OMP_NUM_THREADS".to_owned(), "1".to_owned());
                }
                all.extend(env.clone());
                Ok(RankSpec {
                    rank,
                    program: program.clone(),
                    args: args.clone(),
                    env: all,
                    // What the launcher itself is configured by is not the workers' business.
                    env_remove: vec!["TRAINHEAD_TOKEN".to_owned()],
                    cwd: cwd.clone(),
                    log_path: data_dir.root().join(DataDir::log(&spec.run, spec.attempt, rank)),
                })
            })
            .collect()
    }

    fn translate(&self, message: FromAgent) -> Option<GroupEvent> {
        match message {
            FromAgent::Hello { .. } => None,
            FromAgent::Started { workers, .. } => {
                let worker = |w: StartedWorker| new_worker(w.rank, Some(w.pid), &self.launch.host);
                Some(GroupEvent::Started(workers.into_iter().map(worker).collect()))
            }
            FromAgent::StartFailed { message, permanent, .. } => {
                let permanent = if permanent { Permanent::Yes } else { Permanent::No };
                Some(GroupEvent::StartFailed { message, permanent })
            }
            FromAgent::Exited { rank, code, signal, .. } => {
                let signal = signal.map(|n| signal_name(n).into_owned());
                Some(GroupEvent::Exited(RankExit { rank, code, signal, message: None }))
            }
            FromAgent::Ended { report } => Some(GroupEvent::Ended(report)),
        }
    }

    async fn tell(&mut self, message: ToAgent) {
        if let Some(agent) = &mut self.agent
            && let Err(e) = agent.send(&message).await
        {
            // Its end is the next event.
            warn!("the agent was not told: {e}");
        }
    }
}

#[async_trait]
impl WorkerGroup for AgentGroup {
    async fn start(&mut self, spec: GroupSpec) {
        self.pending = self.try_start(&spec).await.err();
    }

    async fn event(&mut self) -> GroupEvent {
        if let Some(event) = self.pending.take() {
            return event;
        }
        loop {
            let Some(agent) = &mut self.agent else { return std::future::pending().await };
            match agent.recv().await {
                Ok(Some(message)) => {
                    if let Some(event) = self.translate(message) {
                        return event;
                    }
                }
                Ok(None) => return GroupEvent::Lost,
                Err(e) => {
                    warn!("the agent is not understood: {e}");
                    return GroupEvent::Lost;
                }
            }
        }
    }

    async fn clear_away(&mut self) -> StopReport {
        let Some(agent) = self.agent.take() else { return StopReport::default() };
        if let Err(e) = agent.finish().await {
            warn!("the agent was not reaped: {e}");
        }
        if self.launch.orphans == Orphans::Unknown {
            return StopReport::default();
        }
        // If it was killed, its ranks died with it, and what they left behind came home to us. Else this finds nothing.
        match tokio::task::spawn_blocking(|| sweep_orphans(&[], SWEEP_LIMIT)).await {
            Ok(swept) => StopReport {
                forced: !swept.processes_ended.is_empty(),
                processes_ended: swept.processes_ended,
                left: swept.left,
            },
            Err(_) => StopReport::default(),
        }
    }

    async fn signal(&mut self, signal: i32) {
        self.tell(ToAgent::Signal { signal }).await;
    }

    async fn shutdown(&mut self, signal: i32, grace: Duration) {
        let grace_ms = u64::try_from(number::millis(grace)).unwrap_or(0);
        self.tell(ToAgent::Stop { signal, grace_ms }).await;
    }

    async fn abort(&mut self) {
        self.tell(ToAgent::Kill).await;
    }
}
