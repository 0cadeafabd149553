//! Validation of a checkpoint beside training: a command or a closure, with a limit of its own.

mod measured;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    agent::{AgentError, AgentProcess, CgroupUse, FromAgent, RankSpec, ToAgent},
    checkpoints::Usable,
    failure::log_tail,
    options::default_stop_signal,
    process::signal_name,
};
use crate::base::{RunId, error::chain};

/// A closure that measures a checkpoint. It runs on a thread of its own.
pub type ValidateFn = dyn Fn(&Usable) -> Result<BTreeMap<String, f64>, String> + Send + Sync;

/// Between the stop signal and the end by force.
const GRACE: Duration = Duration::from_secs(5);
/// What the agent gets beyond that to end the tree and say so.
const END_LIMIT: Duration = Duration::from_secs(15);
/// So many of the last lines of its log are told of a validation that failed.
const TOLD_LINES: usize = 5;

/// How checkpoints are validated.
#[derive(Clone)]
pub struct Validation {
    /// What measures them.
    pub by: ValidateBy,
    /// One that takes longer is given up.
    pub timeout: Duration,
    /// How many are validated at a time.
    pub concurrency: usize,
}

/// What measures a checkpoint.
#[derive(Clone)]
pub enum ValidateBy {
    /// A program, run by an agent of its own. It finds the checkpoint's directory in `TRAINHEAD_CHECKPOINT`, its number and
    /// step in `TRAINHEAD_CHECKPOINT_NUMBER` and `TRAINHEAD_CHECKPOINT_STEP`, the run in `TRAINHEAD_RUN_ID`. It writes what
    /// it measures to `TRAINHEAD_METRICS_FILE` as one JSON object, or prints it as its last line.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Variables on top of our own environment.
        env: BTreeMap<String, String>,
        /// Working directory.
        cwd: PathBuf,
        /// Where its output and its metrics file go: `validate_<number>.log`.
        log_dir: PathBuf,
        /// The trainhead program, which is started as the agent.
        agent: PathBuf,
        /// The run.
        run_id: RunId,
    },
    /// A closure.
    Closure(Arc<ValidateFn>),
}

impl std::fmt::Debug for Validation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validation").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// How a validation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Validated {
    /// What was measured.
    Metrics(BTreeMap<String, f64>),
    /// It failed, and why.
    Failed(String),
    /// It took too long.
    TimedOut,
    /// It was stopped with the run, and is to be done again.
    Stopped,
}

/// Why a program is ended before it has ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Limit,
    Stop,
}

impl From<Cut> for Validated {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Limit => Self::TimedOut,
            Cut::Stop => Self::Stopped,
        }
    }
}

impl Validation {
    /// Validates one checkpoint, whose directory is on this node. Nothing of it is left when this returns, except the
    /// thread of a closure that took too long: a thread cannot be ended from outside.
    pub async fn run(&self, checkpoint: &Usable, stop: &CancellationToken) -> Validated {
        if stop.is_cancelled() {
            return Validated::Stopped;
        }
        let limit = Instant::now() + self.timeout;
        match &self.by {
            ValidateBy::Closure(validate) => closure(validate, checkpoint, limit, stop).await,
            ValidateBy::Command { command, env, cwd, log_dir, agent, run_id } => {
                let Some(path) = &checkpoint.path else {
                    return Validated::Failed("the checkpoint is not on this node".to_owned());
                };
                let Some((program, args)) = command.split_first() else {
                    return Validated::Failed("there is no command to validate with".to_owned());
                };
                let log_path = log_dir.join(format!("validate_{}.log", checkpoint.number));
                let metrics_path = log_dir.join(format!("validate_{}.json", checkpoint.number));
                let of_ours = [
                    ("TRAINHEAD_CHECKPOINT", path.display().to_string()),
                    ("TRAINHEAD_CHECKPOINT_NUMBER", checkpoint.number.to_string()),
                    ("TRAINHEAD_CHECKPOINT_STEP", checkpoint.step.to_string()),
                    ("TRAINHEAD_METRICS_FILE", metrics_path.display().to_string()),
                    ("TRAINHEAD_RUN_ID", run_id.to_string()),
                ];
                let mut env = env.clone();
                env.extend(of_ours.map(|(name, value)| (name.to_owned(), value)));
                let spec = RankSpec {
                    rank: 0,
                    program: PathBuf::from(program),
                    args: args.to_vec(),
                    env,
                    // It is no worker: what it would report is not the run's.
                    env_remove: ["TRAINHEAD_TOKEN", "TRAINHEAD_SESSION"].map(str::to_owned).to_vec(),
                    cwd: cwd.clone(),
                    log_path: log_path.clone(),
                };
                // Of an earlier try.
                drop(tokio::fs::remove_file(&metrics_path).await);
                // The log of an earlier try stays; what is printed from here on is this one's.
                let offset = tokio::fs::metadata(&log_path).await.map_or(0, |found| found.len());
                match program_to_its_end(agent, spec, limit, stop).await {
                    Ok(()) => blocking(move || measured::read(&metrics_path, &log_path, offset)).await,
                    Err(Ended::Cut(cut)) => cut.into(),
                    Err(Ended::Badly(how)) => Validated::Failed(with_last_lines(how, log_path, offset).await),
                }
            }
        }
    }
}

/// How a program ended, other than well.
enum Ended {
    Cut(Cut),
    Badly(String),
}

impl From<AgentError> for Ended {
    fn from(e: AgentError) -> Self {
        Self::Badly(chain(&e))
    }
}

/// Runs one program below an agent, until nothing of its tree is left.
async fn program_to_its_end(
    agent: &Path,
    spec: RankSpec,
    limit: Instant,
    stop: &CancellationToken,
) -> Result<(), Ended> {
    let mut agent = tokio::select! {
        agent = AgentProcess::spawn(agent) => agent?,
        () = stop.cancelled() => return Err(Ended::Cut(Cut::Stop)),
    };
    let result = drive(&mut agent, spec, limit, stop).await;
    if let Err(e) = agent.finish().await {
        warn!("the agent of a validation was not reaped: {}", chain(&e));
    }
    result
}

async fn drive(
    agent: &mut AgentProcess,
    spec: RankSpec,
    limit: Instant,
    stop: &CancellationToken,
) -> Result<(), Ended> {
    agent.send(&ToAgent::Start { ranks: vec![spec], cgroup: CgroupUse::IfPossible }).await?;
    let mut how = Ok(());
    let cut = loop {
        tokio::select! {
            message = agent.recv() => {
                if let Some(over) = heard(message?, &mut how) {
                    return over.and(how);
                }
            }
            () = sleep_until(limit) => break Cut::Limit,
            () = stop.cancelled() => break Cut::Stop,
        }
    };
    let grace_ms = u64::try_from(GRACE.as_millis()).unwrap_or(0);
    agent.send(&ToAgent::Stop { signal: default_stop_signal(), grace_ms }).await?;
    let ended = async {
        loop {
            match agent.recv().await {
                Ok(message) => {
                    if heard(message, &mut how).is_some() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    };
    if timeout(GRACE + END_LIMIT, ended).await.is_err() {
        warn!("the agent of a validation does not answer and is ended");
    }
    Err(Ended::Cut(cut))
}

/// Takes note of how the program ended; says when all of it is over.
fn heard(message: Option<FromAgent>, how: &mut Result<(), Ended>) -> Option<Result<(), Ended>> {
    match message {
        Some(FromAgent::Hello { .. } | FromAgent::Started { .. }) => None,
        Some(FromAgent::Exited { code, signal, oom, .. }) => {
            let why = match (code, signal) {
                (Some(0), _) => return None,
                (Some(code), _) => format!("it ended with exit code {code}"),
                (None, Some(signal)) => format!("it was ended by {}", signal_name(signal)),
                (None, None) => "it ended, and nobody knows how".to_owned(),
            };
            let memory = oom.map(|oom| format!(": {}", oom.sentence())).unwrap_or_default();
            *how = Err(Ended::Badly(format!("{why}{memory}")));
            None
        }
        Some(FromAgent::StartFailed { message, .. }) => Some(Err(Ended::Badly(message))),
        Some(FromAgent::Ended { .. }) => Some(Ok(())),
        None => Some(Err(Ended::Badly("its agent was killed".to_owned()))),
    }
}

/// What was wrong, with the last lines of this try's log.
async fn with_last_lines(how: String, log: PathBuf, offset: u64) -> String {
    let read = move || {
        let grown = std::fs::metadata(&log).is_ok_and(|found| found.len() > offset);
        if grown { log_tail(&log).unwrap_or_default() } else { Vec::new() }
    };
    let lines = tokio::task::spawn_blocking(read).await.unwrap_or_default();
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(TOLD_LINES)..).unwrap_or_default();
    if last.is_empty() { how } else { format!("{how}; its last lines: {}", last.join(" | ")) }
}

/// Calls a closure on a thread of its own. Not on the runtime's, which would wait for it at its end.
async fn closure(
    validate: &Arc<ValidateFn>,
    checkpoint: &Usable,
    limit: Instant,
    stop: &CancellationToken,
) -> Validated {
    let (told, result) = oneshot::channel();
    let (validate, subject) = (Arc::clone(validate), checkpoint.clone());
    let thread = std::thread::Builder::new().name(format!("validate {}", checkpoint.number));
    let spawned = thread.spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| validate(&subject)));
        // Nobody waits for it if this fails.
        let _ = told.send(result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(format!("it panicked: {}", text.unwrap_or_else(|| "without a word".to_owned())))
        }));
    });
    if let Err(e) = spawned {
        return Validated::Failed(format!("there is no thread for it: {e}"));
    }
    tokio::select! {
        result = result => match result {
            Ok(Ok(metrics)) => measured::checked(metrics.into_iter().collect()),
            Ok(Err(why)) => Validated::Failed(why),
            Err(_) => Validated::Failed("its thread ended without a word".to_owned()),
        },
        () = sleep_until(limit) => Cut::Limit.into(),
        () = stop.cancelled() => Cut::Stop.into(),
    }
}

async fn blocking(work: impl FnOnce() -> Validated + Send + 'static) -> Validated {
    // It ends with the runtime, and is done again then.
    tokio::task::spawn_blocking(work).await.unwrap_or(Validated::Stopped)
}
