//! Logging: to stderr, for people or as JSON, never with secrets.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt};

use super::options::{Cli, Command};

/// Starts logging. `RUST_LOG` wins over -q and -v.
pub(super) fn init(cli: &Cli) {
    let level = match (cli.global.quiet, cli.global.verbose, &cli.command) {
        (true, _, _) => "error",
        (false, 0, Command::Serve(_)) => "warn,trainhead=info",
        // A terminal that shows a training run shows little else.
        (false, 0, _) => "warn",
        (false, 1, _) => "warn,trainhead=info",
        (false, 2, _) => "info,trainhead=debug",
        (false, _, _) => "debug,trainhead=trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // A second start (tests in one process) keeps the first.
    let _ = if cli.global.json && matches!(cli.command, Command::Serve(_)) {
        builder.json().try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).try_init()
    };
}
