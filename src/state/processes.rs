//! Watching controllers on this host: a pidfd each, all in one epoll, so that "has any of them ended" is one system
//! call whatever their number, and the answer is right at the very moment of the question.

use std::{
    collections::HashMap,
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        linux::fs::MetadataExt,
    },
};

use parking_lot::Mutex;
use rustix::{
    event::{Timespec, epoll},
    process::{Pid, PidfdFlags, pidfd_open},
};

use crate::{
    base::{RunId, readable::Readable},
    model::ProcessIdentity,
};

/// The identity of a process on this host.
///
/// # Errors
/// When there is no such process, or `/proc` cannot be read.
pub fn identify(pid: u32) -> io::Result<ProcessIdentity> {
    Ok(ProcessIdentity {
        boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
        pid_namespace: fs::metadata("/proc/self/ns/pid")?.st_ino(),
        pid,
        start_time_ticks: start_time_ticks(pid)?,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    })
}

/// Field 22 of `/proc/<pid>/stat`. The command before it may hold anything, so counting starts after its last ')'.
fn start_time_ticks(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19))
        .and_then(|ticks| ticks.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat is odd")))
}

/// What can be known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It runs and is watched, or is this very process.
    Watched,
    /// It is on this host and gone.
    Gone,
    /// It is elsewhere.
    Unknown,
}

/// The processes being watched.
#[derive(Debug)]
pub(crate) struct ProcessWatch {
    epoll: OwnedFd,
    here: ProcessIdentity,
    watched: Mutex<HashMap<RunId, OwnedFd>>,
}

impl ProcessWatch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// When the kernel gives no epoll, or `/proc` cannot be read.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            here: identify(std::process::id())?,
            watched: Mutex::default(),
        })
    }

    /// Whether a process is, or was, one whose pid means the same here.
    pub(crate) fn is_here(&self, process: &ProcessIdentity) -> bool {
        process.boot_id == self.here.boot_id && process.pid_namespace == self.here.pid_namespace
    }

    /// Begins to watch the process of a run's controller.
    pub(crate) fn watch(&self, run: &RunId, process: &ProcessIdentity) -> Sight {
        if !self.is_here(process) {
            return Sight::Unknown;
        }
        if process.pid == self.here.pid && process.start_time_ticks == self.here.start_time_ticks {
            return Sight::Watched;
        }
        // The descriptor first, the start time after: whatever has the pid now cannot be replaced behind the descriptor.
        let pidfd = i32::try_from(process.pid)
            .ok()
            .and_then(Pid::from_raw)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        match (pidfd, start_time_ticks(process.pid)) {
            (Some(pidfd), Ok(ticks)) if ticks == process.start_time_ticks => {
                let data = epoll::EventData::new_u64(0);
                if epoll::add(&self.epoll, &pidfd, data, epoll::EventFlags::IN).is_err() {
                    return Sight::Unknown;
                }
                self.watched.lock().insert(run.clone(), pidfd);
                Sight::Watched
            }
            _ => Sight::Gone,
        }
    }

    /// Stops watching for a run.
    pub(crate) fn forget(&self, run: &RunId) {
        // Closing the descriptor takes it out of the epoll.
        self.watched.lock().remove(run);
    }

    /// Something that becomes readable when a watched process ends.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub(crate) fn wakeups(&self) -> io::Result<Readable> {
        Readable::new(self.epoll.try_clone()?)
    }

    /// Whether any watched process has ended.
    pub(crate) fn any_ended(&self) -> bool {
        poll(self.epoll.as_fd()).unwrap_or(true)
    }

    /// Takes out the runs whose controller's process has ended.
    pub(crate) fn take_ended(&self) -> Vec<RunId> {
        if !self.any_ended() {
            return Vec::new();
        }
        let mut watched = self.watched.lock();
        let ended: Vec<RunId> =
            watched.iter().filter(|(_, fd)| readable(fd.as_fd())).map(|(run, _)| run.clone()).collect();
        for run in &ended {
            watched.remove(run);
        }
        ended
    }
}

/// Whether the epoll has anything ready. Level-triggered: asking takes nothing away.
fn poll(epoll: BorrowedFd<'_>) -> io::Result<bool> {
    let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    Ok(epoll::wait(epoll, &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

fn readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_killed_process_is_seen_at_once_and_a_recycled_pid_is_not_mistaken() {
        let watch = ProcessWatch::new().unwrap();
        let (a, b) = (RunId::generate(), RunId::generate());
        let mut child = Command::new("sleep").arg("100").stdout(Stdio::null()).spawn().unwrap();
        let identity = identify(child.id()).unwrap();
        assert_eq!(watch.watch(&a, &identity), Sight::Watched);
        let earlier = ProcessIdentity { start_time_ticks: identity.start_time_ticks - 1, ..identity.clone() };
        assert_eq!(watch.watch(&b, &earlier), Sight::Gone);
        let elsewhere = ProcessIdentity { boot_id: "other".into(), ..identity.clone() };
        assert_eq!(watch.watch(&b, &elsewhere), Sight::Unknown);
        assert!(!watch.any_ended());
        child.kill().unwrap();
        // Not reaped yet: a zombie has ended too.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !watch.any_ended() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(watch.take_ended(), [a]);
        assert!(!watch.any_ended());
        child.wait().unwrap();
    }

    #[test]
    fn the_head_itself_is_known_to_run() {
        let watch = ProcessWatch::new().unwrap();
        assert_eq!(watch.watch(&RunId::generate(), &identify(std::process::id()).unwrap()), Sight::Watched);
        assert!(!watch.any_ended());
    }
}
