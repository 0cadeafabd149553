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
    let own = own_group(
        &fs::read_to_string("/proc/self/mountinfo").ok()?,
        &fs::read_to_string("/proc/self/cgroup").ok()?,
    )?;
    rustix::fs::access(&own, rustix::fs::Access::WRITE_OK).is_ok().then_some(own)
}

impl Cgroup {
    /// Makes one below the group of this process, if the machine lets us.
    pub(super) fn create() -> Option<Self> {
        let parent = own_group(
            &fs::read_to_string("/proc/self/mountinfo").ok()?,
            &fs::read_to_string("/proc/self/cgroup").ok()?,
        )?;
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

/// Directory of this process's own group in the v2 hierarchy, wherever that is mounted.
fn own_group(mountinfo: &str, own: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        // A mount may show a part of the hierarchy only; a group outside it cannot be reached.
        let below = Path::new(own).strip_prefix(root).ok()?;
        (!own.contains("..")).then(|| Path::new(point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_where_the_hierarchy_is_mounted() {
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let found = own_group(hybrid, "4:memory:/x\n0::/user.slice/a\n");
        assert_eq!(found.as_deref(), Some(Path::new("/sys/fs/cgroup/unified/user.slice/a")));
        let part = "41 31 0:38 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(own_group(part, "0::/docker/abc/x\n").as_deref(), Some(Path::new("/sys/fs/cgroup/x")));
        assert_eq!(own_group(part, "0::/elsewhere\n"), None);
        assert_eq!(own_group(part, "0::/../elsewhere\n"), None);
        assert_eq!(own_group("", "0::/\n"), None);
    }
}
