//! Starting, signalling and reaping programs: the one place that does, and the only one with `unsafe`.
//! It decides nothing: whom to start, when to stop and how long to wait is said by its callers.

use std::borrow::Cow;
use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process_group, pidfd_open,
    pidfd_send_signal, set_child_subreaper, set_parent_process_death_signal, wait, waitpid,
};
use tokio::process::Child;

use super::agent::RankSpec;

/// Every signal with a name, without its `SIG`.
const SIGNALS: [(&str, Signal); 31] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ILL", Signal::ILL),
    ("TRAP", Signal::TRAP),
    ("ABRT", Signal::ABORT),
    ("BUS", Signal::BUS),
    ("FPE", Signal::FPE),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("SEGV", Signal::SEGV),
    ("USR2", Signal::USR2),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("STKFLT", Signal::STKFLT),
    ("CHLD", Signal::CHILD),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("URG", Signal::URG),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
    ("VTALRM", Signal::VTALARM),
    ("PROF", Signal::PROF),
    ("WINCH", Signal::WINCH),
    ("IO", Signal::IO),
    ("PWR", Signal::POWER),
    ("SYS", Signal::SYS),
];

/// The name of a signal as people write it: `SIGTERM`, or `signal 40` where there is none.
#[must_use]
pub fn signal_name(number: i32) -> Cow<'static, str> {
    match SIGNALS.iter().find(|(_, signal)| signal.as_raw() == number) {
        Some((name, _)) => format!("SIG{name}").into(),
        None => format!("signal {number}").into(),
    }
}

/// The name of the signal that a shell means by this exit code: it reports what ended by signal `n` as `128 + n`.
#[must_use]
pub fn signal_of_code(code: i32) -> Option<Cow<'static, str>> {
    let number = code.checked_sub(128)?;
    SIGNALS.iter().any(|(_, signal)| signal.as_raw() == number).then(|| signal_name(number))
}

/// The number of `TERM`, `SIGTERM` (in any case) or `15`; none for what is not a named Linux signal.
#[must_use]
pub fn parse_signal(text: &str) -> Option<i32> {
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = upper.parse().ok();
    let is_meant = |(known, signal): &&(&str, Signal)| *known == name || number == Some(signal.as_raw());
    SIGNALS.iter().find(is_meant).map(|(_, signal)| signal.as_raw())
}

/// Makes orphaned descendants come home to this process instead of to init, so that it can end and reap them.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Starts `program agent` with one end of a socket pair as its standard input.
/// It stays on std's fast path (no fork of a big controller): no `pre_exec` here, the agent arranges itself.
pub(super) fn spawn_agent(program: &Path, connection: UnixStream) -> io::Result<Child> {
    let mut command = Command::new(program);
    // Its own process group: a Ctrl-C in the terminal is the controller's business.
    command.arg("agent").stdin(OwnedFd::from(connection)).stdout(Stdio::null()).process_group(0);
    // The command owns the agent's end and closes it here, so that the end of the agent ends the connection.
    tokio::process::Command::from(command).spawn()
}

/// Starts a worker that leads its own process group and dies with this thread. Returns its pid.
/// The caller reaps it with [`reap`] and has called [`take_over_signals`].
pub(super) fn spawn_worker(spec: &RankSpec, log: File) -> io::Result<u32> {
    let parent = getpid();
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).current_dir(&spec.cwd);
    for name in &spec.env_remove {
        command.env_remove(name);
    }
    command.envs(&spec.env);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    let in_the_child = move || {
        unblock_signals();
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above: then no signal will come.
        if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    #[expect(
        unsafe_code,
        reason = "only code between fork and exec can set the parent-death signal without a race"
    )]
    // SAFETY: the closure makes plain system calls only: it neither allocates nor locks, and it owns nothing.
    unsafe {
        command.pre_exec(in_the_child);
    }
    Ok(command.spawn()?.id())
}

/// Sends a signal to a process group. The caller knows that the group is its own.
pub(super) fn signal_group(group: u32, signal: i32) -> io::Result<()> {
    Ok(kill_process_group(pid_of(group)?, signal_of(signal)?)?)
}

/// A hold on one process: it cannot mean another one, even when the pid is used again.
pub(super) fn hold(pid: u32) -> io::Result<OwnedFd> {
    Ok(pidfd_open(pid_of(pid)?, PidfdFlags::empty())?)
}

/// Sends a signal to exactly this process.
pub(super) fn signal_held(held: &OwnedFd, signal: i32) -> io::Result<()> {
    Ok(pidfd_send_signal(held, signal_of(signal)?)?)
}

/// Waits until the held process has ended, or the time is over.
pub(super) fn await_end(held: &OwnedFd, within: Duration) {
    let timeout = Timespec::try_from(within).ok();
    // An interruption ends the wait early; every caller looks again.
    let _ = rustix::event::poll(&mut [PollFd::new(held, PollFlags::IN)], timeout.as_ref());
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) pid: u32,
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// What [`reap`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaped {
    /// A child had ended and is gone now.
    One(Exit),
    /// There are children, all of them running.
    NoneYet,
    /// There is no child. In a subreaper: no descendant either.
    NoChildren,
}

/// Takes one ended child, whichever.
pub(super) fn reap() -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => return Reaped::One(exit_of(pid, status)),
            Ok(None) => return Reaped::NoneYet,
            Err(Errno::INTR) => {}
            Err(_) => return Reaped::NoChildren,
        }
    }
}

/// Takes this child if it has ended.
pub(super) fn reap_one(pid: u32) {
    // No such child: somebody else took it, which is as good.
    let _ = pid_of(pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
}

fn exit_of(pid: Pid, status: WaitStatus) -> Exit {
    let pid = pid.as_raw_pid().unsigned_abs();
    Exit { pid, code: status.exit_status(), signal: status.terminating_signal() }
}

fn pid_of(pid: u32) -> io::Result<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| Errno::SRCH.into())
}

fn signal_of(number: i32) -> io::Result<Signal> {
    Signal::from_named_raw(number).ok_or_else(|| Errno::INVAL.into())
}

/// `sigset_t` as both glibc and musl have it: 1024 bits.
#[repr(C)]
struct SignalSet([u64; 16]);

const SIG_DFL: usize = 0;
const SIG_SETMASK: c_int = 2;
const SFD_NONBLOCK_CLOEXEC: c_int = 0o4000 | 0o2_000_000;
const HIGHEST_SIGNAL: c_int = 64;

#[expect(unsafe_code, reason = "neither std nor rustix offers dispositions, masks and signalfd")]
// SAFETY: the declarations of POSIX and Linux, from the C library that std links.
unsafe extern "C" {
    fn signal(number: c_int, handler: usize) -> usize;
    fn sigprocmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn signalfd(fd: c_int, mask: *const SignalSet, flags: c_int) -> c_int;
}

/// Blocks every signal of this thread and returns a descriptor that becomes readable when a child has ended.
/// Blocked rather than ignored: an ignored signal stays ignored in the workers, and an ignored SIGCHLD, which the
/// agent may have inherited, loses their exit codes. Every signal gets its default action, here once and not in each
/// child, for a program expects to be started like that. For a process with one thread.
pub(super) fn take_over_signals() -> io::Result<OwnedFd> {
    let all = SignalSet([u64::MAX; 16]);
    let mut child_only = SignalSet([0; 16]);
    if let Some(first) = child_only.0.first_mut() {
        *first = 1 << (Signal::CHILD.as_raw() - 1);
    }
    #[expect(unsafe_code, reason = "see the declarations")]
    // SAFETY: both sets live through the calls, the old mask is not asked for, and the descriptor is new and ours. A
    // handler that is lost here is the runtime's for a stack overflow, which ends the process anyway. SIGKILL, SIGSTOP
    // and what the C library keeps for itself answer with an error that means nothing.
    unsafe {
        if sigprocmask(SIG_SETMASK, &raw const all, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        for number in 1..=HIGHEST_SIGNAL {
            signal(number, SIG_DFL);
        }
        match signalfd(-1, &raw const child_only, SFD_NONBLOCK_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Blocks no signal, as a program expects to be started. In a child of one that has [`take_over_signals`].
fn unblock_signals() {
    let none = SignalSet([0; 16]);
    #[expect(unsafe_code, reason = "see the declarations")]
    // SAFETY: an async-signal-safe call, and the set lives through it.
    unsafe {
        sigprocmask(SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_known_by_every_spelling() {
        for text in ["TERM", "SIGTERM", "sigterm", "15", " term "] {
            assert_eq!(parse_signal(text), Some(15), "{text}");
        }
        for text in ["", "SIG", "TERMINATE", "0", "-15", "65", "SIG15"] {
            assert_eq!(parse_signal(text), None, "{text}");
        }
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(40), "signal 40");
    }

    #[test]
    fn a_shell_s_code_for_a_signal_is_known() {
        assert_eq!(signal_of_code(137).as_deref(), Some("SIGKILL"));
        assert_eq!(signal_of_code(143).as_deref(), Some("SIGTERM"));
        assert_eq!(signal_of_code(159).as_deref(), Some("SIGSYS"));
        for code in [i32::MIN, -1, 0, 1, 127, 128, 160, 255, i32::MAX] {
            assert_eq!(signal_of_code(code), None, "{code}");
        }
    }

    #[test]
    fn every_signal_has_its_number_and_can_be_sent() {
        for number in 1..=31 {
            assert_eq!(parse_signal(&signal_name(number)), Some(number));
            assert!(signal_of(number).is_ok(), "{number}");
        }
        assert!(signal_of(0).is_err());
    }

    #[test]
    fn no_pid_means_a_group_or_everybody() {
        assert!(pid_of(0).is_err());
        assert!(pid_of(u32::MAX).is_err());
        assert!(signal_group(u32::MAX, 15).is_err());
    }
}
