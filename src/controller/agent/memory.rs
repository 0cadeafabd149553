//! Evidence that the kernel killed a worker for want of memory: the counter of the workers' memory group (cgroup v1 or
//! v2), and the kernel's log where it may be read. Looked at only when a rank has ended badly; sets no limit itself.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::process::Signal;

use super::cgroup::{Group, Hierarchy};
use super::protocol::OutOfMemory;
use crate::controller::process::Exit;

/// So a shell reports that what it ran was killed.
const KILLED_CODE: i32 = 128 + Signal::KILL.as_raw();
/// A limit from here on is none: version 1 writes the largest number of pages.
const NO_LIMIT: u64 = 1 << 62;
/// Longest record of the kernel's log.
const RECORD_BYTES: usize = 8 << 10;
/// Most records read for one exit; each takes about a microsecond.
const RECORDS: usize = 4096;
/// Most killed processes remembered.
const NAMES: usize = 1024;
/// The number of the first process namespace: only there the kernel's log means the same pids as we.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether, and how, the ranks are being ended when one exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    No,
    Asked,
    /// We send SIGKILL ourselves.
    Forced,
}

/// What is watched from the start of the workers to the end of the last.
#[derive(Debug, Default)]
pub(super) struct MemoryWatch {
    group: Option<MemoryGroup>,
    kernel_log: Option<File>,
    kills_before: u64,
    /// Of the kills since then, those of which a rank was the victim.
    claimed: u64,
    /// Whom the kernel's log named, and where memory was short.
    named: BTreeMap<u32, Shortage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shortage {
    Group,
    Host,
}

impl MemoryWatch {
    /// To be called before the workers start, which will be in the memory group of this process.
    pub(super) fn begin() -> Self {
        let group = MemoryGroup::own();
        let kills_before = group.as_ref().and_then(MemoryGroup::kills).unwrap_or(0);
        Self { group, kernel_log: kernel_log(), kills_before, ..Self::default() }
    }

    /// What there is to say about a rank that ended like this.
    pub(super) fn evidence(&mut self, exit: &Exit, stop: Stop) -> Option<OutOfMemory> {
        if exit.code == Some(0) {
            return None;
        }
        let was_killed = exit.signal == Some(Signal::KILL.as_raw()) || exit.code == Some(KILLED_CODE);
        // The counter is raised before the signal is sent; the log may come a moment after it.
        let kills = self.group.as_ref().and_then(MemoryGroup::kills).unwrap_or(0);
        let unclaimed = kills.saturating_sub(self.kills_before).saturating_sub(self.claimed);
        if unclaimed == 0 && !was_killed {
            return None;
        }
        self.read_kernel_log();
        let shortage = self.named.remove(&exit.pid);
        let killed_this = shortage.is_some() || (unclaimed > 0 && was_killed && stop != Stop::Forced);
        if killed_this && unclaimed > 0 {
            self.claimed += 1;
        }
        // Others of the group tell something only of a rank that ended for no reason of ours.
        let is_beside = unclaimed > 0 && stop == Stop::No;
        (killed_this || is_beside).then(|| self.tell(shortage.unwrap_or(Shortage::Group), killed_this))
    }

    fn tell(&self, shortage: Shortage, killed_this: bool) -> OutOfMemory {
        let limit = match (shortage, &self.group) {
            (Shortage::Group, Some(group)) => group.limit(),
            (Shortage::Group, None) | (Shortage::Host, _) => None,
        };
        match limit {
            Some((bytes, path)) => {
                OutOfMemory { limit_bytes: Some(bytes), place: path.display().to_string(), killed_this }
            }
            None => OutOfMemory { limit_bytes: None, place: "this host".to_owned(), killed_this },
        }
    }

    fn read_kernel_log(&mut self) {
        let Some(log) = &self.kernel_log else { return };
        let mut record = vec![0; RECORD_BYTES];
        for _ in 0..RECORDS {
            match rustix::io::read(log, &mut record) {
                Ok(size) if size > 0 => {
                    let text = String::from_utf8_lossy(record.get(..size).unwrap_or_default());
                    if let Some((pid, shortage)) = victim(&text)
                        && self.named.len() < NAMES
                    {
                        self.named.insert(pid, shortage);
                    }
                }
                // Records that were overwritten before we read them.
                Err(Errno::PIPE | Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

/// The kernel's log from its end on, if we may read it and its pids are ours.
fn kernel_log() -> Option<File> {
    if fs::read_link("/proc/self/ns/pid").ok()? != Path::new(FIRST_PID_NAMESPACE) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let log = rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok()?;
    rustix::fs::seek(&log, SeekFrom::End(0)).ok()?;
    Some(log.into())
}

/// Whom a record says the kernel has killed: `6,339,5140900,-;Memory cgroup out of memory: Killed process 7 (x) …`.
fn victim(record: &str) -> Option<(u32, Shortage)> {
    let (prefix, text) = record.split_once(';')?;
    // The lowest three bits are the level; what has more was written by a program.
    let written_by: u32 = prefix.split(',').next()?.parse().ok()?;
    if written_by >= 8 {
        return None;
    }
    let (before, pid) = text.split_once("Killed process ")?;
    let pid = pid.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    let is_host = before.contains("Out of memory");
    Some((pid, if is_host { Shortage::Host } else { Shortage::Group }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The file with the counter of kills. Both versions write it as `oom_kill 3` in a line.
    const fn events(self) -> &'static str {
        match self {
            Self::One => "memory.oom_control",
            Self::Two => "memory.events",
        }
    }

    const fn limit(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }
}

/// The control group that accounts for the memory of this process.
#[derive(Debug, PartialEq, Eq)]
struct MemoryGroup {
    version: Version,
    group: Group,
}

impl MemoryGroup {
    fn own() -> Option<Self> {
        let found = |version, hierarchy| Self::nearest(version, Group::own(hierarchy)?);
        found(Version::Two, Hierarchy::Unified).or_else(|| found(Version::One, Hierarchy::Memory))
    }

    /// A group that does not account for memory leaves that to the next above it that does.
    fn nearest(version: Version, group: Group) -> Option<Self> {
        let Group { mount, path } = group;
        let up = path.ancestors().take_while(|path| path.starts_with(&mount));
        let nearest = up.into_iter().find(|path| path.join(version.events()).exists())?.to_owned();
        Some(Self { version, group: Group { mount, path: nearest } })
    }

    /// How many of its processes were killed for want of memory.
    fn kills(&self) -> Option<u64> {
        kills_in(&fs::read_to_string(self.group.path.join(self.version.events())).ok()?)
    }

    /// The smallest limit of the group and those above it, and whose it is.
    fn limit(&self) -> Option<(u64, PathBuf)> {
        let up = self.group.path.ancestors().take_while(|path| path.starts_with(&self.group.mount));
        let limits = up.filter_map(|path| {
            let text = fs::read_to_string(path.join(self.version.limit())).ok()?;
            Some((limit_in(&text)?, path.to_owned()))
        });
        limits.min_by_key(|(limit, _)| *limit)
    }
}

fn kills_in(events: &str) -> Option<u64> {
    events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Version 2 writes `max` where there is none.
fn limit_in(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KILLED: Exit = Exit { pid: 7, code: None, signal: Some(9) };
    const FAILED: Exit = Exit { pid: 8, code: Some(1), signal: None };

    #[test]
    fn both_versions_are_read() {
        assert_eq!(kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(kills_in("low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(kills_in("oom_kill_disable 0\nunder_oom 0\n"), None, "before Linux 4.13");
        assert_eq!(limit_in("536870912\n"), Some(512 << 20));
        assert_eq!(limit_in("max\n"), None);
        assert_eq!(limit_in("9223372036854771712\n"), None);
    }

    #[test]
    fn the_kernel_s_log_names_its_victims_and_nobody_else_can() {
        let group =
            "3,340,5140900,-;Memory cgroup out of memory: Killed process 7 (tail) total-vm:1kB, anon-rss:1kB";
        assert_eq!(victim(group), Some((7, Shortage::Group)));
        assert_eq!(
            victim("3,340,1,-;Out of memory: Killed process 7 (x) total-vm"),
            Some((7, Shortage::Host))
        );
        assert_eq!(victim("12,340,1,-;Out of memory: Killed process 7 (x)"), None, "written by a program");
        assert_eq!(victim("6,340,1,-;oom_reaper: reaped process 7 (x)"), None);
        assert_eq!(victim("nonsense"), None);
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        for version in [Version::One, Version::Two] {
            let dir = tempfile::tempdir().unwrap();
            let (above, below) = (dir.path().join("a"), dir.path().join("a/b"));
            fs::create_dir_all(below.join("c")).unwrap();
            for (path, limit) in [(&above, "1000\n"), (&below, "max\n")] {
                fs::write(path.join(version.limit()), limit).unwrap();
                fs::write(path.join(version.events()), "oom_kill 2\n").unwrap();
            }
            let group = Group { mount: dir.path().into(), path: below.join("c") };
            let found = MemoryGroup::nearest(version, group).unwrap();
            assert_eq!(found.group.path, below, "the group below it does not account for memory");
            assert_eq!((found.limit(), found.kills()), (Some((1000, above.clone())), Some(2)));
        }
    }

    fn watched() -> (tempfile::TempDir, MemoryWatch) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("memory.max"), "1000\n").unwrap();
        let group = Group { mount: dir.path().into(), path: dir.path().into() };
        let group = MemoryGroup { version: Version::Two, group };
        let watch = MemoryWatch { group: Some(group), kills_before: 5, ..MemoryWatch::default() };
        (dir, watch)
    }

    #[test]
    fn one_kill_has_one_victim() {
        let (dir, mut watch) = watched();
        let kills = |n: u64| fs::write(dir.path().join("memory.events"), format!("oom_kill {n}\n")).unwrap();
        kills(5);
        assert_eq!(watch.evidence(&KILLED, Stop::No), None, "somebody's kill -9");
        kills(6);
        assert_eq!(watch.evidence(&Exit { code: Some(0), ..FAILED }, Stop::No), None);
        let beside = watch.evidence(&FAILED, Stop::No).unwrap();
        assert_eq!((beside.limit_bytes, beside.killed_this), (Some(1000), false));
        assert_eq!(watch.evidence(&KILLED, Stop::Forced), None, "by us");
        assert!(watch.evidence(&Exit { code: Some(137), ..FAILED }, Stop::Asked).unwrap().killed_this);
        assert_eq!(watch.evidence(&KILLED, Stop::No), None, "the kill has its victim");
        assert_eq!(watch.evidence(&FAILED, Stop::No), None);
    }

    #[test]
    fn whom_the_kernel_names_it_has_killed_whatever_the_counter_says() {
        let (_dir, mut watch) = watched();
        watch.named.insert(7, Shortage::Host);
        let oom = watch.evidence(&KILLED, Stop::Forced).unwrap();
        assert_eq!((oom.limit_bytes, oom.place.as_str(), oom.killed_this), (None, "this host", true));
    }
}
