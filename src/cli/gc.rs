//! `trainhead gc`: clears away old runs, by way of the head that serves them or one of our own.

use std::{process::ExitCode, time::Duration};

use indicatif::HumanBytes;

use super::{
    backup::progress,
    options::{Gc, Global},
    output::counted,
    show::with_head,
};
use crate::{
    base::{RunId, number},
    model::retention::{CollectGarbage, TRASH_FOR},
    state::Cleared,
};

/// Deleting the checkpoints of many runs takes long.
const REQUEST_LIMIT: Duration = Duration::from_secs(3600);
/// Runs that are named on a terminal; `--json` names all.
const NAMED: usize = 20;

/// Clears away until nothing is left that the rules name.
pub(super) async fn gc(global: &Global, args: &Gc) -> anyhow::Result<ExitCode> {
    let rule = rule(args);
    if rule.check().is_err() {
        eprintln!(
            "trainhead: {}",
            if args.trash_for.is_some() && !args.purge {
                "--trash-for says when runs are deleted for good: give --purge as well"
            } else {
                "say what is to go, by at least one of --older-than, --keep, --max-size and --purge; \
                 'trainhead gc --help' has examples"
            }
        );
        return Ok(ExitCode::from(super::USAGE));
    }
    let bar = progress(global);
    let cleared = with_head(global, async |http| {
        let mut all = Cleared { dry_run: rule.dry_run, ..Cleared::default() };
        loop {
            let done: Cleared = http.post_within(REQUEST_LIMIT, "/api/train/gc", None, &rule).await?;
            let nothing = done.trashed.is_empty() && done.purged.is_empty();
            merge(&mut all, done);
            // Asked again, a dry run says the same again; and what came back meanwhile does not go.
            if all.remaining == 0 || rule.dry_run || nothing {
                return Ok(all);
            }
            bar.set_message(format!(
                "{} runs in the trash, {} deleted, {} to go",
                all.trashed.len(),
                all.purged.len(),
                all.remaining
            ));
        }
    })
    .await;
    bar.finish_and_clear();
    let cleared = cleared?;
    if global.json {
        println!("{}", serde_json::to_string(&cleared)?);
    } else {
        println!("{}", told(&cleared, &rule).join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn rule(args: &Gc) -> CollectGarbage {
    let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    CollectGarbage {
        older_than_ms: args.older_than.map(ms),
        keep: args.keep,
        max_size_bytes: args.max_size.map(|size| size.0),
        purge: args.purge,
        trash_for_ms: args.trash_for.map(ms),
        dry_run: args.dry_run,
    }
}

/// Adds what one more request did.
fn merge(all: &mut Cleared, done: Cleared) {
    let Cleared { trashed, purged, freed_bytes, remaining, dry_run } = done;
    all.trashed.extend(trashed);
    all.purged.extend(purged);
    all.freed_bytes = all.freed_bytes.saturating_add(freed_bytes);
    all.remaining = remaining;
    all.dry_run = dry_run;
}

/// What happened, a line each.
fn told(cleared: &Cleared, rule: &CollectGarbage) -> Vec<String> {
    let Cleared { trashed, purged, freed_bytes, remaining, dry_run } = cleared;
    let mut lines = Vec::new();
    let would = |done: &str, would: &str| if *dry_run { would.to_owned() } else { done.to_owned() };
    if !trashed.is_empty() {
        lines.push(format!(
            "{} {}",
            runs(trashed.len()),
            would("went to the trash", "would go to the trash")
        ));
        lines.extend(named(trashed));
    }
    if !purged.is_empty() {
        let what = would("deleted for good, which freed", "would be deleted for good, which would free");
        lines.push(format!("{} {what} {}", runs(purged.len()), HumanBytes(*freed_bytes)));
        lines.extend(named(purged));
    }
    if lines.is_empty() {
        lines.push("there is nothing to clear away".to_owned());
    }
    if *remaining > 0 {
        lines.push(format!("and {} more", runs(*remaining)));
    }
    if !trashed.is_empty() && !dry_run && !rule.purge {
        let days = TRASH_FOR.as_secs() / 86_400;
        lines.push(format!(
            "their files are still there: 'trainhead gc --purge' deletes what was in the trash for {days} days"
        ));
    }
    lines
}

fn runs(n: usize) -> String {
    counted(number::size(n), "run")
}

fn named(runs: &[RunId]) -> Vec<String> {
    let mut lines: Vec<String> = runs.iter().take(NAMED).map(|id| format!("  {id}")).collect();
    if runs.len() > NAMED {
        lines.push(format!("  … and {} more; --json names all", runs.len() - NAMED));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_told_and_what_would_be_sounds_otherwise() {
        let ids = |n: usize| (0..n).map(|i| RunId::parse(&format!("r{i}")).unwrap()).collect::<Vec<_>>();
        let rule = CollectGarbage { keep: Some(1), ..CollectGarbage::default() };
        let mut all = Cleared::default();
        assert_eq!(told(&all, &rule), ["there is nothing to clear away"]);
        merge(&mut all, Cleared { trashed: ids(2), remaining: 5, ..Cleared::default() });
        merge(&mut all, Cleared { trashed: ids(1), purged: ids(1), freed_bytes: 2048, ..Cleared::default() });
        let lines = told(&all, &rule);
        assert_eq!(lines[..4], ["3 runs went to the trash", "  r0", "  r1", "  r0"]);
        assert_eq!(lines[4..6], ["1 run deleted for good, which freed 2.00 KiB", "  r0"]);
        assert!(lines[6].contains("'trainhead gc --purge'"));
        let dry = Cleared { trashed: ids(30), remaining: 7, dry_run: true, ..Cleared::default() };
        let lines = told(&dry, &rule);
        assert_eq!(lines[0], "30 runs would go to the trash");
        assert_eq!(lines[21..], ["  … and 10 more; --json names all", "and 7 runs more"]);
    }
}
