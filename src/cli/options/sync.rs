//! The options of `trainhead sync`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trainhead sync                                     all that is left in the data directory
  trainhead sync ./data/spool/01985f2e-…             what one program left
  trainhead sync --head http://10.0.0.7:8420 DIR…    to another head than the one it was meant for
  trainhead sync --json | jq '.spools[] | select(.state != \"delivered\")'

A spool is a directory that a run leaves when its head does not answer: by default <data dir>/spool/… (Python) and
<data dir>/runs/<run>/spool (trainhead run). What lives is left alone. Delivered twice, in any order, or by two at once,
every point is stored once; what was delivered is removed.
Exit code: 0 if nothing is left, else 1.")]
pub(in crate::cli) struct Sync {
    /// Spools, or directories of spools [default: all of the data directory]
    #[arg(value_name = "DIR")]
    pub(in crate::cli) dirs: Vec<PathBuf>,
}
