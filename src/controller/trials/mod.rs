//! Trials of a sweep, one after the other on one worker: a driver asks a function for results one by one, stops it
//! between two of them, and gives the worker its next trial without starting it anew, where the function lets it.

mod offers;
mod record;
mod worker;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value};

pub(super) use offers::{Offered, Offers};
pub use worker::TrialWorker;

use super::{
    checkpoints::{CheckpointOptions, Usable},
    session::Reporting,
};
use crate::{
    base::{Clock, limits},
    model::StopReport,
    state::{DataDir, StateClient},
};

/// A function that has not ended this long after it was told to does not hand its worker on.
const REUSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Another limit for that, in seconds.
const REUSE_TIMEOUT_VARIABLE: &str = "TRAINHEAD_REUSE_TIMEOUT_S";

/// One trial.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// Its name.
    pub name: String,
    /// What the function is called with.
    pub config: Map<String, Value>,
    /// What it goes on from.
    pub checkpoint: Option<Usable>,
}

/// How trials are run.
#[derive(Clone)]
pub struct TrialOptions {
    /// Where each trial keeps its files, as a run of its own.
    pub data_dir: DataDir,
    /// The sweep that they belong to.
    pub experiment: Option<String>,
    /// When a report returns.
    pub reporting: Reporting,
    /// How long a function that was told to end may take, if its worker is to be used again.
    pub reuse_timeout: Duration,
    /// Time between the stop signal and SIGKILL.
    pub grace: Duration,
    /// Where checkpoints go, and which are kept.
    pub checkpoints: CheckpointOptions,
    /// Who records each trial as a run, if somebody does.
    pub recorded_by: Option<Arc<dyn StateClient>>,
    /// Labels of these runs.
    pub tags: BTreeMap<String, String>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
}

impl TrialOptions {
    /// Trials that report on demand and are not recorded. The limit of a worker's reuse is 2 s, or what
    /// `TRAINHEAD_REUSE_TIMEOUT_S` says.
    #[must_use]
    pub fn new(data_dir: DataDir, clock: Arc<dyn Clock>) -> Self {
        let seconds = std::env::var(REUSE_TIMEOUT_VARIABLE).ok().and_then(|text| text.parse().ok());
        let limit = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
        Self {
            data_dir,
            experiment: None,
            reporting: Reporting::OnDemand,
            reuse_timeout: limit.unwrap_or(REUSE_TIMEOUT),
            grace: limits::GRACE_DEFAULT,
            checkpoints: CheckpointOptions::default(),
            recorded_by: None,
            tags: BTreeMap::new(),
            clock,
        }
    }
}

impl std::fmt::Debug for TrialOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrialOptions")
            .field("experiment", &self.experiment)
            .field("reporting", &self.reporting)
            .finish_non_exhaustive()
    }
}

/// What became of a worker that was given another trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// It goes on.
    Reused,
    /// It did not let go of the last one, or had ended: nothing of it is left, and there will be another.
    Replaced,
}

/// How a worker ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialEnd {
    /// Its exit code; none if it was ended by a signal or had not been started.
    pub code: Option<i32>,
    /// What became of its processes.
    pub report: StopReport,
}
