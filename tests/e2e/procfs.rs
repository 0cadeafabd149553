//! What /proc says of processes: their children, threads, descriptors, memory, and the ports that they listen on.

use std::{collections::BTreeSet, fs};

/// The living children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    of_parent(parent).into_iter().filter(|(_, state)| *state != 'Z').map(|(pid, _)| pid).collect()
}

/// The children of a process that have ended and were not reaped.
pub(crate) fn zombies(parent: u32) -> Vec<u32> {
    of_parent(parent).into_iter().filter(|(_, state)| *state == 'Z').map(|(pid, _)| pid).collect()
}

fn of_parent(parent: u32) -> Vec<(u32, char)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        let state = fields.next().and_then(|s| s.chars().next()).unwrap();
        if fields.next().and_then(|p| p.parse().ok()) == Some(parent) {
            found.push((pid, state));
        }
    }
    found
}

/// What a long-lived process may not gather.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holdings {
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
    pub(crate) listening: usize,
}

impl Holdings {
    pub(crate) fn of(pid: u32) -> Self {
        let links: BTreeSet<String> = fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .flatten()
            .filter_map(|fd| fs::read_link(fd.path()).ok())
            .map(|to| to.display().to_string())
            .collect();
        // Local address, remote address, state (0A is LISTEN), …, inode in the tenth column.
        let listens = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(3) == Some(&"0A") && links.contains(&format!("socket:[{}]", fields[9]))
        };
        let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
        Self {
            threads: fs::read_dir(format!("/proc/{pid}/task")).unwrap().count(),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            listening: table.lines().filter(|line| listens(line)).count(),
        }
    }
}

/// What a process has in memory, in bytes.
pub(crate) fn memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}
