//! Whose exit is a rank's when a stop meets a wrapper: `sh -c 'python train.py; true'` dies of the signal at once, while
//! the program that it had started saves its work. Then the rank ends with its last child, and as that one does.
//! Knows nothing of signals that were sent or of time: it is told who has ended.

use std::collections::BTreeSet;

use rustix::process::Signal;

use super::tree::Process;
use crate::controller::process::Exit;

/// The processes of the ranks' groups when a stop began, and the ranks that wait for some of them.
#[derive(Debug, Default)]
pub(super) struct Heirs {
    signal: i32,
    seen: Vec<Process>,
    held: Vec<Held>,
}

/// A rank whose first process is dead.
#[derive(Debug)]
struct Held {
    leader: u32,
    last: Exit,
    awaited: BTreeSet<u32>,
}

/// How a rank ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RankEnd {
    /// The pid that it was started with.
    pub(super) leader: u32,
    /// The exit that counts.
    pub(super) exit: Exit,
}

/// What a process that has ended was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The first process of a rank.
    Leader,
    Other,
}

/// Whether SIGKILL was sent by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    Used,
    NotUsed,
}

impl Heirs {
    /// Of a stop by this signal. Only processes in a rank's own group can be heirs: a daemon has left it.
    pub(super) fn of(groups: &[u32], tree: &[Process], signal: i32) -> Self {
        let seen = tree.iter().filter(|process| groups.contains(&process.group)).copied().collect();
        Self { signal, seen, held: Vec::new() }
    }

    /// Takes note of an end; the answer is the end of a rank, if that was it.
    pub(super) fn ended(&mut self, exit: Exit, who: Ended, force: Force) -> Option<RankEnd> {
        let mut held = match who {
            Ended::Leader => Held { leader: exit.pid, last: exit, awaited: BTreeSet::new() },
            Ended::Other => {
                let at = self.held.iter().position(|held| held.awaited.contains(&exit.pid))?;
                let mut held = self.held.swap_remove(at);
                held.awaited.remove(&exit.pid);
                held.last = exit;
                held
            }
        };
        let is_ours =
            |signal| signal == self.signal || (signal == Signal::KILL.as_raw() && force == Force::Used);
        if exit.signal.is_some_and(is_ours) {
            held.awaited.extend(self.children_of(exit.pid));
        }
        if held.awaited.is_empty() {
            return Some(RankEnd { leader: held.leader, exit: held.last });
        }
        self.held.push(held);
        None
    }

    /// The ranks that still wait, as far as they are known to have ended.
    pub(super) fn give_up(&mut self) -> Vec<RankEnd> {
        let ends = self.held.drain(..).map(|held| RankEnd { leader: held.leader, exit: held.last });
        ends.collect()
    }

    /// Children that the dead process had and that came home to us, dead or alive: we will reap them. Of a child that is
    /// gone, which a dying parent may still have reaped, the children in turn.
    fn children_of(&self, parent: u32) -> BTreeSet<u32> {
        let this = std::process::id();
        let mut awaited = BTreeSet::new();
        let mut parents = vec![parent];
        let mut next = 0;
        while let Some(parent) = parents.get(next).copied() {
            next += 1;
            for child in self.seen.iter().filter(|child| child.parent == parent) {
                let now =
                    Process::read(child.pid).filter(|now| now.start_time_ticks == child.start_time_ticks);
                match now {
                    Some(now) if now.parent == this => {
                        awaited.insert(child.pid);
                    }
                    None if !parents.contains(&child.pid) => parents.push(child.pid),
                    // It came home to somebody else, who is told of its end.
                    Some(_) | None => {}
                }
            }
        }
        awaited
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    const TERM: i32 = 15;

    fn killed(pid: u32, signal: i32) -> Exit {
        Exit { pid, code: None, signal: Some(signal) }
    }

    fn sleeping() -> Child {
        Command::new("sleep").arg("100").spawn().unwrap()
    }

    /// As it was when the leader, pid 1 (which is none of ours), lived.
    fn seen(child: &Child, group: u32) -> Process {
        Process { parent: 1, group, ..Process::read(child.id()).unwrap() }
    }

    #[test]
    fn a_leader_that_ends_by_itself_is_the_rank_whoever_lives_on() {
        let mut child = sleeping();
        let mut heirs = Heirs::of(&[1], &[seen(&child, 1)], TERM);
        for exit in [Exit { pid: 1, code: Some(143), signal: None }, killed(1, 11), killed(1, 9)] {
            let end = heirs.ended(exit, Ended::Leader, Force::NotUsed);
            assert_eq!(end, Some(RankEnd { leader: 1, exit }));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_last_child_of_a_leader_that_the_stop_killed_is_the_rank() {
        let mut children = [sleeping(), sleeping(), sleeping()];
        let mut tree: Vec<Process> = children.iter().map(|child| seen(child, 1)).collect();
        tree[2].group = 2;
        let mut heirs = Heirs::of(&[1], &tree, TERM);
        assert_eq!(heirs.ended(killed(1, TERM), Ended::Leader, Force::NotUsed), None);
        let first = Exit { pid: tree[0].pid, code: Some(7), signal: None };
        assert_eq!(heirs.ended(first, Ended::Other, Force::NotUsed), None);
        assert_eq!(heirs.ended(killed(tree[2].pid, TERM), Ended::Other, Force::NotUsed), None, "a daemon");
        let exit = killed(tree[1].pid, 9);
        assert_eq!(heirs.ended(exit, Ended::Other, Force::Used), Some(RankEnd { leader: 1, exit }));
        assert_eq!(heirs.give_up(), []);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn nobody_waits_for_a_process_that_is_gone_but_for_its_children() {
        let (mut child, mut grandchild) = (sleeping(), sleeping());
        let gone = seen(&child, 1);
        let orphan = Process { parent: gone.pid, ..seen(&grandchild, 1) };
        child.kill().unwrap();
        child.wait().unwrap();
        let exit = killed(1, TERM);
        let end = Heirs::of(&[1], &[gone], TERM).ended(exit, Ended::Leader, Force::NotUsed);
        assert_eq!(end, Some(RankEnd { leader: 1, exit }));
        let mut heirs = Heirs::of(&[1], &[gone, orphan], TERM);
        assert_eq!(heirs.ended(exit, Ended::Leader, Force::NotUsed), None);
        assert_eq!(heirs.give_up(), [RankEnd { leader: 1, exit }]);
        grandchild.kill().unwrap();
        grandchild.wait().unwrap();
    }
}
