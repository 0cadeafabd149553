//! `trainhead sync`: delivers what runs could not say to their head while it was away.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use indicatif::{HumanBytes, HumanCount, ProgressBar};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    backup::progress,
    head::data_dir_path,
    options::{Global, Sync},
    output::{counted, plain},
};
use crate::{
    base::{RunId, error::chain, number::size},
    controller::{FoundSpool, Leftover, Tally, is_spool_dir, spools_of_run},
    state::{DataDir, HttpState},
};

/// A spool that somebody else delivers is waited for this long.
const OTHER: Duration = Duration::from_secs(600);
/// Nothing tells when it is done, so it is looked at this often.
const LOOK: Duration = Duration::from_millis(100);

/// What became of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// The head has all of it.
    Delivered,
    /// It was not there any more.
    Gone,
    /// Its run goes on, and delivers it.
    InUse,
    /// It is left, for another time.
    Left,
}

#[derive(Debug, Serialize)]
struct Line {
    dir: PathBuf,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    #[serde(flatten)]
    tally: Tally,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// What is to be delivered, and whether it was named.
struct Wanted {
    dirs: Vec<PathBuf>,
    named: bool,
}

/// Delivers all spools that were named, or all that there are.
pub(super) async fn sync(global: &Global, args: &Sync) -> anyhow::Result<ExitCode> {
    let data_dir = std::path::absolute(data_dir_path(global)?)?;
    let wanted = wanted(&args.dirs, &data_dir)?;
    let mut courier = Courier { global, data_dir, heads: HashMap::new(), bar: progress(global) };
    let mut lines = Vec::new();
    for (i, dir) in wanted.dirs.iter().enumerate() {
        courier.bar.set_message(format!("spool {} of {}", i + 1, wanted.dirs.len()));
        let line = courier.deliver(dir).await;
        if let Some(problem) = line.problem.as_ref().filter(|_| line.state == State::Left) {
            courier.bar.suspend(|| eprintln!("trainhead: {} is left: {problem}", shown(dir)));
        } else if line.state == State::InUse && (wanted.named || global.verbose > 0) {
            courier.bar.suspend(|| eprintln!("trainhead: {} is left to its run, which goes on", shown(dir)));
        } else if line.state == State::Gone && wanted.named && !global.quiet {
            courier.bar.suspend(|| eprintln!("trainhead: there is no spool in {} (any more)", shown(dir)));
        }
        lines.push(line);
    }
    courier.bar.finish_and_clear();
    let left = lines
        .iter()
        .filter(|line| line.state == State::Left || (wanted.named && line.state == State::InUse))
        .count();
    if global.json {
        println!("{}", serde_json::json!({"spools": lines, "left": left}));
    } else if !global.quiet {
        println!("{}", told(&lines));
    }
    Ok(if left == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The spools that are meant, each once.
fn wanted(named: &[PathBuf], data_dir: &Path) -> anyhow::Result<Wanted> {
    if named.is_empty() {
        let runs = below(&data_dir.join("runs")).into_iter().flat_map(|run| spools_of_run(&run));
        let python = below(&data_dir.join("spool")).into_iter().filter(|dir| is_spool_dir(dir));
        return Ok(Wanted { dirs: python.chain(runs).collect(), named: false });
    }
    let mut dirs = BTreeSet::new();
    for dir in named {
        let within: Vec<PathBuf> = below(dir).into_iter().filter(|dir| is_spool_dir(dir)).collect();
        if is_spool_dir(dir) || within.is_empty() {
            // One that was delivered is gone; one whose very place is not there was never meant.
            let place = std::path::absolute(dir)?;
            if !place.exists() && !place.parent().is_some_and(Path::exists) {
                bail!("there is no directory {}", shown(dir));
            }
            if place.exists() && !place.is_dir() {
                bail!("{} is not a directory: a spool is one", shown(dir));
            }
            dirs.insert(place);
        } else {
            dirs.extend(within.into_iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>()?);
        }
    }
    Ok(Wanted { dirs: dirs.into_iter().collect(), named: true })
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

struct Courier<'a> {
    global: &'a Global,
    data_dir: PathBuf,
    /// Heads by their address, and why those that cannot be used cannot.
    heads: HashMap<String, Result<HttpState, String>>,
    bar: ProgressBar,
}

impl Courier<'_> {
    async fn deliver(&mut self, dir: &Path) -> Line {
        let mut line = Line {
            dir: dir.to_owned(),
            state: State::Left,
            run_id: None,
            head: None,
            tally: Tally::default(),
            problem: None,
        };
        let deadline = Instant::now() + OTHER;
        let leftover = loop {
            match Leftover::open(dir).await {
                Ok(FoundSpool::Here(leftover)) => break leftover,
                Ok(FoundSpool::Nothing) => {
                    line.state = State::Gone;
                    return line;
                }
                Ok(FoundSpool::Written) => {
                    line.state = State::InUse;
                    return line;
                }
                Ok(FoundSpool::Delivered) if Instant::now() < deadline => {
                    self.bar.set_message(format!("{}: another one delivers it", shown(dir)));
                    sleep(LOOK).await;
                }
                Ok(FoundSpool::Delivered) => {
                    line.problem = Some("another one delivers it, and takes long".to_owned());
                    return line;
                }
                Err(e) => {
                    line.problem = Some(chain(&e));
                    return line;
                }
            }
        };
        let about = leftover.about();
        line.run_id = Some(about.run_id.clone());
        let name = plain(about.register.name.as_deref().unwrap_or(about.run_id.as_str()));
        let head = match self.head(about.head.as_deref(), dir).await {
            Ok(head) => head,
            Err(why) => {
                line.problem = Some(why);
                return line;
            }
        };
        line.head = Some(head.url().to_owned());
        let (bar, all) = (self.bar.clone(), leftover.bytes());
        let tell = move |tally: &Tally| {
            let points = HumanCount(tally.points + tally.known_points);
            let (done, all) = (HumanBytes(tally.bytes), HumanBytes(all));
            bar.set_message(format!("{name}: {points} points, {done} of {all}"));
        };
        match leftover.deliver(&head, tell).await {
            Ok(tally) => {
                line.state = State::Delivered;
                line.tally = tally;
            }
            Err(e) => line.problem = Some(chain(&e)),
        }
        line
    }

    /// The head of `--head`; else the spool's; else that of the data directory. No head is made for this: it would be gone
    /// before anybody saw what it was told.
    async fn head(&mut self, of_spool: Option<&str>, dir: &Path) -> Result<HttpState, String> {
        if let Some(url) = self.global.head.clone().or_else(|| of_spool.map(str::to_owned)) {
            let named = self.at(&url).await;
            // A head of this data directory comes back at another address, if need be.
            let ours = self.global.head.is_none() && dir.starts_with(&self.data_dir) && is_of_this_host(&url);
            if named.is_ok() || !ours {
                return named.map_err(|e| format!("{e}; start that head, or name another one by --head"));
            }
        }
        let place = shown(&self.data_dir);
        let info = DataDir::existing(&self.data_dir).ok().and_then(|data_dir| data_dir.head_info());
        let no_head =
            format!("no head serves {place}: start one with 'trainhead serve', or name one by --head");
        match info {
            Some(info) => self.at(&info.url).await.map_err(|_| no_head),
            None => Err(no_head),
        }
    }

    async fn at(&mut self, url: &str) -> Result<HttpState, String> {
        if let Some(known) = self.heads.get(url) {
            return known.clone();
        }
        let checked = async {
            let http = HttpState::new(url)?;
            http.check().await?;
            anyhow::Ok(http)
        };
        let head = checked.await.with_context(|| format!("the head at {url}")).map_err(|e| format!("{e:#}"));
        self.heads.insert(url.to_owned(), head.clone());
        head
    }
}

fn is_of_this_host(url: &str) -> bool {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    ["127.", "localhost", "[::1]"].iter().any(|host| rest.starts_with(host))
}

/// What happened, in one line.
fn told(lines: &[Line]) -> String {
    let many = |state: State| size(lines.iter().filter(|line| line.state == state).count());
    let sum = |of: fn(&Tally) -> u64| lines.iter().map(|line| of(&line.tally)).sum::<u64>();
    let done = many(State::Delivered);
    let mut parts = Vec::new();
    if done > 0 {
        parts.push(format!("{} points delivered", HumanCount(sum(|tally| tally.points))));
        let known = sum(|tally| tally.known_points);
        if known > 0 {
            parts.push(format!("{} already there", HumanCount(known)));
        }
        let refused = sum(|tally| tally.refused_points);
        if refused > 0 {
            parts.push(format!("{} not taken", HumanCount(refused)));
        }
    }
    for (state, words) in [(State::InUse, "in use"), (State::Left, "left")] {
        if many(state) > 0 {
            parts.push(format!("{} {words}", counted(many(state), "spool")));
        }
    }
    if parts.is_empty() {
        return "there is nothing to deliver".to_owned();
    }
    format!("{}: {}", counted(done, "spool"), parts.join(", "))
}

fn shown(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_delivered_is_told_in_a_line() {
        let line = |state, points, known_points| Line {
            dir: "/x".into(),
            state,
            run_id: None,
            head: None,
            tally: Tally { points, known_points, ..Tally::default() },
            problem: None,
        };
        assert_eq!(told(&[]), "there is nothing to deliver");
        assert_eq!(told(&[line(State::Gone, 0, 0)]), "there is nothing to deliver");
        let all = [line(State::Delivered, 120_000, 0), line(State::Delivered, 0, 2)];
        assert_eq!(told(&all), "2 spools: 120,000 points delivered, 2 already there");
        assert_eq!(told(&[line(State::Left, 0, 0)]), "0 spools: 1 spool left");
        let some = [line(State::Delivered, 7, 0), line(State::InUse, 0, 0), line(State::Left, 0, 0)];
        assert_eq!(told(&some), "1 spool: 7 points delivered, 1 spool in use, 1 spool left");
    }

    #[test]
    fn spools_are_found_by_themselves_or_by_name() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path().join("data");
        for dir in ["spool/a", "runs/r/spool", "runs/r/spool-x", "elsewhere/b"] {
            std::fs::create_dir_all(data.join(dir)).unwrap();
            std::fs::write(data.join(dir).join("spool.json"), "{}").unwrap();
        }
        std::fs::create_dir_all(data.join("spool/none")).unwrap();
        let found = |named: &[&str]| {
            let named: Vec<PathBuf> = named.iter().map(|dir| data.join(dir)).collect();
            let dirs = wanted(&named, &data).unwrap().dirs.into_iter();
            let dirs = dirs.map(|dir| dir.strip_prefix(&data).unwrap().display().to_string());
            dirs.collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), ["spool/a", "runs/r/spool", "runs/r/spool-x"]);
        assert_eq!(found(&["elsewhere"]), ["elsewhere/b"]);
        assert_eq!(found(&["elsewhere/b", "elsewhere/b"]), ["elsewhere/b"]);
        assert_eq!(found(&["spool/gone"]), ["spool/gone"], "delivered already");
        assert!(wanted(&[temp.path().join("no/such")], &data).is_err());
    }
}
