//! What a run is started with as regards checkpoints.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::{
    base::RunId,
    cli::options::Checkpointing,
    controller::{CheckpointOptions, ValidateBy, Validation},
    model::checkpoint::Retention,
};

const VALIDATION_TIMEOUT: Duration = Duration::from_secs(3600);

/// As it is recorded, in the settings' member `checkpoints`. What is none is as the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CheckpointSettings {
    #[serde(flatten)]
    retention: Retention,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_timeout_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collective_warn_interval_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collective_timeout_s: Option<f64>,
}

/// Where a validation runs.
pub(super) struct Place {
    pub(super) run_id: RunId,
    pub(super) cwd: PathBuf,
    pub(super) env: std::collections::BTreeMap<String, String>,
    pub(super) run_dir: PathBuf,
    pub(super) agent: PathBuf,
}

impl CheckpointSettings {
    /// With what the options say.
    pub(super) fn with(mut self, args: &Checkpointing) -> anyhow::Result<Self> {
        let Checkpointing {
            storage,
            keep_checkpoints,
            checkpoint_score,
            checkpoint_order,
            validate,
            validation_timeout,
            validation_concurrency,
            collective_warn_interval,
            collective_timeout,
        } = args;
        if let Some(storage) = storage {
            self.storage = Some(absolute(storage)?);
        }
        self.retention.num_to_keep = keep_checkpoints.or(self.retention.num_to_keep);
        if checkpoint_score.is_some() {
            self.retention.score_attribute.clone_from(checkpoint_score);
        }
        self.retention.score_order = checkpoint_order.unwrap_or(self.retention.score_order);
        self.validate = validate.clone().or(self.validate);
        self.validation_timeout_s = validation_timeout.or(self.validation_timeout_s);
        self.validation_concurrency = validation_concurrency.or(self.validation_concurrency);
        self.collective_warn_interval_s = collective_warn_interval.or(self.collective_warn_interval_s);
        self.collective_timeout_s = collective_timeout.or(self.collective_timeout_s);
        Ok(self)
    }

    /// As the controller wants it.
    pub(super) fn options(&self, place: Place) -> CheckpointOptions {
        let defaults = CheckpointOptions::default();
        let seconds = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
        let Place { run_id, cwd, env, run_dir, agent } = place;
        let validation = self.validate.as_ref().map(|command| Validation {
            by: ValidateBy::Command {
                command: ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
                env,
                cwd,
                run_id: run_id.clone(),
                log_dir: run_dir.join("logs/validation"),
                agent,
            },
            timeout: self.validation_timeout_s.map_or(VALIDATION_TIMEOUT, seconds),
            concurrency: self.validation_concurrency.and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
        });
        CheckpointOptions {
            storage: self.storage.clone(),
            retention: self.retention.clone(),
            warn_interval: self.collective_warn_interval_s.map_or(defaults.warn_interval, seconds),
            collective_timeout: self.collective_timeout_s.map(seconds),
            validation,
        }
    }
}

/// A directory that is meant from here, or an address as it is.
fn absolute(storage: &str) -> anyhow::Result<String> {
    if storage.contains("://") {
        return Ok(storage.to_owned());
    }
    let path = std::path::absolute(Path::new(storage)).with_context(|| format!("--storage {storage}"))?;
    path.into_os_string().into_string().ok().context("--storage: the path is not UTF-8")
}
