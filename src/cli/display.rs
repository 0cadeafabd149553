//! What a training run shows on the terminal: one live line of progress, or plain lines elsewhere, and the logs.

use std::{
    collections::BTreeSet,
    io::{IsTerminal, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    options::{Global, Run, TailWhich},
    output::{duration, number, plain},
};
use crate::{
    base::{RunId, Tasks, tail::Tail},
    controller::{ControllerView, TrainController, TrainResult, group::WorkerGroup},
    model::ControllerState,
    state::DataDir,
};

/// Where there is no terminal, progress is said this often.
const PLAIN: Duration = Duration::from_secs(10);

/// Shows a run.
pub(super) struct Display {
    printer: Printer,
}

/// Writes lines around the live line. Clones share it.
#[derive(Clone)]
struct Printer {
    bar: Option<ProgressBar>,
    quiet: bool,
    /// Logs go to stdout, unless that is kept for JSON.
    logs_to_stderr: bool,
}

impl Display {
    /// Begins to show a run until the tasks are stopped.
    pub(super) fn start<G: WorkerGroup>(
        global: &Global,
        args: &Run,
        controller: &TrainController<G>,
        url: &str,
        data_dir: &DataDir,
        tasks: &Tasks,
    ) -> Self {
        let live = !global.quiet && !global.json && std::io::stderr().is_terminal();
        let bar = live.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {wide_msg}") {
                bar.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let printer = Printer { bar, quiet: global.quiet, logs_to_stderr: global.json };
        let run = controller.run_id();
        if !global.quiet && global.head.is_none() {
            eprintln!("TrainHead is at {url}");
        }
        printer.say(&format!("run {} · {url}/runs/{run}", controller.run_name()));
        let begun = Instant::now();
        let view = controller.handle().view();
        drop(tasks.spawn(show(view.clone(), printer.clone(), begun, tasks.stopping())));
        if args.tail != TailWhich::None {
            let logs = Logs {
                printer: printer.clone(),
                data_dir: data_dir.clone(),
                run: run.clone(),
                which: args.tail,
            };
            drop(tasks.spawn(logs.follow(view, tasks.clone())));
        }
        Self { printer }
    }

    /// Says how the run went.
    pub(super) fn finish(self, result: &TrainResult) {
        if let Some(bar) = &self.printer.bar {
            bar.finish_and_clear();
        }
        let metrics: String =
            result.last_metrics.iter().map(|(key, value)| format!(" · {key} {}", number(value.0))).collect();
        let attempts = if result.num_attempts > 1 {
            format!(", {} attempts", result.num_attempts)
        } else {
            String::new()
        };
        let detail = result.status_detail.as_ref().map(|d| format!(": {}", plain(d))).unwrap_or_default();
        let took = duration(result.took);
        let text = format!("{} after {took}{attempts}{detail}{metrics}", result.run_status);
        if result.exit_code == 0 {
            self.printer.say(&text);
        } else {
            // Said even if quiet: it went wrong.
            eprintln!("trainhead: {text}");
        }
    }
}

impl Printer {
    fn say(&self, text: &str) {
        if !self.quiet {
            self.around_bar(|| eprintln!("trainhead: {text}"));
        }
    }

    fn log(&self, bytes: &[u8]) {
        self.around_bar(|| {
            // A reader that went away ends nothing.
            let _ = if self.logs_to_stderr {
                std::io::stderr().lock().write_all(bytes)
            } else {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            };
        });
    }

    fn around_bar(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

async fn show(
    mut view: watch::Receiver<ControllerView>,
    printer: Printer,
    begun: Instant,
    stop: CancellationToken,
) {
    let mut said: Option<(ControllerState, Option<String>, u32)> = None;
    let mut said_at = Instant::now();
    loop {
        let now = view.borrow_and_update().clone();
        let text = line(&now, begun);
        match &printer.bar {
            Some(bar) => bar.set_message(text),
            None => {
                let news = Some((now.state, now.detail.clone(), now.attempt));
                let changed = said != news;
                if changed || (said_at.elapsed() >= PLAIN && now.last.step.is_some()) {
                    printer.say(&text);
                    (said, said_at) = (news, Instant::now());
                }
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
    parts.push(duration(begun.elapsed()));
    parts.join(" · ")
}

/// Follows the logs of each attempt.
struct Logs {
    printer: Printer,
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
                    drop(tasks.spawn(follow_one(path, prefix, self.printer.clone(), stop.clone())));
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
async fn follow_one(path: PathBuf, prefix: String, printer: Printer, stop: CancellationToken) {
    let mut tail = Tail::new(&path, 0);
    let mut open = Vec::new();
    loop {
        let ending = stop.is_cancelled();
        match tail.available().await {
            Ok(bytes) if !bytes.is_empty() => {
                open.extend_from_slice(&bytes);
                print_lines(&mut open, &prefix, &printer);
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
        print_lines(&mut open, &prefix, &printer);
    }
}

/// A line that never ends is printed in pieces of this size.
const LONGEST: usize = 64 * 1024;

fn print_lines(open: &mut Vec<u8>, prefix: &str, printer: &Printer) {
    let end = match memchr::memrchr(b'\n', open) {
        Some(at) => at + 1,
        None if open.len() >= LONGEST => open.len(),
        None => return,
    };
    let lines: Vec<u8> = open.drain(..end).collect();
    if prefix.is_empty() {
        printer.log(&lines);
    } else {
        let mut out = Vec::with_capacity(lines.len() + 64);
        for line in lines.split_inclusive(|b| *b == b'\n') {
            out.extend_from_slice(prefix.as_bytes());
            out.extend_from_slice(line);
        }
        printer.log(&out);
    }
}
