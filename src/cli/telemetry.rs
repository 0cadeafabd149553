//! Logging: to stderr, for people or as JSON, never with secrets.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt};

use super::options::{Cli, Command};

/// Starts logging. `RUST_LOG` wins over -q and -v.
pub(super) fn init(cli: &Cli) {
    // A terminal that shows a training run shows little else; a head says what happens, and with -v each request.
    let more = u8::from(matches!(cli.command, Command::Serve(_)));
    let level = match (cli.global.quiet, cli.global.verbose.saturating_add(more)) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "warn,trainhead=info",
        (false, 2) => "info,trainhead=debug",
        (false, _) => "debug,trainhead=trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // Errors of the log itself are not logged: they would be written where nothing can be written, which panics.
    let builder = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .log_internal_errors(false);
    // A second start (tests in one process) keeps the first.
    let _ = if cli.global.json && matches!(cli.command, Command::Serve(_)) {
        builder.json().try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).try_init()
    };
}
