//! Options of `trainhead metrics`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  trainhead metrics ls baseline                           what was measured, with last, least and greatest values
  trainhead metrics show baseline train/loss val/loss     the curves in a line each
  trainhead metrics export baseline -o baseline.parquet   all points of all metrics, for pandas or polars
  trainhead metrics export baseline --key loss --attempt all --rank all > loss.csv
                                                          what each attempt and each rank measured")]
pub(in crate::cli) struct Metrics {
    #[command(subcommand)]
    pub(in crate::cli) what: MetricsCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(in crate::cli) enum MetricsCommand {
    /// List the metrics of a run
    Ls {
        /// Id, beginning of an id, or name of a run
        run: String,
    },
    /// Draw metrics of a run
    Show {
        /// Id, beginning of an id, or name of a run
        run: String,
        /// What to draw
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        #[command(flatten)]
        which: WhichSeries,
    },
    /// Write the points of a run to a file, a row each
    Export(Export),
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Export {
    /// Id, beginning of an id, or name of a run
    pub(in crate::cli) run: String,
    /// Only this metric; may be repeated [default: all]
    #[arg(long = "key", value_name = "KEY")]
    pub(in crate::cli) keys: Vec<String>,
    /// csv, parquet or arrow (an IPC stream) [default: as FILE is called, else csv]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(in crate::cli) format: Option<ExportFormat>,
    /// Where to [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) which: WhichSeries,
}

/// Whose series.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct WhichSeries {
    /// merged: for each step the newest attempt that reached it; all; or the ordinal of one
    #[arg(long, default_value = "merged", value_name = "ATTEMPT", value_parser = attempt)]
    pub(in crate::cli) attempt: String,
    /// World rank, or all
    #[arg(long, default_value = "0", value_name = "RANK", value_parser = rank)]
    pub(in crate::cli) rank: String,
}

/// What points are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ExportFormat {
    Csv,
    Parquet,
    Arrow,
}

fn attempt(text: &str) -> Result<String, String> {
    one_of(text, &["merged", "all"])
}

fn rank(text: &str) -> Result<String, String> {
    one_of(text, &["all"])
}

fn one_of(text: &str, words: &[&str]) -> Result<String, String> {
    if words.contains(&text) || text.parse::<u32>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err(format!("{} or a number", words.join(", ")))
    }
}
