//! The options of `trainhead run`.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};

use super::{Checkpointing, Pair, seconds, secret};
use crate::{
    base::Secret,
    cli::units::{self, Bytes},
    controller::process::parse_signal,
    head::webhooks::WebhookUrl,
};

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  trainhead run --workers 2 -- python3 train.py --epochs 10
  trainhead run --workers 4 --max-failures 3 --name baseline -- python3 train.py
  trainhead run --workers 1:4 --gpus-per-worker 1 -- python3 train.py     as many as there is room for
  trainhead run --standalone --nproc-per-node 2 train.py --epochs 10      as with torchrun
  trainhead run --resume 01985f2e                                         go on with a run that ended
  trainhead run --keep-checkpoints 3 --checkpoint-score val/acc -- python3 train.py
  trainhead run --head http://127.0.0.1:8420 -- ./train.sh

Workers get torchrun's environment (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, …). A program that ends in
.py is started with python3, as torchrun does.
Exit code: 0 finished; the first failing rank's code (128 + signal) if it errored; 130 stopped; 75 preempted and to be
queued again; 2 bad usage.
Ctrl-C stops gracefully, twice kills. Under a scheduler (SLURM_JOB_ID is set) SIGTERM is a notice of preemption.")]
pub(in crate::cli) struct Run {
    /// How many workers, or MIN:MAX for as many as there is room for [default: 1]
    #[arg(
        long,
        visible_alias = "nproc-per-node",
        alias = "nproc_per_node",
        env = "TRAINHEAD_WORKERS",
        value_name = "N|MIN:MAX"
    )]
    pub(in crate::cli) workers: Option<Workers>,
    /// How many failures of workers are made good by another attempt; -1 for any number [default: 0]
    #[arg(long, visible_alias = "max-restarts", alias = "max_restarts", env = "TRAINHEAD_MAX_FAILURES",
        value_name = "N", value_parser = clap::value_parser!(i64).range(-1..), allow_negative_numbers = true)]
    pub(in crate::cli) max_failures: Option<i64>,
    /// How many preemptions are made good by another attempt; -1 for any number [default: -1]
    #[arg(long, env = "TRAINHEAD_MAX_PREEMPTIONS", value_name = "N",
        value_parser = clap::value_parser!(i64).range(-1..), allow_negative_numbers = true)]
    pub(in crate::cli) max_preemptions: Option<i64>,
    /// How often starting the workers may fail for a passing reason; -1 for any number [default: -1]
    #[arg(long, env = "TRAINHEAD_MAX_START_FAILURES", value_name = "N", hide_short_help = true,
        value_parser = clap::value_parser!(i64).range(-1..), allow_negative_numbers = true)]
    pub(in crate::cli) max_start_failures: Option<i64>,
    /// After a preemption: another attempt here, or end with exit code 75 to be queued again [default: restart]
    #[arg(long, env = "TRAINHEAD_ON_PREEMPTION", value_enum, value_name = "WHAT")]
    pub(in crate::cli) on_preemption: Option<Preemption>,
    /// Go on with this run, which has ended, in its own record; what is not said here is as it was
    #[arg(long, value_name = "RUN")]
    pub(in crate::cli) resume: Option<String>,
    /// Name of the run [default: two words and a number]
    #[arg(long, env = "TRAINHEAD_NAME", conflicts_with = "resume")]
    pub(in crate::cli) name: Option<String>,
    /// Experiment that the run belongs to
    #[arg(long, env = "TRAINHEAD_EXPERIMENT", conflicts_with = "resume")]
    pub(in crate::cli) experiment: Option<String>,
    /// Label of the run; may be repeated
    #[arg(long, value_name = "KEY:VALUE", conflicts_with = "resume")]
    pub(in crate::cli) tag: Vec<Pair<':'>>,
    /// Variable for the workers; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(in crate::cli) env: Vec<Pair<'='>>,
    /// Working directory of the workers
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) cwd: Option<PathBuf>,
    /// GPUs that each worker gets for itself, from the head's ledger (CUDA_VISIBLE_DEVICES)
    #[arg(long, env = "TRAINHEAD_GPUS_PER_WORKER", value_name = "N")]
    pub(in crate::cli) gpus_per_worker: Option<u32>,
    /// Processors that each worker counts for in the head's ledger [default: 1 for MIN:MAX, else none are counted]
    #[arg(long, env = "TRAINHEAD_CPUS_PER_WORKER", value_name = "N")]
    pub(in crate::cli) cpus_per_worker: Option<f64>,
    /// Another resource of the head's ledger that each worker needs; may be repeated
    #[arg(long, value_name = "NAME=N", hide_short_help = true)]
    pub(in crate::cli) resource_per_worker: Vec<Pair<'='>>,
    /// Seconds between the stop signal and SIGKILL, whatever the stop is for [default: 30]
    #[arg(long, env = "TRAINHEAD_GRACE_PERIOD", value_name = "SECONDS", value_parser = seconds)]
    pub(in crate::cli) grace_period: Option<f64>,
    /// The stop signal [default: SIGTERM]
    #[arg(long, env = "TRAINHEAD_STOP_SIGNAL", value_name = "SIGNAL", value_parser = stop_signal, hide_short_help = true)]
    pub(in crate::cli) stop_signal: Option<i32>,
    /// Seconds without a report of a rank after which it hangs, which is a failure [default: never]
    #[arg(long, env = "TRAINHEAD_HANG_TIMEOUT", value_name = "SECONDS", value_parser = seconds)]
    pub(in crate::cli) hang_timeout: Option<f64>,
    /// Seconds for which ranks may run on after another has ended well [default: any number; it is said]
    #[arg(long, env = "TRAINHEAD_EARLY_EXIT_TIMEOUT", value_name = "SECONDS", value_parser = seconds, hide_short_help = true)]
    pub(in crate::cli) early_exit_timeout: Option<f64>,
    /// Seconds of silence after which a head takes the controller for gone
    #[arg(long, env = "TRAINHEAD_LEASE", default_value_t = 30.0, value_name = "SECONDS", value_parser = seconds, hide_short_help = true)]
    pub(in crate::cli) lease: f64,
    /// The log of a rank takes no more than this; its middle is left out [default: any size]
    #[arg(long, env = "TRAINHEAD_LOG_MAX_BYTES", value_name = "SIZE", value_parser = units::bytes)]
    pub(in crate::cli) log_max_bytes: Option<Bytes>,
    /// Which ranks' logs are shown here
    #[arg(long, env = "TRAINHEAD_TAIL", default_value = "0", value_enum)]
    pub(in crate::cli) tail: TailWhich,
    /// Tell this address when the run ends, fails, stalls or starts anew; may be repeated
    #[arg(long, env = "TRAINHEAD_NOTIFY", value_delimiter = ' ', value_name = "URL", hide_env_values = true)]
    pub(in crate::cli) notify: Vec<WebhookUrl>,
    /// Sign that with this secret, whsec_… (Standard Webhooks)
    #[arg(long, env = "TRAINHEAD_NOTIFY_SECRET", value_name = "SECRET", value_parser = secret, hide_env_values = true, hide_short_help = true)]
    pub(in crate::cli) notify_secret: Option<Secret>,
    /// Keep the dashboard up after the run has ended, until Ctrl-C
    #[arg(long, env = "TRAINHEAD_LINGER")]
    pub(in crate::cli) linger: bool,
    /// Write how the run went to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) result_file: Option<PathBuf>,
    /// COMMAND is a Python module, as with python -m
    #[arg(short = 'm', long)]
    pub(in crate::cli) module: bool,
    /// Start COMMAND as it is, also if it ends in .py
    #[arg(long, alias = "no_python", conflicts_with = "module", hide_short_help = true)]
    pub(in crate::cli) no_python: bool,
    /// For torchrun's sake: workers are on one node
    #[arg(long, value_name = "1", value_parser = one_node, hide_short_help = true)]
    pub(in crate::cli) nnodes: Option<u32>,
    /// For torchrun's sake: a free port is chosen in any case
    #[arg(long, hide_short_help = true)]
    pub(in crate::cli) standalone: bool,
    // The last of the options, for its heading holds for what follows.
    #[command(flatten)]
    pub(in crate::cli) checkpoints: Checkpointing,
    /// The program and its arguments, after --
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "resume",
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(in crate::cli) command: Vec<String>,
}

/// How many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Workers {
    pub(in crate::cli) min: u32,
    pub(in crate::cli) max: u32,
}

impl FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("a number from 1 to 10000, or two with a ':' between as in 1:4; not {text:?}");
        let number = |text: &str| match text {
            "cpu" | "auto" => {
                std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok())
            }
            _ => text.parse().ok(),
        };
        let in_range = |n: &u32| (1..=10_000).contains(n);
        let (min, max) = text.split_once(':').unwrap_or((text, text));
        let min = number(min).filter(in_range).ok_or_else(wrong)?;
        let max = number(max).filter(in_range).ok_or_else(wrong)?;
        if min > max { Err(wrong()) } else { Ok(Self { min, max }) }
    }
}

/// What follows a preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Preemption {
    /// Another attempt, by this controller
    Restart,
    /// The run ends with exit code 75
    Requeue,
}

/// Which ranks' logs are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum TailWhich {
    /// Rank 0
    #[value(name = "0")]
    Zero,
    /// All ranks, each line with its rank
    All,
    /// None
    None,
}

fn one_node(text: &str) -> Result<u32, String> {
    match text {
        "1" | "1:1" => Ok(1),
        _ => Err("this version places workers on one node, so 1".to_owned()),
    }
}

fn stop_signal(text: &str) -> Result<i32, String> {
    parse_signal(text).ok_or_else(|| "a signal by its name or number, as SIGTERM or 15".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_a_number_or_two() {
        let cases = [("3", Some((3, 3))), ("1:4", Some((1, 4))), ("2:2", Some((2, 2)))];
        let bad = ["0", "4:1", "1:", ":2", "x", "1:2:3", "10001", "-1"].map(|text| (text, None));
        for (text, expected) in cases.into_iter().chain(bad) {
            let got = text.parse::<Workers>().ok().map(|w| (w.min, w.max));
            assert_eq!(got, expected, "{text}");
        }
        assert!("auto".parse::<Workers>().is_ok());
    }
}
