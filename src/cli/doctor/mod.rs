//! `trainhead doctor`: looks at what commonly goes wrong and says what to do about it. It changes nothing; what is
//! looked at is in `facts`, what that means in `verdict`.

mod facts;
mod verdict;

use std::{path::Path, process::ExitCode};

use console::style;
use serde::Serialize;

use self::facts::{Directory, Host};
use super::{
    backup::progress,
    head::data_dir_path,
    options::{Doctor, Global},
    output::{counted, plain},
};
use crate::{
    base::number,
    state::{DataDir, Depth, HttpState, StoreReport, examine},
};

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// As it should be.
    Ok,
    /// It works, and may not for ever.
    Warning,
    /// It does not work.
    Problem,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Which check.
    pub(super) check: &'static str,
    /// How it went.
    pub(super) status: Status,
    /// What was found, in one sentence.
    pub(super) found: String,
    /// What to do, in one sentence.
    pub(super) advice: Option<String>,
}

/// Looks, and says what it found; exit code 1 if there is a problem.
pub(super) async fn doctor(global: &Global, args: &Doctor) -> anyhow::Result<ExitCode> {
    let path = data_dir_path(global)?;
    let bar = progress(global);
    bar.set_message("looking at the store; --full takes longer");
    let depth = if args.full { Depth::Full } else { Depth::Quick };
    let looked = |n: usize| bar.set_message(format!("{n} runs are looked at"));
    let findings = look(global, &path, depth, looked).await;
    bar.finish_and_clear();
    let problems = count(&findings, Status::Problem);
    if global.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        print(global, &findings);
    }
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn look(global: &Global, path: &Path, depth: Depth, looked: impl Fn(usize)) -> Vec<Finding> {
    let mut findings = verdict::directory(path, Directory::look(path).as_ref());
    findings.extend(facts::space(path).iter().flat_map(verdict::space));
    let data_dir = DataDir::existing(path).ok();
    let mut report = None;
    if let Some(data_dir) = &data_dir
        && data_dir.database().is_file()
    {
        let examined = examine(data_dir, depth, looked).await;
        findings.extend(verdict::store(depth, &examined));
        report = examined.ok();
    }
    let contents = report.as_ref().and_then(|r: &StoreReport| r.contents.as_ref());
    let info = data_dir.as_ref().and_then(DataDir::head_info);
    let held = data_dir.as_ref().is_some_and(|dir| dir.is_held().unwrap_or(false));
    let url = global.head.clone().or_else(|| info.as_ref().filter(|_| held).map(|i| i.url.clone()));
    let answer = match &url {
        Some(url) => Some(match HttpState::new(url) {
            Ok(http) => http.readiness().await,
            Err(e) => Err(e),
        }),
        None => None,
    };
    let head_pid = info.as_ref().filter(|_| held && global.head.is_none()).map(|i| i.pid);
    let head = url.as_deref().zip(answer.as_ref());
    findings.extend(verdict::head(held, head, env!("CARGO_PKG_VERSION")));
    let listener = facts::listener(global.port, url.as_deref()).await;
    findings.push(verdict::port(global.port, &listener));
    let host = Host::look(head_pid);
    let newest_event = contents.and_then(|c| c.newest_event);
    findings.push(verdict::clock(host.now, host.built, newest_event));
    let live_runs = contents.map_or(0, |c| c.live_runs);
    findings.push(verdict::open_files(host.open_files, live_runs, head_pid));
    findings.push(verdict::inotify(host.inotify));
    findings.extend(verdict::kernel(&host.kernel));
    findings
}

fn count(findings: &[Finding], status: Status) -> usize {
    findings.iter().filter(|f| f.status == status).count()
}

fn print(global: &Global, findings: &[Finding]) {
    let least = if global.quiet { Status::Warning } else { Status::Ok };
    for finding in findings.iter().filter(|f| f.status >= least) {
        let word = match finding.status {
            Status::Ok => style("ok     ").green(),
            Status::Warning => style("warning").yellow(),
            Status::Problem => style("problem").red().bold(),
        };
        println!("{}  {:<12}  {}", word, finding.check, plain(&finding.found));
        if let Some(advice) = &finding.advice {
            println!("{:<23}{}", "", plain(advice));
        }
    }
    if !global.quiet {
        let said = |n: usize, word: &str| counted(number::size(n), word);
        let (problems, warnings) = (count(findings, Status::Problem), count(findings, Status::Warning));
        println!("{}, {}", said(problems, "problem"), said(warnings, "warning"));
    }
}
