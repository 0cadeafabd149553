//! Every option, with its environment variable and its help.

mod checkpoints;
mod metrics;
mod run;
mod sync;

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(super) use checkpoints::{CheckpointCommand, Checkpointing, Checkpoints, Which};
pub(super) use metrics::{Export, ExportFormat, Metrics, MetricsCommand, WhichSeries};
pub(super) use run::{Preemption, Run, TailWhich, Workers};
pub(super) use sync::Sync;

use super::units::{self, Bytes};
use crate::{
    base::Secret,
    head::webhooks::WebhookUrl,
    model::{EventKind, RunStatus},
};

/// Starts, supervises, records and shows machine-learning training runs.
#[derive(Debug, Parser)]
#[command(
    name = "trainhead",
    version,
    propagate_version = true,
    after_help = "\
Examples:
  trainhead run --workers 2 -- python3 train.py     train with two workers, in place of torchrun
  trainhead serve                                   the dashboard and the API, for a whole team
  trainhead runs --status ERRORED                   which runs failed
  trainhead logs -f quiet-otter-42                  follow a run's log

Every option can stand in a TOML file (--config) and in the environment (TRAINHEAD_…). Flags win over the environment,
the environment over the file. 'trainhead config' shows what holds and where it comes from."
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the dashboard and the API
    Serve(Serve),
    /// Run a training program with local workers, and record it
    Run(Box<Run>),
    /// List runs, newest first
    Runs(Runs),
    /// Show one run: its status and why, attempts, workers, metrics
    Show(Show),
    /// Print the log of a run
    Logs(Logs),
    /// List, draw and export the metrics of a run
    Metrics(Metrics),
    /// List, copy, verify and pin the checkpoints of a run
    Checkpoints(Checkpoints),
    /// Ask a run to stop
    Abort(Abort),
    /// Copy the store, logs and checkpoints to a directory, while a head serves them
    Backup(Backup),
    /// Clear away old runs: into the trash, and with --purge for good
    Gc(Gc),
    /// Deliver what runs could not say to their head while it was away
    Sync(Sync),
    /// Look at what commonly goes wrong, and say what to do
    Doctor(Doctor),
    /// Print the effective options and where each comes from
    Config,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of all commands")]
pub(super) struct Global {
    /// Where the store, logs and checkpoints lie [default: the XDG data directory]
    #[arg(long, global = true, env = "TRAINHEAD_DATA_DIR", value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,
    /// Use the head at this address instead of the one of the data directory
    #[arg(long, global = true, env = "TRAINHEAD_URL", value_name = "URL")]
    pub(super) head: Option<String>,
    /// Address to listen on; loopback only in this version
    #[arg(long, global = true, env = "TRAINHEAD_HOST", default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(super) host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, global = true, env = "TRAINHEAD_PORT", default_value_t = 8420)]
    pub(super) port: u16,
    /// Another name under which browsers may call this head; may be repeated
    #[arg(long, global = true, env = "TRAINHEAD_ALLOW_HOST", value_delimiter = ',', value_name = "NAME")]
    pub(super) allow_host: Vec<String>,
    /// What this host has for workers besides its processors and GPUs, or CPU=N in place of those; may be repeated
    #[arg(long, global = true, env = "TRAINHEAD_RESOURCE", value_delimiter = ',', value_name = "NAME=N")]
    pub(super) resource: Vec<Pair<'='>>,
    /// Where a proxy shows this head, for example /ml/trainhead/
    #[arg(long, global = true, env = "TRAINHEAD_BASE_PATH", default_value = "/", value_name = "PATH", value_parser = base_path, hide_short_help = true)]
    pub(super) base_path: String,
    /// Serve the dashboard's files from this directory, for working on them
    #[arg(long, global = true, env = "TRAINHEAD_STATIC_DIR", value_name = "DIR", hide_short_help = true)]
    pub(super) static_dir: Option<PathBuf>,
    /// Read options from this TOML file [default: trainhead/config.toml in the XDG configuration directory, if there]
    #[arg(long, global = true, env = "TRAINHEAD_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Tell this address what happens to the runs of this head; may be repeated (in the environment with spaces between)
    #[arg(
        long,
        global = true,
        env = "TRAINHEAD_WEBHOOK",
        value_delimiter = ' ',
        value_name = "URL",
        hide_env_values = true,
        hide_default_value = true,
        hide_short_help = true
    )]
    pub(super) webhook: Vec<WebhookUrl>,
    /// Sign what is told with this secret, whsec_…; receivers verify it by the Standard Webhooks specification
    #[arg(long, global = true, env = "TRAINHEAD_WEBHOOK_SECRET", value_name = "SECRET", value_parser = secret,
        hide_env_values = true, hide_default_value = true, hide_short_help = true)]
    pub(super) webhook_secret: Option<Secret>,
    /// What is told: the changes of runs, attempts, workers, requests to stop, takeovers, checkpoints, or all of it
    #[arg(
        long,
        global = true,
        env = "TRAINHEAD_WEBHOOK_EVENTS",
        value_delimiter = ',',
        value_enum,
        default_value = "run",
        value_name = "KIND",
        hide_short_help = true
    )]
    pub(super) webhook_events: Vec<WebhookEvents>,
    /// Seconds after which an event that cannot be delivered is given up
    #[arg(long, global = true, env = "TRAINHEAD_WEBHOOK_GIVE_UP", default_value_t = 600.0, value_name = "SECONDS",
        value_parser = seconds, hide_short_help = true)]
    pub(super) webhook_give_up: f64,
    /// Machine-readable output on stdout
    #[arg(long, global = true, env = "TRAINHEAD_JSON")]
    pub(super) json: bool,
    /// Say only what went wrong
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Say more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trainhead serve                             on http://127.0.0.1:8420
  trainhead serve --port 0 --data-dir /srv/th  on a free port, with its own data")]
pub(super) struct Serve {}

/// What webhooks tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WebhookEvents {
    /// Changes of a run's phase
    Run,
    /// Changes of attempts
    Attempt,
    /// Changes of workers
    Worker,
    /// Requests to stop
    Stop,
    /// Takeovers
    Controller,
    /// Checkpoints that are committed, validated, pinned or gone
    Checkpoint,
    /// All of these
    All,
}

impl WebhookEvents {
    pub(super) fn kinds(self) -> &'static [EventKind] {
        match self {
            Self::Run => &[EventKind::Run],
            Self::Attempt => &[EventKind::Attempt],
            Self::Worker => &[EventKind::Worker],
            Self::Stop => &[EventKind::Stop],
            Self::Controller => &[EventKind::Controller],
            Self::Checkpoint => &[EventKind::Checkpoint],
            Self::All => EventKind::ALL,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Runs {
    /// Only runs of this status; may be repeated
    #[arg(long, value_name = "STATUS")]
    pub(super) status: Vec<RunStatus>,
    /// Only runs whose name, id, job id or tags hold this text
    #[arg(long, value_name = "TEXT")]
    pub(super) search: Option<String>,
    /// Only runs of this experiment
    #[arg(long, value_name = "NAME")]
    pub(super) experiment: Option<String>,
    /// Only runs with this tag; may be repeated
    #[arg(long, value_name = "KEY:VALUE")]
    pub(super) tag: Vec<String>,
    /// start_time, name, experiment, status, duration, attempts, failures, workers, step, job, id, metric:KEY or
    /// setting:KEY, downwards with a - before it
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    pub(super) sort: Option<String>,
    /// The runs in the trash instead of the others
    #[arg(long)]
    pub(super) trashed: bool,
    /// How many
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) limit: u32,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// Id or name of the run, or the beginning of its id
    pub(super) run: String,
}

#[derive(Debug, Args)]
pub(super) struct Logs {
    /// Id or name of the run, or the beginning of its id
    pub(super) run: String,
    /// World rank
    #[arg(long, default_value_t = 0)]
    pub(super) rank: u32,
    /// Ordinal of the attempt [default: the newest]
    #[arg(long)]
    pub(super) attempt: Option<u32>,
    /// Only the last lines
    #[arg(long, value_name = "LINES")]
    pub(super) tail: Option<u32>,
    /// Go on as the log grows
    #[arg(short, long)]
    pub(super) follow: bool,
}

#[derive(Debug, Args)]
pub(super) struct Abort {
    /// Id or name of the run, or the beginning of its id
    pub(super) run: String,
    /// Why, for the record
    #[arg(long)]
    pub(super) reason: Option<String>,
    /// Seconds between the stop signal and SIGKILL, in place of the run's own
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) grace_period: Option<f64>,
    /// Wait until the run has ended
    #[arg(long)]
    pub(super) wait: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trainhead backup /backups/th-monday              everything
  trainhead backup --no-files /backups/th-records  the records and metrics alone
  trainhead serve --data-dir /backups/th-monday    look at a backup, or restore it

It may be made at any time, while a head serves the data directory and runs are going. The copy of the store is as of
one moment and is checked; logs that grow are copied up to their size. DEST gets its name when all is on the disk.")]
pub(super) struct Backup {
    /// Directory for the backup, which must not exist or be empty
    #[arg(value_name = "DEST")]
    pub(super) dest: PathBuf,
    /// Leave out the logs and checkpoints of the runs
    #[arg(long)]
    pub(super) no_files: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trainhead gc --older-than 30d --dry-run      what would go to the trash
  trainhead gc --older-than 30d                put runs into the trash that ended more than 30 days ago
  trainhead gc --keep 1000 --max-size 50GiB    until at most 1000 runs are left whose files take at most 50 GiB
  trainhead gc --purge                         delete for good what has been in the trash for 7 days
  trainhead gc --purge --trash-for 0s          empty the trash

Live runs never go. Without --purge nothing is deleted: what is in the trash can be restored.")]
pub(super) struct Gc {
    /// Runs that ended longer ago go to the trash: 30d, 12h, 2w
    #[arg(long, value_name = "AGE", value_parser = units::age)]
    pub(super) older_than: Option<Duration>,
    /// So many ended runs stay, those that ended last
    #[arg(long, value_name = "N")]
    pub(super) keep: Option<u64>,
    /// Ended runs may have so much of logs and checkpoints; those that ended first go to the trash: 500MB, 50GiB
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub(super) max_size: Option<Bytes>,
    /// Delete for good what has been in the trash long enough
    #[arg(long)]
    pub(super) purge: bool,
    /// How long that is [default: 7d]
    #[arg(long, value_name = "AGE", value_parser = units::age)]
    pub(super) trash_for: Option<Duration>,
    /// Only say what would be done
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trainhead doctor                         the data directory, its store and head, this host's limits and kernel
  trainhead doctor --full                  check every index of the store as well, which takes longer
  trainhead doctor --json | jq '.[] | select(.status != \"ok\")'

It changes nothing and may be used while a head serves. Exit code: 0 without problems (warnings are none), else 1.")]
pub(super) struct Doctor {
    /// Check the store's indexes as well
    #[arg(long)]
    pub(super) full: bool,
}

/// Two texts around a separator.
#[derive(Clone, Debug)]
pub(super) struct Pair<const SEPARATOR: char>(pub(super) String, pub(super) String);

impl<const SEPARATOR: char> FromStr for Pair<SEPARATOR> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(SEPARATOR) {
            Some((key, value)) if !key.is_empty() => Ok(Self(key.to_owned(), value.to_owned())),
            _ => Err(format!("write it with a '{SEPARATOR}' between")),
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=86_400.0).contains(&s) => Ok(s),
        _ => Err("seconds, 0 to 86400".to_owned()),
    }
}

/// Any text: what is wrong with it is said where it is not repeated.
#[expect(clippy::unnecessary_wraps, reason = "the signature is clap's")]
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text.to_owned()))
}

/// A path that begins and ends with a slash, of characters that need no quoting in HTML.
fn base_path(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._~-".contains(&b));
    if !plain || !text.starts_with('/') {
        return Err("a path such as /ml/trainhead/".to_owned());
    }
    Ok(format!("{}/", text.trim_end_matches('/')))
}
