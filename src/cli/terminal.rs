//! Writing to the terminal of a run: one thread does it, so that a terminal that takes nothing (Ctrl-S, a pipe that nobody
//! reads) holds up no task, and one that went away ends nothing.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// What waits to be written; beyond that, whoever has more waits, and logs wait in their files.
const WAITING: usize = 64;
/// A terminal that has not taken the last line by then is left alone.
const LAST: Duration = Duration::from_secs(2);

/// What the terminal shows around logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    /// What was done, and progress.
    All,
    /// Only what went wrong.
    Errors,
}

/// Where logs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogsTo {
    Stdout,
    /// Stdout is kept for JSON.
    Stderr,
}

/// Writes to the terminal. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Terminal {
    to_writer: mpsc::Sender<Said>,
    shows: Shows,
    has_live_line: bool,
}

#[derive(Debug)]
enum Said {
    Line(String),
    Live(String),
    Log(Vec<u8>),
    /// Nothing is written after this.
    Last(Option<String>, oneshot::Sender<()>),
}

impl Terminal {
    /// A terminal, with a live line if it is one.
    ///
    /// # Errors
    /// When there can be no thread for it.
    pub(super) fn open(shows: Shows, logs_to: LogsTo) -> std::io::Result<Self> {
        let live = shows == Shows::All && logs_to == LogsTo::Stdout && std::io::stderr().is_terminal();
        let bar = live.then(live_line);
        let (to_writer, said) = mpsc::channel(WAITING);
        // Of its own, and not one of the runtime's: those are waited for when the program ends.
        std::thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(move || write(said, bar.as_ref(), logs_to))?;
        Ok(Self { to_writer, shows, has_live_line: live })
    }

    pub(super) fn has_live_line(&self) -> bool {
        self.has_live_line
    }

    /// A line about the run, on stderr.
    pub(super) async fn say(&self, text: String) {
        if self.shows == Shows::All {
            self.pass_on(Said::Line(text)).await;
        }
    }

    /// The live line from now on.
    pub(super) async fn live(&self, text: String) {
        self.pass_on(Said::Live(text)).await;
    }

    /// Bytes of a log.
    pub(super) async fn log(&self, bytes: Vec<u8>) {
        self.pass_on(Said::Log(bytes)).await;
    }

    /// The last line, said also if only errors are shown; none if there is nothing to say.
    pub(super) async fn close(self, text: Option<String>) {
        let (written, is_written) = oneshot::channel();
        let last = async {
            self.pass_on(Said::Last(text, written)).await;
            // An error means that it was closed before.
            let _ = is_written.await;
        };
        // It is not said that this failed: there is nowhere to say it.
        let _ = timeout(LAST, last).await;
    }

    async fn pass_on(&self, said: Said) {
        // An error means that it was closed: nobody looks any more.
        let _ = self.to_writer.send(said).await;
    }
}

fn live_line() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {wide_msg}") {
        bar.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn write(mut said: mpsc::Receiver<Said>, bar: Option<&ProgressBar>, logs_to: LogsTo) {
    while let Some(next) = said.blocking_recv() {
        match next {
            Said::Line(text) => around(bar, || say(&text)),
            Said::Live(text) => {
                if let Some(bar) = bar {
                    bar.set_message(text);
                }
            }
            Said::Log(bytes) => around(bar, || {
                // A reader that went away ends nothing.
                let _ = match logs_to {
                    LogsTo::Stderr => std::io::stderr().lock().write_all(&bytes),
                    LogsTo::Stdout => {
                        let mut out = std::io::stdout().lock();
                        out.write_all(&bytes).and_then(|()| out.flush())
                    }
                };
            }),
            Said::Last(text, written) => {
                said.close();
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                if let Some(text) = text {
                    say(&text);
                }
                // Whoever waited has left.
                let _ = written.send(());
                return;
            }
        }
    }
}

fn around(bar: Option<&ProgressBar>, write: impl FnOnce()) {
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// A line on stderr, if anybody is there to read it. Not `eprintln!`, which panics when nobody is.
pub(super) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
