//! Options about checkpoints: of `trainhead run`, and of the commands that look at them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::seconds;
use crate::model::checkpoint::ScoreOrder;

/// Where the checkpoints of a run go, and which are kept.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Checkpoints")]
pub(in crate::cli) struct Checkpointing {
    /// Where checkpoints go: a directory, s3://bucket/prefix, gs://… or az://… [default: the data directory]
    #[arg(long, env = "TRAINHEAD_STORAGE", value_name = "URL")]
    pub(in crate::cli) storage: Option<String>,
    /// How many of the best are kept, besides the latest and pinned ones [default: all]
    #[arg(long, env = "TRAINHEAD_KEEP_CHECKPOINTS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) keep_checkpoints: Option<u32>,
    /// The metric that says which is better [default: the newer one is]
    #[arg(long, env = "TRAINHEAD_CHECKPOINT_SCORE", value_name = "METRIC")]
    pub(in crate::cli) checkpoint_score: Option<String>,
    /// Which end of it is the better one: max or min [default: max]
    #[arg(long, env = "TRAINHEAD_CHECKPOINT_ORDER", value_name = "ORDER", requires = "checkpoint_score")]
    pub(in crate::cli) checkpoint_order: Option<ScoreOrder>,
    /// A shell command that measures each checkpoint beside training: it finds it in $TRAINHEAD_CHECKPOINT and prints a
    /// JSON object of metrics as its last line
    #[arg(long, env = "TRAINHEAD_VALIDATE", value_name = "COMMAND")]
    pub(in crate::cli) validate: Option<String>,
    /// Seconds that one validation may take [default: 3600]
    #[arg(long, env = "TRAINHEAD_VALIDATION_TIMEOUT", value_name = "SECONDS", value_parser = seconds, hide_short_help = true)]
    pub(in crate::cli) validation_timeout: Option<f64>,
    /// How many validations run at a time [default: 1]
    #[arg(long, env = "TRAINHEAD_VALIDATION_CONCURRENCY", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), hide_short_help = true)]
    pub(in crate::cli) validation_concurrency: Option<u32>,
    /// Seconds after which it is said for which ranks a checkpoint waits [default: 60]
    #[arg(long, env = "TRAINHEAD_COLLECTIVE_WARN_INTERVAL", value_name = "SECONDS", value_parser = seconds, hide_short_help = true)]
    pub(in crate::cli) collective_warn_interval: Option<f64>,
    /// Seconds after which a checkpoint that waits for ranks is a failure [default: never]
    #[arg(long, env = "TRAINHEAD_COLLECTIVE_TIMEOUT", value_name = "SECONDS", value_parser = seconds, hide_short_help = true)]
    pub(in crate::cli) collective_timeout: Option<f64>,
}

#[derive(Clone, Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  trainhead checkpoints ls baseline                    all of a run, with what is kept and why
  trainhead checkpoints get baseline best ./model      copy one, with its hashes checked
  trainhead checkpoints verify baseline                are all files there and intact?
  trainhead checkpoints pin baseline 12                keep it whatever the run's retention says
  trainhead checkpoints --plan baseline --keep 3 --score val/loss --order min
                                                       what would go if that were the rule"
)]
pub(in crate::cli) struct Checkpoints {
    #[command(subcommand)]
    pub(in crate::cli) what: Option<CheckpointCommand>,
    /// Show what retention would remove of this run
    #[arg(long, value_name = "RUN", required = true)]
    pub(in crate::cli) plan: Option<String>,
    /// … if so many of the best were kept [default: the run's own rule]
    #[arg(long, value_name = "N", requires = "plan", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) keep: Option<u32>,
    /// … if this metric said which is better
    #[arg(long, value_name = "METRIC", requires = "plan")]
    pub(in crate::cli) score: Option<String>,
    /// … and this end of it: max or min
    #[arg(long, value_name = "ORDER", requires = "score")]
    pub(in crate::cli) order: Option<ScoreOrder>,
}

#[derive(Clone, Debug, Subcommand)]
pub(in crate::cli) enum CheckpointCommand {
    /// List the checkpoints of a run, newest first
    Ls {
        /// Id, beginning of an id, or name of a run
        run: String,
        /// Also those that are gone
        #[arg(long)]
        all: bool,
    },
    /// Copy a checkpoint to a directory, with its hashes checked
    Get {
        /// Id, beginning of an id, or name of a run
        run: String,
        /// Its number, 'latest' or 'best'
        which: Which,
        /// Where to; must not exist or be empty
        dir: PathBuf,
    },
    /// Check sizes and hashes of checkpoints against their manifests
    Verify {
        /// Id, beginning of an id, or name of a run
        run: String,
        /// Its number, 'latest' or 'best' [default: all]
        which: Option<Which>,
    },
    /// Keep a checkpoint, whatever the run's retention says
    Pin {
        /// Id, beginning of an id, or name of a run
        run: String,
        /// Its number, 'latest' or 'best'
        which: Which,
        /// Leave it to the run's retention again
        #[arg(long)]
        remove: bool,
    },
}

/// One of a run's checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Which {
    Number(u64),
    Latest,
    Best,
}

impl std::str::FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "latest" => Ok(Self::Latest),
            "best" => Ok(Self::Best),
            // As the directory is called, too.
            _ => text
                .strip_prefix("checkpoint_")
                .unwrap_or(text)
                .parse()
                .map(Self::Number)
                .map_err(|_| "a number, 'latest' or 'best'".to_owned()),
        }
    }
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "checkpoint {number}"),
            Self::Latest => f.write_str("latest checkpoint"),
            Self::Best => f.write_str("best checkpoint"),
        }
    }
}
