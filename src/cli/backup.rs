//! `trainhead backup`: a copy of the data directory, beside whoever serves it.

use std::{io::IsTerminal, process::ExitCode, time::Instant};

use anyhow::Context;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{
    head::existing_data_dir,
    options::{Backup, Global},
    output::{counted, duration, plain},
};
use crate::state::{BackupFiles, BackupStage, back_up};

/// Makes a backup; a signal breaks it off and leaves nothing behind.
pub(super) async fn backup(global: &Global, args: &Backup) -> anyhow::Result<ExitCode> {
    let data_dir = existing_data_dir(global)?;
    if global.head.is_some() && !global.quiet {
        eprintln!("trainhead: a backup is made of {} and not through --head", data_dir.root().display());
    }
    let begun = Instant::now();
    let stop = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let bar = progress(global);
    let files = if args.no_files { BackupFiles::None } else { BackupFiles::All };
    let shown = bar.clone();
    let made = {
        let making = back_up(&data_dir, &args.dest, files, &stop, move |stage| show(&shown, stage));
        tokio::pin!(making);
        loop {
            tokio::select! {
                made = &mut making => break made,
                _ = interrupt.recv() => stop.cancel(),
                _ = terminate.recv() => stop.cancel(),
            }
        }
    };
    bar.finish_and_clear();
    let made = made.with_context(|| format!("{} was not backed up", data_dir.root().display()))?;
    let took = begun.elapsed();
    if global.json {
        let summary = json!({
            "path": made.path, "version": made.version, "runs": made.runs, "database_bytes": made.database_bytes,
            "files": made.files, "files_bytes": made.files_bytes,
            "took_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        println!("{summary}");
        return Ok(ExitCode::SUCCESS);
    }
    let path = plain(&made.path.to_string_lossy());
    println!(
        "{path} has {} ({}) and {} ({}), and was checked; that took {}",
        counted(made.runs, "run"),
        HumanBytes(made.database_bytes),
        counted(made.files, "file"),
        HumanBytes(made.files_bytes),
        duration(took),
    );
    println!("serve it, or restore it, with: trainhead serve --data-dir {}", quoted(&made.path));
    Ok(ExitCode::SUCCESS)
}

/// A bar on a terminal; elsewhere nothing is shown.
pub(super) fn progress(global: &Global) -> ProgressBar {
    if global.quiet || global.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {wide_msg}") {
        bar.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}

fn show(bar: &ProgressBar, stage: BackupStage) {
    bar.set_message(match stage {
        BackupStage::Store => "copying the store".to_owned(),
        BackupStage::Files { done_bytes, all_bytes } => {
            format!("copying files: {} of {}", HumanBytes(done_bytes), HumanBytes(all_bytes))
        }
        BackupStage::Check => "checking the copy and bringing it to the disk".to_owned(),
    });
}

/// A path as a shell takes it.
pub(super) fn quoted(path: &std::path::Path) -> String {
    let text = plain(&path.to_string_lossy());
    let simple = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+:@".contains(&b));
    if simple { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
