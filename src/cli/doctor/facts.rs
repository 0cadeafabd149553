//! What the doctor looks at: the directory, the disk, the host. It judges nothing.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, TcpListener},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, Mode, OFlags, ResolveFlags},
    process::{PidfdFlags, Resource, child_subreaper, getpid, getrlimit, pidfd_open},
};

use crate::{
    base::{Clock, SystemClock, Timestamp},
    controller::agent::usable_cgroup,
    state::HttpState,
};

/// The data directory, as the file system has it.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) is_dir: bool,
    pub(super) writable: bool,
    pub(super) owner: u32,
    /// Who runs this program.
    pub(super) user: u32,
    /// Its rights, the lowest nine bits.
    pub(super) mode: u32,
    /// The kernel's number for the kind of file system.
    pub(super) magic: u32,
}

impl Directory {
    /// None if there is no such directory.
    pub(super) fn look(path: &Path) -> Option<Self> {
        let meta = path.metadata().ok()?;
        Some(Self {
            is_dir: meta.is_dir(),
            writable: rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
            owner: meta.uid(),
            user: rustix::process::geteuid().as_raw(),
            mode: meta.mode() & 0o777,
            magic: rustix::fs::statfs(path).ok().and_then(|s| u32::try_from(s.f_type).ok()).unwrap_or(0),
        })
    }
}

/// What is left on a disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub(super) free_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) free_inodes: u64,
    /// 0 where the file system makes them as it needs them.
    pub(super) total_inodes: u64,
}

/// The space where a directory is or would be made.
pub(super) fn space(path: &Path) -> Option<Space> {
    let there = path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("."));
    let s = rustix::fs::statvfs(there).ok()?;
    Some(Space {
        free_bytes: s.f_bavail.saturating_mul(s.f_frsize),
        total_bytes: s.f_blocks.saturating_mul(s.f_frsize),
        free_inodes: s.f_favail,
        total_inodes: s.f_files,
    })
}

/// Who listens on a port of loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// Nobody.
    Nobody,
    /// The head that was looked at.
    Ours,
    /// A head of another data directory.
    AnotherHead,
    /// Something else.
    Stranger,
    /// It cannot be listened on at all.
    Forbidden(String),
}

/// Looks who listens; `ours` is the address of the head that is known.
pub(super) async fn listener(port: u16, ours: Option<&str>) -> Listener {
    let listened = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let e = match listened {
        Ok(_) => return Listener::Nobody,
        Err(e) => e,
    };
    if e.kind() != io::ErrorKind::AddrInUse {
        return Listener::Forbidden(e.to_string());
    }
    if ours.is_some_and(|url| url.trim_end_matches('/').ends_with(&format!(":{port}"))) {
        return Listener::Ours;
    }
    match HttpState::new(&format!("http://127.0.0.1:{port}")) {
        Ok(http) if http.readiness().await.is_ok() => Listener::AnotherHead,
        _ => Listener::Stranger,
    }
}

/// How many files a process may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenFiles {
    pub(super) soft: u64,
    pub(super) hard: u64,
}

/// What inotify grants a user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inotify {
    pub(super) watches: u64,
    pub(super) instances: u64,
}

/// What the kernel can do.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) release: String,
    pub(super) pidfd_open: bool,
    pub(super) openat2: bool,
    pub(super) subreaper: bool,
    /// The control group that agents may use.
    pub(super) cgroup: Option<PathBuf>,
}

/// This host.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) now: Timestamp,
    /// When this program was built: its file's own time.
    pub(super) built: Option<Timestamp>,
    pub(super) open_files: OpenFiles,
    pub(super) inotify: Option<Inotify>,
    pub(super) kernel: Kernel,
}

impl Host {
    /// Looks at it; the limits are those of the head, if there is one, or of this process.
    pub(super) fn look(head: Option<u32>) -> Self {
        let own = getrlimit(Resource::Nofile);
        let own = OpenFiles { soft: own.current.unwrap_or(u64::MAX), hard: own.maximum.unwrap_or(u64::MAX) };
        let of_head = head.and_then(|pid| limits(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?));
        let sysctl = |name: &str| -> Option<u64> {
            fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse().ok()
        };
        let inotify = || {
            Some(Inotify { watches: sysctl("max_user_watches")?, instances: sysctl("max_user_instances")? })
        };
        Self {
            now: SystemClock::new().now(),
            built: built(),
            open_files: of_head.unwrap_or(own),
            inotify: inotify(),
            kernel: Kernel::look(),
        }
    }
}

impl Kernel {
    fn look() -> Self {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let here = rustix::fs::open("/proc/self", flags | OFlags::DIRECTORY, Mode::empty());
        let beneath = here
            .and_then(|dir| rustix::fs::openat2(dir, "status", flags, Mode::empty(), ResolveFlags::BENEATH));
        Self {
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            pidfd_open: pidfd_open(getpid(), PidfdFlags::empty()).is_ok(),
            openat2: beneath.is_ok(),
            subreaper: child_subreaper().is_ok(),
            cgroup: usable_cgroup(),
        }
    }
}

fn built() -> Option<Timestamp> {
    let time = std::env::current_exe().ok()?.metadata().ok()?.modified().ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp::from_ms(0).plus(since))
}

/// The number of files a process may open, of the text of its `/proc/<pid>/limits`.
fn limits(text: &str) -> Option<OpenFiles> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut words = line.split_ascii_whitespace().map(|word| match word {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    Some(OpenFiles { soft: words.next()??, hard: words.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_process_are_read() {
        let text = "Limit  Soft Limit  Hard Limit  Units\n\
            Max processes             127235               127235               processes\n\
            Max open files            1024                 unlimited            files\n";
        assert_eq!(limits(text), Some(OpenFiles { soft: 1024, hard: u64::MAX }));
        assert_eq!(limits("Max open files\n"), None);
        assert_eq!(limits(""), None);
    }

    #[test]
    fn the_space_of_a_directory_that_does_not_exist_is_that_of_where_it_would_be() {
        let space = space(Path::new("/none/at/all")).unwrap();
        assert!(space.total_bytes > 0 && space.free_bytes <= space.total_bytes);
        assert!(Directory::look(Path::new("/none/at/all")).is_none());
    }
}
