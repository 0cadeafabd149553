//! `trainhead checkpoints`: what a run has, what retention makes of it, and taking one out or pinning it.

use std::process::ExitCode;

use anyhow::bail;
use serde::Deserialize;
use serde_json::Value;

use super::{
    options::{CheckpointCommand, Checkpoints, Global, Which},
    output::{counted, duration, number, plain, table},
    show::{find, text, with_head},
};
use crate::{
    base::{Timestamp, number::bytes_in_words},
    model::{
        Checkpoint,
        checkpoint::{CheckpointView, Fate, Retention},
    },
    state::HttpState,
};

/// A page as the API answers it.
#[derive(Deserialize)]
struct Page {
    checkpoints: Vec<CheckpointView>,
    next_page_token: Option<String>,
}

/// The checkpoints of a run, newest first, and what else is known of it.
struct Ledger {
    run: Value,
    checkpoints: Vec<CheckpointView>,
}

/// `trainhead checkpoints`
pub(super) async fn checkpoints(global: &Global, args: &Checkpoints) -> anyhow::Result<ExitCode> {
    match (&args.what, &args.plan) {
        (Some(CheckpointCommand::Ls { run, all }), _) => {
            let ledger = ledger(global, run).await?;
            let all = *all;
            list(global, &ledger, |c| all || c.fate != Fate::Gone)
        }
        (Some(CheckpointCommand::Pin { run, which, remove }), _) => pin(global, run, *which, *remove).await,
        (Some(CheckpointCommand::Get { run, which, dir }), _) => {
            let ledger = ledger(global, run).await?;
            super::checkpoint_files::get(global, ledger.pick(*which)?, dir).await
        }
        (Some(CheckpointCommand::Verify { run, which }), _) => {
            let ledger = ledger(global, run).await?;
            let picked = which.map(|which| ledger.pick(which)).transpose()?;
            let those: Vec<&CheckpointView> = match picked {
                Some(one) => vec![one],
                None => ledger.checkpoints.iter().filter(|c| c.fate != Fate::Gone).collect(),
            };
            super::checkpoint_files::verify(global, &those).await
        }
        (None, Some(run)) => {
            let mut ledger = ledger(global, run).await?;
            ledger.judge_by(args);
            list(global, &ledger, |c| c.fate != Fate::Gone)
        }
        (None, None) => Ok(ExitCode::from(super::USAGE)),
    }
}

async fn ledger(global: &Global, run: &str) -> anyhow::Result<Ledger> {
    with_head(global, async |http| Ledger::read(http, run).await).await
}

impl Ledger {
    async fn read(http: &HttpState, run: &str) -> anyhow::Result<Self> {
        let run = find(http, run).await?;
        let path = format!("/api/train/runs/{}/checkpoints", text(&run, "id"));
        let mut checkpoints = Vec::new();
        let mut query = vec![("page_size", "1000".to_owned())];
        loop {
            let page: Page = http.get(&path, &query).await?;
            checkpoints.extend(page.checkpoints);
            let Some(token) = page.next_page_token else { break };
            query.truncate(1);
            query.push(("page_token", token));
        }
        Ok(Self { run, checkpoints })
    }

    fn pick(&self, which: Which) -> anyhow::Result<&CheckpointView> {
        let is = |c: &&CheckpointView| match which {
            Which::Number(number) => c.number == number,
            Which::Latest => c.latest,
            Which::Best => c.best,
        };
        let name = text(&self.run, "name");
        match self.checkpoints.iter().find(is) {
            Some(found) if found.fate == Fate::Gone => {
                bail!("the {which} of {name} is {}: its files are not there any more", found.record.state)
            }
            Some(found) => Ok(found),
            None => bail!("{name} has no {which}; 'trainhead checkpoints ls {name}' lists them"),
        }
    }

    /// Says what would become of each by the rule of the options, or the run's own.
    fn judge_by(&mut self, args: &Checkpoints) {
        let settings = self.run.get("settings").and_then(Value::as_object);
        let own = settings.map(Retention::of_settings).unwrap_or_default();
        let rule = Retention {
            num_to_keep: args.keep.or(own.num_to_keep),
            score_attribute: args.score.clone().or(own.score_attribute),
            score_order: args.order.unwrap_or(own.score_order),
        };
        let plain = |c: CheckpointView| Checkpoint { number: c.number, record: c.record, pinned: c.pinned };
        let all: Vec<Checkpoint> = std::mem::take(&mut self.checkpoints).into_iter().map(plain).collect();
        let ranking = rule.rank(&all);
        self.checkpoints = all.into_iter().map(|c| ranking.show(c)).collect();
    }
}

fn list(
    global: &Global,
    ledger: &Ledger,
    shown: impl Fn(&CheckpointView) -> bool,
) -> anyhow::Result<ExitCode> {
    let those: Vec<&CheckpointView> = ledger.checkpoints.iter().filter(|c| shown(c)).collect();
    if global.json {
        println!("{}", serde_json::to_string(&those)?);
        return Ok(ExitCode::SUCCESS);
    }
    if those.is_empty() {
        println!("{} has no checkpoints", text(&ledger.run, "name"));
        return Ok(ExitCode::SUCCESS);
    }
    let now = Timestamp::from_ms(ledger.run.get("server_time_ms").and_then(Value::as_i64).unwrap_or(0));
    let rows: Vec<Vec<String>> = those.iter().map(|c| row(c, now)).collect();
    println!("{}", table(&["NO", "STEP", "STATE", "KEPT AS", "SIZE", "AGE", "METRICS", "WHERE"], &rows));
    let goes: Vec<&&CheckpointView> = those.iter().filter(|c| c.fate == Fate::Goes).collect();
    if !goes.is_empty() {
        let bytes = goes.iter().map(|c| c.record.size_bytes).sum();
        let n = u64::try_from(goes.len()).unwrap_or(u64::MAX);
        println!("{} would go, {}", counted(n, "checkpoint"), bytes_in_words(bytes));
    }
    Ok(ExitCode::SUCCESS)
}

fn row(c: &CheckpointView, now: Timestamp) -> Vec<String> {
    let mut kept = Vec::new();
    kept.extend(c.best.then_some("best"));
    kept.extend(c.latest.then_some("latest"));
    kept.extend(c.pinned.then_some("pinned"));
    match c.fate {
        Fate::Pending => kept.push("pending"),
        Fate::Goes => kept.push("goes"),
        Fate::Best | Fate::Latest | Fate::Pinned | Fate::Gone => {}
    }
    let metrics = c.record.metrics.iter().take(3);
    let metrics: Vec<String> = metrics.map(|(key, x)| format!("{} {}", plain(key), number(x.0))).collect();
    vec![
        c.number.to_string(),
        c.record.step.to_string(),
        c.record.state.to_string(),
        kept.join(", "),
        bytes_in_words(c.record.size_bytes),
        duration(now.since(c.record.committed_at_ms)),
        metrics.join(", "),
        plain(&c.record.uri),
    ]
}

async fn pin(global: &Global, run: &str, which: Which, remove: bool) -> anyhow::Result<ExitCode> {
    with_head(global, async |http| {
        let ledger = Ledger::read(http, run).await?;
        let number = ledger.pick(which)?.number;
        let path = format!("/api/train/runs/{}/checkpoints/{number}/pin", text(&ledger.run, "id"));
        let done: Value = if remove { http.delete(&path).await? } else { http.put_empty(&path).await? };
        if global.json {
            println!("{done}");
        } else {
            let name = text(&ledger.run, "name");
            let what = if remove { "is left to retention again" } else { "stays, whatever retention says" };
            println!("checkpoint {number} of {name} {what}");
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}
