//! A control group (v2) for the workers of one attempt, so that one write kills them all, however fast they fork.
//! It is an extra: where none can be made, everything works without. It sets no limits.

use std::fs;
use std::io;
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
        remove_stale(&parent);
        let this = Process::read(std::process::id())?;
        // With the start time, so that a later process with our pid never has the same group.
        let group = Self { path: parent.join(format!("{PREFIX}{}-{}", this.pid, this.start_time_ticks)) };
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

    /// Takes it away once it is empty; one that is not is left to [`remove_stale`] of a later agent.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// Removes groups whose agent was killed before it could. A group that holds a process cannot be removed, and one
/// whose agent lives is not touched.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let agent = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if let Some((Ok(pid), Ok(start))) = agent.map(|(pid, start)| (pid.parse(), start.parse::<u64>()))
            && Process::read(pid).is_none_or(|process| process.start_time_ticks != start)
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
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
    use super::*;

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
