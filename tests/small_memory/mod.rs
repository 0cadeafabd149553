//! A memory control group (version 1 or 2) that tests start processes in, so that the kernel kills them for memory.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A control group with little memory, removed at the end.
pub(crate) struct SmallMemory(PathBuf);

impl SmallMemory {
    /// None, which is said, where the machine lets us make none.
    pub(crate) fn make(name: &str, limit_bytes: u64) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounts = mounts.lines().filter(|line| line.contains(" - cgroup"));
        for mount in mounts.filter_map(|line| line.split(' ').nth(4)) {
            let group = Path::new(mount).join(format!("trainhead-test-{name}-{}", std::process::id()));
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Self(group);
            let limited = ["memory.limit_in_bytes", "memory.max"].iter().any(|file| {
                group.0.join(file).exists() && fs::write(group.0.join(file), limit_bytes.to_string()).is_ok()
            });
            if limited {
                return Some(group);
            }
        }
        eprintln!("skipped: no memory control group can be made here");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Whoever writes its pid here is in the group.
    pub(crate) fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for SmallMemory {
    fn drop(&mut self) {
        // The kernel lets go of it a moment after its last process.
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < deadline {
            std::thread::yield_now();
        }
    }
}
