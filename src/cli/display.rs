//! What a training run shows on the terminal: one live line of progress, or plain lines elsewhere, and the logs.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    options::{Global, Run, TailWhich},
    output::{duration, number, plain},
    terminal::{LogsTo, Shows, Terminal},
};
use crate::{
    base::{RunId, Tasks, number::bytes_in_words, tail::Tail},
    controller::{ControllerView, TrainController, TrainResult, group::WorkerGroup},
    model::ControllerState,
    state::DataDir,
};

/// Where there is no terminal, progress is said this often.
const PLAIN: Duration = Duration::from_secs(10);

/// Shows a run.
pub(super) struct Display {
    terminal: Terminal,
    shows: Shows,
}

impl Display {
    /// Begins to show a run until the tasks are stopped.
    ///
    /// # Errors
    /// When there can be no thread for it.
    pub(super) async fn start<G: WorkerGroup>(
        global: &Global,
        args: &Run,
        controller: &TrainController<G>,
        url: &str,
        data_dir: &DataDir,
        tasks: &Tasks,
    ) -> std::io::Result<Self> {
        let shows = if global.quiet { Shows::Errors } else { Shows::All };
        let logs_to = if global.json { LogsTo::Stderr } else { LogsTo::Stdout };
        let terminal = Terminal::open(shows, logs_to)?;
        let run = controller.run_id();
        if global.head.is_none() {
            terminal.say(format!("TrainHead is at {url}")).await;
        }
        terminal.say(format!("trainhead: run {} · {url}/runs/{run}", controller.run_name())).await;
        let begun = Instant::now();
        let view = controller.handle().view();
        drop(tasks.spawn(show(view.clone(), terminal.clone(), begun, tasks.stopping())));
        if args.tail != TailWhich::None {
            let logs = Logs {
                terminal: terminal.clone(),
                data_dir: data_dir.clone(),
                run: run.clone(),
                which: args.tail,
            };
            drop(tasks.spawn(logs.follow(view, tasks.clone())));
        }
        Ok(Self { terminal, shows })
    }

    /// Says how the run went.
    pub(super) async fn finish(self, result: &TrainResult) {
        let metrics: String =
            result.last_metrics.iter().map(|(key, value)| format!(" · {key} {}", number(value.0))).collect();
        let attempts = if result.num_attempts > 1 {
            format!(", {} attempts", result.num_attempts)
        } else {
            String::new()
        };
        let detail = result.status_detail.as_ref().map(|d| format!(": {}", plain(d))).unwrap_or_default();
        let took = duration(result.took);
        let text = format!("trainhead: {} after {took}{attempts}{detail}{metrics}", result.run_status);
        // Said even if quiet when it went wrong.
        let is_said = result.exit_code != 0 || self.shows == Shows::All;
        self.terminal.close(is_said.then_some(text)).await;
    }
}

async fn show(
    mut view: watch::Receiver<ControllerView>,
    terminal: Terminal,
    begun: Instant,
    stop: CancellationToken,
) {
    let mut said: Option<(ControllerState, Option<String>, u32)> = None;
    let mut said_at = Instant::now();
    loop {
        let now = view.borrow_and_update().clone();
        let text = line(&now, begun);
        if terminal.has_live_line() {
            terminal.live(text).await;
        } else {
            let news = Some((now.state, now.detail.clone(), now.attempt));
            let changed = said != news;
            if changed || (said_at.elapsed() >= PLAIN && now.last.step.is_some()) {
                terminal.say(format!("trainhead: {text}")).await;
                (said, said_at) = (news, Instant::now());
            }
        }
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
    }
}

fn line(view: &ControllerView, begun: Instant) -> String {
    let state = view.state.as_str().to_lowercase().replace('_', " ");
    let mut parts = vec![match &view.detail {
        Some(detail) => format!("{state}: {}", plain(detail)),
        None => state,
    }];
    if view.attempt > 0 {
        parts.push(format!("attempt {}", view.attempt));
    }
    if view.workers > 0 {
        parts.push(format!("{}/{} workers", view.workers_alive, view.workers));
    }
    if let Some(step) = view.last.step {
        parts.push(format!("step {step}"));
    }
    if let Some(rate) = view.last.rate {
        parts.push(format!("{} steps/s", number(rate)));
    }
    parts.extend(view.last.metrics.iter().take(4).map(|(key, value)| format!("{key} {}", number(value.0))));
    if let Some((done, all)) = view.moving {
        parts.push(format!("moving {} of {}", bytes_in_words(done), bytes_in_words(all)));
    } else if let Some(checkpoint) = view.checkpoint {
        parts.push(format!("checkpoint of step {}", checkpoint.step));
    }
    parts.push(duration(begun.elapsed()));
    parts.join(" · ")
}

/// Follows the logs of each attempt.
struct Logs {
    terminal: Terminal,
    data_dir: DataDir,
    run: RunId,
    which: TailWhich,
}

impl Logs {
    async fn follow(self, mut view: watch::Receiver<ControllerView>, tasks: Tasks) {
        let mut followed = BTreeSet::new();
        let stop = tasks.stopping();
        loop {
            let (attempt, workers) = {
                let now = view.borrow_and_update();
                (now.attempt, now.workers)
            };
            if workers > 0 && followed.insert(attempt) {
                let ranks =
                    if self.which == TailWhich::All { u32::try_from(workers).unwrap_or(1) } else { 1 };
                for rank in 0..ranks {
                    let path = self.data_dir.root().join(DataDir::log(&self.run, attempt, rank));
                    let prefix =
                        if self.which == TailWhich::All { format!("[rank {rank}] ") } else { String::new() };
                    drop(tasks.spawn(follow_one(path, prefix, self.terminal.clone(), stop.clone())));
                }
            }
            tokio::select! {
                changed = view.changed() => if changed.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
    }
}

/// Prints whole lines of one log as they come, and at the end what is left.
async fn follow_one(path: PathBuf, prefix: String, terminal: Terminal, stop: CancellationToken) {
    let mut tail = Tail::new(&path, 0);
    let mut open = Vec::new();
    loop {
        let ending = stop.is_cancelled();
        match tail.available().await {
            Ok(bytes) if !bytes.is_empty() => {
                open.extend_from_slice(&bytes);
                print_lines(&mut open, &prefix, &terminal).await;
                continue;
            }
            Ok(_) if !ending => {}
            Ok(_) | Err(_) => break,
        }
        tokio::select! {
            _ = tail.changed() => {}
            () = stop.cancelled() => {}
        }
    }
    if !open.is_empty() {
        open.push(b'\n');
        print_lines(&mut open, &prefix, &terminal).await;
    }
}

/// A line that never ends is printed in pieces of this size.
const LONGEST: usize = 64 * 1024;

async fn print_lines(open: &mut Vec<u8>, prefix: &str, terminal: &Terminal) {
    let end = match memchr::memrchr(b'\n', open) {
        Some(at) => at + 1,
        None if open.len() >= LONGEST => open.len(),
        None => return,
    };
    let lines: Vec<u8> = open.drain(..end).collect();
    if prefix.is_empty() {
        terminal.log(lines).await;
    } else {
        let mut out = Vec::with_capacity(lines.len() + 64);
        for line in lines.split_inclusive(|b| *b == b'\n') {
            out.extend_from_slice(prefix.as_bytes());
            out.extend_from_slice(line);
        }
        terminal.log(out).await;
    }
}
