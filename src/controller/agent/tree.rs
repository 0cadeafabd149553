//! The processes below one process, read from /proc, and their end by force.
//! A walk is a snapshot: processes come and go meanwhile, so whoever needs nothing left looks again.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::controller::process;

/// Longest wait for one round of killed processes before the next look.
const ROUND: Duration = Duration::from_millis(50);

/// A line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    /// It has ended and only waits to be reaped.
    pub(super) is_dead: bool,
    pub(super) start_time_ticks: u64,
}

impl Process {
    pub(super) fn read(pid: u32) -> Option<Self> {
        Self::parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(pid: u32, stat: &[u8]) -> Option<Self> {
        // The program's name (field 2) holds any bytes: count from the last parenthesis. Field 3 follows it.
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let threads: u32 = fields.nth(14)?.parse().ok()?;
        let start_time_ticks = fields.nth(1)?.parse().ok()?;
        // A process whose first thread has ended looks dead while its other threads run on.
        let is_dead = matches!(state, "Z" | "X" | "x") && threads <= 1;
        Some(Self { pid, parent, group, is_dead, start_time_ticks })
    }

    /// Sends a signal if the process is still this one. Whether it arrived is for the next look to say.
    pub(super) fn send(&self, signal: i32) {
        let Ok(held) = process::hold(self.pid) else { return };
        if Self::read(self.pid).is_some_and(|now| now.start_time_ticks == self.start_time_ticks) {
            // An error means that it has ended meanwhile, or is not ours to signal, which the report will show.
            let _ = process::signal_held(&held, signal);
        }
    }
}

/// All descendants of `root`, parents before their children, without those in `except` and what is below them.
pub(super) fn descendants(root: u32, except: &[u32]) -> Vec<Process> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(process) = Process::read(pid).filter(|process| !except.contains(&process.pid)) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(&process.pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// What [`sweep_orphans`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Processes that were killed, or had ended and were reaped.
    pub processes_ended: Vec<u32>,
    /// Processes that were still there when the time was over.
    pub left: Vec<u32>,
}

/// Kills and reaps all descendants of this process, except those named and what is below them.
///
/// For a controller whose agent was killed: what the workers had started comes home to it, if it is a subreaper
/// ([`process::become_subreaper`]). It must name every child that is not an orphan: other agents, and whatever else
/// it has started and waits for. It blocks for at most about `within`.
pub fn sweep_orphans(except: &[u32], within: Duration) -> Swept {
    let this = std::process::id();
    let deadline = Instant::now() + within;
    let mut seen = BTreeSet::new();
    let mut empty_looks = 0;
    loop {
        let found = descendants(this, except);
        // A process that changed its parent during the walk is missed by it, but not by the next one.
        empty_looks = if found.is_empty() { empty_looks + 1 } else { 0 };
        let left: Vec<u32> = found.iter().map(|process| process.pid).collect();
        if empty_looks == 2 || Instant::now() >= deadline {
            let processes_ended = seen.into_iter().filter(|pid| !left.contains(pid)).collect();
            return Swept { processes_ended, left };
        }
        seen.extend(left);
        for process in found.iter().filter(|process| !process.is_dead) {
            process.send(Signal::KILL.as_raw());
        }
        for child in found.iter().filter(|process| process.parent == this) {
            if let Ok(held) = process::hold(child.pid) {
                process::await_end(&held, ROUND.min(deadline.saturating_duration_since(Instant::now())));
            }
            process::reap_one(child.pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_line_of_the_process_table_is_read_whatever_its_name() {
        let stat = b"7 (a) \xff (c) Z 3 5 6 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9";
        let expected = Process { pid: 7, parent: 3, group: 5, is_dead: true, start_time_ticks: 4242 };
        assert_eq!(Process::parse(7, stat), Some(expected));
        let stat = b"7 (a) Z 3 5 6 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 4 0 4242 9 9";
        assert_eq!(
            Process::parse(7, stat),
            Some(Process { is_dead: false, ..expected }),
            "three threads run on"
        );
        assert_eq!(Process::parse(7, b"7 (a) S 1"), None);
    }

    #[test]
    fn grandchildren_are_found_and_exceptions_spare_what_is_below_them() {
        let mut child = Command::new("sh").args(["-c", "sleep 100 & wait"]).spawn().unwrap();
        let this = std::process::id();
        let below = |except: &[u32]| -> Vec<Process> {
            let all = descendants(this, except);
            all.into_iter().filter(|process| process.group == Process::read(this).unwrap().group).collect()
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        let grandchild = loop {
            let found = below(&[]);
            if let Some(process) = found.iter().find(|process| process.parent == child.id()) {
                break *process;
            }
            assert!(Instant::now() < deadline, "{found:?}");
        };
        let spared = below(&[child.id()]);
        assert!(
            !spared.iter().any(|process| [child.id(), grandchild.pid].contains(&process.pid)),
            "{spared:?}"
        );
        grandchild.send(Signal::KILL.as_raw());
        child.wait().unwrap();
    }

    #[test]
    fn a_pid_that_was_used_again_is_not_signalled() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let mut process = Process::read(child.id()).unwrap();
        process.start_time_ticks -= 1;
        process.send(Signal::KILL.as_raw());
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
