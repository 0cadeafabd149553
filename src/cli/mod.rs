//! The command line: options and where they come from, telemetry, wiring, terminal output. Used by nobody.

mod backup;
mod checkpoint_files;
mod checkpoints;
mod config;
mod display;
mod doctor;
mod follow;
mod gc;
mod head;
mod metrics;
mod metrics_export;
mod notify;
mod options;
mod output;
mod parquet;
mod run;
mod serve;
mod show;
mod sync;
mod telemetry;
mod terminal;
mod units;

use std::process::ExitCode;

use crate::{base::error::chain, controller::agent};

/// Exit code of a command that was used wrongly, as everywhere.
const USAGE: u8 = 2;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    // The agent is a plain program of one thread: decided before there is a runtime or anything else.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == "agent") {
        return agent::serve();
    }
    let (cli, sources) = match config::parse() {
        Ok(parsed) => parsed,
        Err(config::ParseError::Usage(e)) => {
            // Help and version are no errors, and go to stdout.
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(USAGE));
        }
        Err(e) => {
            eprintln!("trainhead: {}", chain(&e));
            return ExitCode::from(USAGE);
        }
    };
    telemetry::init(&cli);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("trainhead: no runtime: {e}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        match &cli.command {
            options::Command::Serve(serve) => serve::serve(&cli.global, serve).await,
            options::Command::Run(run) => run::run(&cli.global, run).await,
            options::Command::Runs(args) => show::runs(&cli.global, args).await,
            options::Command::Show(args) => show::show(&cli.global, args).await,
            options::Command::Logs(args) => show::logs(&cli.global, args).await,
            options::Command::Metrics(args) => metrics::metrics(&cli.global, args).await,
            options::Command::Checkpoints(args) => checkpoints::checkpoints(&cli.global, args).await,
            options::Command::Abort(args) => show::abort(&cli.global, args).await,
            options::Command::Backup(args) => backup::backup(&cli.global, args).await,
            options::Command::Gc(args) => gc::gc(&cli.global, args).await,
            options::Command::Doctor(args) => doctor::doctor(&cli.global, args).await,
            options::Command::Sync(args) => sync::sync(&cli.global, args).await,
            options::Command::Config => config::print(&cli.global, &sources),
        }
    });
    match result {
        Ok(code) => code,
        Err(e) => {
            // The causes in one line; a backtrace is nothing that a user can act on.
            eprintln!("trainhead: {e:#}");
            ExitCode::FAILURE
        }
    }
}
