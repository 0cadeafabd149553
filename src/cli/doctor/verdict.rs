//! What the doctor's facts mean: thresholds and sentences, without looking at anything.

use std::path::Path;

use indicatif::HumanBytes;

use super::{
    Finding, Status,
    facts::{Directory, Inotify, Kernel, Listener, OpenFiles, Space},
};
use crate::{
    base::{Timestamp, number::from_millis},
    cli::output::duration,
    state::{ClientError, Depth, HeadReadiness, StateError, StoreReport},
};

const MIB: u64 = 1 << 20;
/// Descriptors that a head needs besides one for each run that it watches: connections, the store, streams.
const OWN_FILES: u64 = 256;
/// A head sweeps every second.
const STALE_SWEEP_MS: i64 = 10_000;
/// Clocks of hosts differ a little, and files are copied between them.
const CLOCK_MS: i64 = 60_000;

/// File systems on other hosts, where SQLite's WAL does not work: its memory is shared between processes of one host.
const NETWORK: [(u32, &str); 11] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x7461_636f, "OCFS2"),
    (0x1983_0326, "BeeGFS"),
    (0x7375_7245, "Coda"),
];
/// File systems that may be on other hosts.
const DOUBTFUL: [(u32, &str); 2] = [(0x6573_5546, "FUSE"), (0x0102_1997, "9p")];
const TMPFS: u32 = 0x0102_1994;

fn ok(check: &'static str, found: String) -> Finding {
    Finding { check, status: Status::Ok, found, advice: None }
}

fn warning(check: &'static str, found: String, advice: impl Into<String>) -> Finding {
    Finding { check, status: Status::Warning, found, advice: Some(advice.into()) }
}

fn problem(check: &'static str, found: String, advice: impl Into<String>) -> Finding {
    Finding { check, status: Status::Problem, found, advice: Some(advice.into()) }
}

/// The data directory: whether it can be used, by whom, and what it lies on.
pub(super) fn directory(path: &Path, facts: Option<&Directory>) -> Vec<Finding> {
    let path = path.display();
    let Some(facts) = facts else {
        let found = format!("{path} does not exist, or cannot be seen by this user");
        return vec![warning(
            "data dir",
            found,
            "the first run or 'trainhead serve' makes it; or say --data-dir",
        )];
    };
    if !facts.is_dir {
        return vec![problem("data dir", format!("{path} is not a directory"), "say another --data-dir")];
    }
    let (owner, user) = (facts.owner, facts.user);
    let place = if !facts.writable {
        let found = format!("{path} belongs to user {owner} and cannot be written by user {user}");
        problem("data dir", found, "run trainhead as its owner, or say another --data-dir")
    } else if owner != user {
        let found = format!("{path} can be written, but belongs to user {owner} and not to user {user}");
        warning("data dir", found, "run trainhead as one user only, or files will be in each other's way")
    } else {
        ok("data dir", format!("{path} can be written and belongs to this user"))
    };
    let mode = format!("{:03o}", facts.mode);
    let privacy = if facts.mode & 0o007 == 0 {
        ok("privacy", format!("only its owner and group may enter it (mode {mode})"))
    } else {
        let found =
            format!("everybody on this host may enter it (mode {mode}), and it holds the signing key");
        warning("privacy", found, format!("chmod 700 {path}"))
    };
    vec![place, privacy, file_system(facts.magic)]
}

fn file_system(magic: u32) -> Finding {
    let of = |table: &[(u32, &'static str)]| table.iter().find(|(m, _)| *m == magic).map(|(_, name)| *name);
    if let Some(name) = of(&NETWORK) {
        let found =
            format!("it lies on a network file system ({name}), where the store is damaged sooner or later");
        return problem("file system", found, "say a --data-dir on a local disk");
    }
    if let Some(name) = of(&DOUBTFUL) {
        let found = format!("it lies on {name}, behind which may be another host");
        return warning("file system", found, "if it is, say a --data-dir on a local disk");
    }
    if magic == TMPFS {
        let found = "it lies in memory (tmpfs)".to_owned();
        return warning(
            "file system",
            found,
            "say a --data-dir on a disk if it must outlive a restart of this host",
        );
    }
    ok("file system", "it lies on a local file system".to_owned())
}

/// What is left on the disk: bytes, and inodes where they are counted.
pub(super) fn space(space: &Space) -> Vec<Finding> {
    let Space { free_bytes, total_bytes, free_inodes, total_inodes } = *space;
    let few = |free: u64, total: u64| free < total / 20;
    let found = format!("{} of {} are free", HumanBytes(free_bytes), HumanBytes(total_bytes));
    let advice = "make room, for example with 'trainhead gc --older-than 30d' and 'trainhead gc --purge'";
    let bytes = if free_bytes < 100 * MIB {
        problem("disk", found, advice)
    } else if free_bytes < 1024 * MIB || few(free_bytes, total_bytes) {
        warning("disk", found, advice)
    } else {
        ok("disk", found)
    };
    if total_inodes == 0 {
        return vec![bytes];
    }
    let found = format!("{free_inodes} of {total_inodes} inodes are free");
    let inodes = if free_inodes < 100 {
        problem("inodes", found, advice)
    } else if few(free_inodes, total_inodes) {
        warning("inodes", found, advice)
    } else {
        ok("inodes", found)
    };
    vec![bytes, inodes]
}

/// The store: its file, its version, its records, and the files of runs.
pub(super) fn store(depth: Depth, report: &Result<StoreReport, StateError>) -> Vec<Finding> {
    let restore =
        "keep a copy of the data directory, and restore the newest backup ('trainhead backup' makes them)";
    let report = match report {
        Ok(report) => report,
        Err(e) => return vec![problem("store", format!("the store cannot be read: {e}"), restore)],
    };
    let StoreReport { version, known_version, faults, contents } = report;
    let file = match faults.as_slice() {
        [] if depth == Depth::Full => ok("store", "the database and its indexes are sound".to_owned()),
        [] => ok("store", "the structure of the database is sound".to_owned()),
        some => problem("store", format!("the database is damaged: {}", some.join("; ")), restore),
    };
    let versions = if version > known_version {
        let found = format!(
            "the database is of version {version}, but this program knows versions up to {known_version}"
        );
        problem("migrations", found, "use a newer trainhead, or another --data-dir")
    } else if version < known_version {
        let found = format!("the database is of version {version} and will be migrated to {known_version}");
        warning(
            "migrations",
            found,
            "the next start does it, after a copy beside it; its runs are looked at after that",
        )
    } else {
        ok("migrations", format!("the database is of version {version}, the newest one"))
    };
    let mut findings = vec![file, versions];
    let Some(contents) = contents else { return findings };
    let (runs, faulty) = (contents.runs, contents.faulty_runs);
    findings.push(if faulty == 0 {
        ok("records", format!("all {runs} runs can be read and keep the rules"))
    } else {
        let more = if faulty > contents.faults.len() { "; …" } else { "" };
        let found = format!("{faulty} of {runs} runs are faulty: {}{more}", contents.faults.join("; "));
        problem(
            "records",
            found,
            "report this as a bug, with the ids; a backup from before may have them whole",
        )
    });
    findings.push(if contents.unknown_dirs == 0 {
        ok("files", "all directories under runs/ belong to runs of this store".to_owned())
    } else {
        let (n, size) = (contents.unknown_dirs, HumanBytes(contents.unknown_bytes));
        let advice = "another head may know them ('trainhead run --head'); if none does, they can be deleted";
        let found = format!("{n} directories under runs/ ({size}) belong to no run of this store");
        Finding { advice: Some(advice.to_owned()), ..ok("files", found) }
    });
    findings
}

/// The head: whether one serves, whether it can work, and whether it is of this version.
pub(super) fn head(
    held: bool,
    head: Option<(&str, &Result<HeadReadiness, ClientError>)>,
    own_version: &str,
) -> Vec<Finding> {
    let (url, ready) = match head {
        None if held => {
            let found = "a process holds the data directory and does not say where it answers".to_owned();
            return vec![warning(
                "head",
                found,
                "if it was no command that is over by now, end that process",
            )];
        }
        None => return vec![ok("head", "no head serves the data directory just now".to_owned())],
        Some((url, Err(e))) => {
            let found = format!("the head at {url} does not answer: {e}");
            return vec![problem("head", found, "end its process and start 'trainhead serve' again")];
        }
        Some((url, Ok(ready))) => (url, ready),
    };
    let age = duration(from_millis(ready.last_sweep_age_ms));
    let state = match &ready.problem {
        Some(what) => {
            let advice = "its log says more; it works again by itself when the cause (a full disk) is gone";
            problem("head", format!("the head at {url} cannot do its work: {what}"), advice)
        }
        None if ready.last_sweep_age_ms > STALE_SWEEP_MS => {
            let found = format!("the head at {url} last looked for dead runs {age} ago");
            problem("head", found, "start 'trainhead serve' again")
        }
        None if ready.store_failures > 0 => {
            let found = format!("the head at {url} works, after {} failed commits", ready.store_failures);
            warning("head", found, "look into its log for the cause")
        }
        None => ok("head", format!("the head at {url} is ready; its last sweep was {age} ago")),
    };
    let version = if ready.version == own_version {
        ok("version", format!("the head and this program are both of version {own_version}"))
    } else {
        let found =
            format!("the head is of version {}, this program of version {own_version}", ready.version);
        warning("version", found, "start the head again with the newer of the two")
    };
    vec![state, version]
}

/// The port of a head.
pub(super) fn port(port: u16, listener: &Listener) -> Finding {
    let elsewhere = "'trainhead serve --port 0' takes a free one";
    match listener {
        Listener::Nobody => ok("port", format!("port {port} is free")),
        Listener::Ours => ok("port", format!("the head listens on port {port}")),
        Listener::AnotherHead => {
            warning("port", format!("the head of another data directory listens on port {port}"), elsewhere)
        }
        Listener::Stranger => warning("port", format!("another program listens on port {port}"), elsewhere),
        Listener::Forbidden(why) => {
            warning("port", format!("port {port} cannot be listened on: {why}"), elsewhere)
        }
    }
}

/// The wall clock: it is only shown, but a wrong one shows wrong times.
pub(super) fn clock(now: Timestamp, built: Option<Timestamp>, newest_event: Option<Timestamp>) -> Finding {
    let advice = "set this host's clock (NTP)";
    let ahead = |time: Timestamp| time.as_ms() - now.as_ms() > CLOCK_MS;
    match (built, newest_event) {
        (Some(built), _) if ahead(built) => {
            problem("clock", format!("it is {now} here, but this program was built at {built}"), advice)
        }
        (_, Some(event)) if ahead(event) => {
            let found = format!("it is {now} here, but the newest event of the store was at {event}");
            warning("clock", found, advice)
        }
        _ => ok("clock", format!("it is {now}, after the build and the newest event")),
    }
}

/// How many files may be open: each live run whose controller is on this host takes one of the head.
pub(super) fn open_files(limit: OpenFiles, live_runs: u64, head: Option<u32>) -> Finding {
    let OpenFiles { soft, hard } = limit;
    let whose = head.map_or_else(|| "this process".to_owned(), |pid| format!("the head (pid {pid})"));
    let found = format!("{whose} may open {soft} files (at most {hard}), for {live_runs} live runs");
    let advice = "raise it where the head is started: 'ulimit -n', or LimitNOFILE= of its service";
    if soft < live_runs.saturating_add(OWN_FILES / 4) {
        problem("open files", found, advice)
    } else if soft < live_runs.saturating_mul(2).saturating_add(OWN_FILES) {
        warning("open files", found, advice)
    } else {
        ok("open files", found)
    }
}

/// What follows logs.
pub(super) fn inotify(inotify: Option<Inotify>) -> Finding {
    let Some(Inotify { watches, instances }) = inotify else {
        return warning(
            "inotify",
            "there is no inotify on this host".to_owned(),
            "logs cannot be followed; enable it",
        );
    };
    let found = format!(
        "a user may have {watches} watches and {instances} instances; each log that is followed takes one"
    );
    if watches < 1024 || instances < 128 {
        let advice = "sysctl fs.inotify.max_user_watches=65536 fs.inotify.max_user_instances=1024";
        return warning("inotify", found, advice);
    }
    ok("inotify", found)
}

/// What the kernel must be able to do.
pub(super) fn kernel(kernel: &Kernel) -> Vec<Finding> {
    let Kernel { release, pidfd_open, openat2, subreaper, cgroup } = kernel;
    let newer = "use a newer Linux (5.6 or later), or allow the call in the container's seccomp profile";
    let can = |check: &'static str, there: bool, without: &str| {
        if there {
            ok(check, format!("Linux {release} has it"))
        } else {
            problem(check, format!("Linux {release} does not have it, or it is forbidden: {without}"), newer)
        }
    };
    let cgroup = match cgroup {
        Some(path) => {
            ok("cgroup", format!("{} can be used, so that a stop kills everything at once", path.display()))
        }
        None => ok(
            "cgroup",
            "none can be used; workers are found and ended one by one, which works as well".to_owned(),
        ),
    };
    vec![
        can("pidfd_open", *pidfd_open, "the end of a controller is noticed only when its lease ends"),
        can("openat2", *openat2, "logs cannot be shown"),
        can("subreaper", *subreaper, "what workers leave behind cannot be ended"),
        cgroup,
    ]
}

#[cfg(test)]
mod tests;
