//! A control group (v2) for the workers of one attempt, so that one write kills them all, however fast they fork.
//! It is an extra: where none can be made, everything works without. It sets no limits.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::tree::Process;

const PREFIX: &str = "trainhead-agent-";

/// A control group of ours. Nobody is in it but what was started between [`Cgroup::enter`] and [`Cgroup::leave`].
#[derive(Debug)]
pub(super) struct Cgroup {
    path: PathBuf,
}

/// The control group below which an agent would make its own, if it can: an extra, see above.
#[must_use]
pub fn usable_cgroup() -> Option<PathBuf> {
    let own = Group::own(Hierarchy::Unified)?.path;
    rustix::fs::access(&own, rustix::fs::Access::WRITE_OK).is_ok().then_some(own)
}

impl Cgroup {
    /// Makes one below the group of this process, if the machine lets us.
    pub(super) fn create() -> Option<Self> {
        let parent = Group::own(Hierarchy::Unified)?.path;
        end_stale(&parent);
        let this = Process::read(std::process::id())?;
        // With the start time, so that a later process with our pid never has the same group.
        let name = format!("{PREFIX}{}-{}-{}", pid_namespace()?, this.pid, this.start_time_ticks);
        let group = Self { path: parent.join(name) };
        fs::create_dir(&group.path).ok()?;
        if !group.path.join("cgroup.kill").exists() {
            group.remove();
            return None;
        }
        Some(group)
    }

    /// The one of an agent that may be gone, by the path it gave.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves this process in, so that its children start there: one move for all, not one for each.
    pub(super) fn enter(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), "0")
    }

    /// Moves this process out again. If that fails the group must not be killed.
    pub(super) fn leave(&self) -> io::Result<()> {
        let parent = self.path.parent().ok_or(io::ErrorKind::NotFound)?;
        fs::write(parent.join("cgroup.procs"), "0")
    }

    /// SIGKILL to everything in it. An error means that the group is gone: the walk does the rest anyway.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Takes it away once it is empty; one that is not is left to [`end_stale`] of a later agent.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// Ends what is in groups whose agent was killed, and its controller too, so that nobody was left to do it. A group whose
/// agent lives is not touched, nor one of another pid namespace, whose agents cannot be seen from here.
fn end_stale(parent: &Path) {
    let Some(ours) = pid_namespace() else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let parts = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).map(|name| name.split('-'));
        let numbers: Vec<u64> = parts.into_iter().flatten().filter_map(|part| part.parse().ok()).collect();
        let &[namespace, pid, start] = numbers.as_slice() else { continue };
        let agent = u32::try_from(pid).ok().and_then(Process::read);
        if namespace == ours && agent.is_none_or(|process| process.start_time_ticks != start) {
            let group = Cgroup::at(entry.path());
            group.kill();
            // While they are still ending it is not empty: then the next agent takes it away.
            group.remove();
        }
    }
}

/// The pid namespace of this process, by the number of its inode.
fn pid_namespace() -> Option<u64> {
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// Which tree of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hierarchy {
    /// Version 2: one tree for everything.
    Unified,
    /// Version 1: the tree that accounts for memory.
    Memory,
}

/// A group as it is reached in the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// Where its hierarchy is mounted.
    pub(super) mount: PathBuf,
    pub(super) path: PathBuf,
}

impl Group {
    /// The one of this process, if that hierarchy is mounted.
    pub(super) fn own(hierarchy: Hierarchy) -> Option<Self> {
        Self::find(
            hierarchy,
            &fs::read_to_string("/proc/self/mountinfo").ok()?,
            &fs::read_to_string("/proc/self/cgroup").ok()?,
        )
    }

    fn find(hierarchy: Hierarchy, mountinfo: &str, own: &str) -> Option<Self> {
        let own = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            hierarchy.has(controllers).then_some(path)
        })?;
        mountinfo.lines().find_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            let mut kind = kind.split(' ');
            let (name, options) = (kind.next()?, kind.nth(1)?);
            let is_it = match hierarchy {
                Hierarchy::Unified => name == "cgroup2",
                Hierarchy::Memory => name == "cgroup" && hierarchy.has(options),
            };
            let mut fields = mount.split(' ').skip(3);
            let (root, point) = (fields.next()?, fields.next()?);
            // A mount may show a part of the hierarchy only; a group outside it cannot be reached.
            let below = Path::new(own).strip_prefix(root).ok()?;
            // Without the slash at the end that joining an empty path leaves.
            let path = Path::new(point).join(below).components().collect();
            (is_it && !own.contains("..")).then(|| Self { mount: point.into(), path })
        })
    }
}

impl Hierarchy {
    /// Whether a list of controllers, or of mount options, is that of this hierarchy.
    fn has(self, controllers: &str) -> bool {
        match self {
            Self::Unified => controllers.is_empty(),
            Self::Memory => controllers.split(',').any(|name| name == "memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_a_dead_agent_left_behind_is_ended_by_the_next() {
        let Some(parent) = usable_cgroup() else {
            eprintln!("skipped: no control group (v2) can be made here");
            return;
        };
        // A pid that no process has, and one that lives.
        let (dead, ours) = (u32::MAX, std::process::id());
        // A place of its own: agents of other tests look for stale groups as well.
        let parent = parent.join(format!("test-{ours}"));
        fs::create_dir(&parent).unwrap();
        let start = Process::read(ours).unwrap().start_time_ticks;
        let group = |pid: u32| {
            let path = parent.join(format!("{PREFIX}{}-{pid}-{start}", pid_namespace().unwrap()));
            fs::create_dir(&path).unwrap();
            let child = Command::new("sleep").arg("1000").spawn().unwrap();
            fs::write(path.join("cgroup.procs"), child.id().to_string()).unwrap();
            (Cgroup::at(path), child)
        };
        let (stale, mut left) = group(dead);
        let (live, mut kept) = group(ours);
        end_stale(&parent);
        left.wait().unwrap();
        assert_eq!(kept.try_wait().unwrap(), None);
        kept.kill().unwrap();
        kept.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while stale.path().exists() || live.path().exists() {
            stale.remove();
            live.remove();
            assert!(Instant::now() < deadline);
        }
        fs::remove_dir(&parent).unwrap();
    }

    #[test]
    fn the_own_group_is_found_where_the_hierarchy_is_mounted() {
        let unified =
            |mountinfo, own| Group::find(Hierarchy::Unified, mountinfo, own).map(|group| group.path);
        let memory = |mountinfo, own| Group::find(Hierarchy::Memory, mountinfo, own);
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let own = "9:name=systemd:/\n4:memory:/x\n0::/user.slice/a\n";
        assert_eq!(unified(hybrid, own), Some("/sys/fs/cgroup/unified/user.slice/a".into()));
        let of_memory =
            Group { mount: "/sys/fs/cgroup/memory".into(), path: "/sys/fs/cgroup/memory/x".into() };
        assert_eq!(memory(hybrid, own), Some(of_memory));
        assert_eq!(memory(hybrid, "0::/\n"), None);
        let part = "41 31 0:38 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(unified(part, "0::/docker/abc/x\n"), Some("/sys/fs/cgroup/x".into()));
        assert_eq!(unified(part, "0::/elsewhere\n"), None);
        assert_eq!(unified(part, "0::/../elsewhere\n"), None);
        assert_eq!(unified("", "0::/\n"), None);
    }
}
