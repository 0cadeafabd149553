//! The end of an attempt's tree: ask, wait for all of it, kill what is left, and account for it.
//! A state that the agent's loop steps; it does not wait itself.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cgroup::Cgroup;
use super::heirs::{Ended, Force, Heirs, RankEnd};
use super::tree::{Process, descendants};
use crate::controller::process::{self, Exit};
use crate::model::StopReport;

/// What processes that a finished group left behind get between the stop signal and SIGKILL.
pub(super) const LEFTOVER_GRACE: Duration = Duration::from_secs(2);
/// How long SIGKILL may take, a disk that does not answer for instance, before the agent gives up.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// Between two looks at what is left while killing.
const KILL_ROUND: Duration = Duration::from_millis(10);
/// Between two looks for processes that were not asked yet.
const ASK_ROUND: Duration = Duration::from_millis(100);

/// An end under way.
#[derive(Debug)]
pub(super) struct Ending {
    signal: i32,
    kill_at: Instant,
    /// Set by the first SIGKILL round.
    give_up_at: Option<Instant>,
    next_look: Instant,
    /// Process groups of the ranks: they were asked as groups.
    groups: Vec<u32>,
    /// Processes outside these groups that were asked one by one.
    asked: BTreeSet<u32>,
    seen: BTreeSet<u32>,
    heirs: Heirs,
    was_forced: bool,
}

impl Ending {
    /// Sends the stop signal to the groups.
    pub(super) fn begin(groups: Vec<u32>, signal: i32, grace: Duration) -> Self {
        let now = Instant::now();
        let tree = living();
        let heirs = Heirs::of(&groups, &tree, signal);
        signal_groups(&groups, &tree, signal);
        // A stopped process takes no signal but SIGKILL until it is continued.
        signal_groups(&groups, &tree, Signal::CONT.as_raw());
        Self {
            signal,
            kill_at: now + grace,
            give_up_at: None,
            next_look: now,
            groups,
            asked: BTreeSet::new(),
            seen: tree.iter().map(|process| process.pid).collect(),
            heirs,
            was_forced: false,
        }
    }

    /// An end by SIGKILL at once.
    pub(super) fn by_force() -> Self {
        let now = Instant::now();
        Self {
            signal: Signal::KILL.as_raw(),
            kill_at: now,
            give_up_at: None,
            next_look: now,
            groups: Vec::new(),
            asked: BTreeSet::new(),
            seen: BTreeSet::new(),
            heirs: Heirs::default(),
            was_forced: false,
        }
    }

    /// Brings the SIGKILL forward; it is never put off.
    pub(super) fn hurry(&mut self, grace: Duration) {
        self.kill_at = self.kill_at.min(Instant::now() + grace);
        self.next_look = Instant::now();
    }

    /// Does what is due now; only while something is left. `ranks_run` says whether any rank does.
    pub(super) fn step(&mut self, ranks_run: bool, cgroup: Option<&Cgroup>) {
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        if now >= self.kill_at {
            self.give_up_at.get_or_insert(now + KILL_LIMIT);
            self.next_look = now + KILL_ROUND;
            let tree = living();
            // Something is there, even if it forks faster than the look at /proc: else the end had been reported.
            self.was_forced = true;
            self.seen.extend(tree.iter().map(|process| process.pid));
            if let Some(cgroup) = cgroup {
                cgroup.kill();
            }
            for process in tree {
                process.send(Signal::KILL.as_raw());
            }
            return;
        }
        self.next_look = (now + ASK_ROUND).min(self.kill_at);
        // While a rank runs, what it has started is its own to end. After that, those outside its group were not
        // asked yet. Those inside were, and a second signal means "hurry" to many programs.
        if !ranks_run {
            for process in living() {
                self.seen.insert(process.pid);
                if !self.groups.contains(&process.group) && self.asked.insert(process.pid) {
                    process.send(self.signal);
                    process.send(Signal::CONT.as_raw());
                }
            }
        }
    }

    /// Takes note of the end of a process; the answer is the end of a rank, if that was it.
    pub(super) fn ended(&mut self, exit: Exit, who: Ended) -> Option<RankEnd> {
        self.heirs.ended(exit, who, self.force())
    }

    /// The ranks whose ends were held back to the last; nothing more will be heard of them.
    pub(super) fn give_up(&mut self) -> Vec<RankEnd> {
        self.heirs.give_up()
    }

    pub(super) fn force(&self) -> Force {
        if self.was_forced { Force::Used } else { Force::NotUsed }
    }

    /// When [`Ending::step`] has something to do again.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// The report, once nothing is left or the time to kill is over.
    pub(super) fn report(&self, is_childless: bool) -> Option<StopReport> {
        let is_late = self.give_up_at.is_some_and(|limit| Instant::now() >= limit);
        if !is_childless && !is_late {
            return None;
        }
        let left: Vec<u32> =
            if is_childless { Vec::new() } else { living().iter().map(|process| process.pid).collect() };
        let processes_ended = self.seen.iter().copied().filter(|pid| !left.contains(pid)).collect();
        Some(StopReport { processes_ended, forced: self.was_forced, left })
    }
}

/// Sends a signal to those process groups that have a process of the tree. The number of a group that is empty may
/// have gone to a stranger.
pub(super) fn signal_groups(groups: &[u32], tree: &[Process], signal: i32) {
    for group in groups {
        if tree.iter().any(|process| process.group == *group) {
            // It can have ended since the look.
            let _ = process::signal_group(*group, signal);
        }
    }
}

/// The living processes below the agent.
pub(super) fn living() -> Vec<Process> {
    let mut tree = descendants(std::process::id(), &[]);
    tree.retain(|process| !process.is_dead);
    tree
}
