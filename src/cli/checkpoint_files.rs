//! The files of checkpoints: copied out, and checked against their manifests.

use std::{path::Path, process::ExitCode};

use anyhow::{anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{options::Global, output::counted};
use crate::{
    base::number::bytes_in_words,
    controller::checkpoint_storage::{self, Verified},
    model::checkpoint::CheckpointView,
};

/// Copies one to a directory.
pub(super) async fn get(
    global: &Global,
    checkpoint: &CheckpointView,
    dir: &Path,
) -> anyhow::Result<ExitCode> {
    // An empty directory that somebody made for it is as good as none.
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_none()) {
        std::fs::remove_dir(dir)?;
    }
    let bar = bar(global);
    let fetched = checkpoint_storage::fetch(&checkpoint.record.uri, dir, show(&bar)).await;
    bar.finish_and_clear();
    let manifest = fetched.map_err(|why| anyhow!(why))?;
    if global.json {
        println!("{}", json!({"number": checkpoint.number, "path": dir, "files": manifest.files.len()}));
    } else {
        let files = u64::try_from(manifest.files.len()).unwrap_or(u64::MAX);
        println!(
            "checkpoint {} of step {} is in {}: {}, {}",
            checkpoint.number,
            checkpoint.record.step,
            dir.display(),
            counted(files, "file"),
            bytes_in_words(manifest.size_bytes())
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks them against their manifests; the exit code is 1 if one is not whole.
pub(super) async fn verify(global: &Global, those: &[&CheckpointView]) -> anyhow::Result<ExitCode> {
    if those.is_empty() {
        bail!("there is no checkpoint to verify");
    }
    let mut answers = Vec::new();
    let mut broken = 0;
    for checkpoint in those {
        let bar = bar(global);
        bar.set_message(format!("checkpoint {}", checkpoint.number));
        let verified = checkpoint_storage::verify(&checkpoint.record.uri, show(&bar)).await;
        bar.finish_and_clear();
        let wrong = match verified.map_err(|why| anyhow!(why))? {
            Verified::Whole(_) => Vec::new(),
            Verified::Broken(wrong) => wrong,
        };
        broken += usize::from(!wrong.is_empty());
        if global.json {
            answers.push(json!({"number": checkpoint.number, "whole": wrong.is_empty(), "wrong": wrong}));
        } else if wrong.is_empty() {
            println!(
                "checkpoint {} of step {}: whole, {}",
                checkpoint.number,
                checkpoint.record.step,
                bytes_in_words(checkpoint.record.size_bytes)
            );
        } else {
            println!("checkpoint {} of step {}:", checkpoint.number, checkpoint.record.step);
            wrong.iter().for_each(|what| println!("  {what}"));
        }
    }
    if global.json {
        println!("{}", serde_json::to_string(&answers)?);
    }
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A bar of bytes on a terminal; nothing elsewhere.
fn bar(global: &Global) -> ProgressBar {
    if global.quiet || global.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {bar:40} {bytes} of {total_bytes}, {bytes_per_sec}");
    let bar = ProgressBar::new(0);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn show(bar: &ProgressBar) -> impl Fn(u64, u64) + Send + Sync + 'static {
    let bar = bar.clone();
    move |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    }
}
