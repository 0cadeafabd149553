//! Starting one rank, and saying in words a user can act on why it could not be started.
//! Undoing a half-started group is not done here.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::protocol::RankSpec;
use crate::controller::process;

/// Why a rank does not run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StartFailure {
    pub(super) is_permanent: bool,
    pub(super) message: String,
}

/// Starts the rank and returns its pid.
pub(super) fn start_rank(spec: &RankSpec) -> Result<u32, StartFailure> {
    check_cwd(&spec.cwd)?;
    let log = open_log(&spec.log_path)?;
    process::spawn_worker(spec, log).map_err(|error| explain(spec, &error))
}

fn check_cwd(cwd: &Path) -> Result<(), StartFailure> {
    let at = cwd.display();
    let is_directory = fs::metadata(cwd).map(|found| found.is_dir());
    let message = match is_directory {
        Ok(true) => match access(cwd, Access::EXEC_OK) {
            Ok(()) => return Ok(()),
            Err(error) => {
                format!("the working directory {at} cannot be entered ({error}): check its permissions")
            }
        },
        Ok(false) => format!("the working directory {at} is not a directory: give another one"),
        Err(error) => {
            format!("the working directory {at} cannot be used ({error}): create it, or give another one")
        }
    };
    Err(StartFailure { is_permanent: true, message })
}

fn open_log(path: &Path) -> Result<File, StartFailure> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| OpenOptions::new().append(true).create(true).open(path)).map_err(|error| {
        let at = path.display();
        let message = format!(
            "the log file {at} cannot be opened ({error}): check the space and the permissions there"
        );
        StartFailure { is_permanent: !may_pass(&error), message }
    })
}

fn explain(spec: &RankSpec, error: &io::Error) -> StartFailure {
    let name = spec.program.display();
    let cwd = spec.cwd.display();
    let is_bare = spec.program.components().count() == 1 && !spec.program.has_root();
    let found = find(spec);
    let message = match (Errno::from_io_error(error), found) {
        // The search says "permission denied" if it may not look into one of the directories.
        (Some(Errno::NOENT | Errno::ACCESS), None) if is_bare => {
            format!(
                "no program named {name} is in PATH: install it, activate its environment, or give its full path"
            )
        }
        (Some(Errno::NOENT), None) => format!("there is no program {name} (seen from {cwd}): check the path"),
        (Some(Errno::NOENT), Some(path)) => {
            let at = path.display();
            format!("{at} exists, but the interpreter that it names does not: check its first line (#!)")
        }
        (Some(Errno::ACCESS | Errno::PERM), Some(path)) if path.is_dir() => {
            format!("{} is a directory, not a program: name the program in it", path.display())
        }
        (Some(Errno::ACCESS | Errno::PERM), found) => {
            let at = found.unwrap_or_else(|| spec.program.clone());
            let at = at.display();
            format!(
                "{at} may not be executed: make it executable (chmod +x), start it through its interpreter, or check \
                 the permissions of its directories"
            )
        }
        (Some(Errno::NOEXEC), _) => {
            format!("{name} is not a program for this machine: check how it was built")
        }
        (Some(Errno::TOOBIG), _) => {
            format!(
                "arguments and environment of {name} are longer than the system allows: pass large values by file"
            )
        }
        (Some(Errno::AGAIN), _) => {
            format!(
                "{name} cannot be started now: the limit of processes is reached (ulimit -u, pids.max); end some"
            )
        }
        (Some(Errno::NOMEM), _) => {
            format!("{name} cannot be started now: there is not enough memory; free some")
        }
        _ => format!("{name} cannot be started in {cwd}: {error}"),
    };
    StartFailure { is_permanent: !may_pass(error), message }
}

/// Where the program is, found as exec would, whether or not it may be executed.
fn find(spec: &RankSpec) -> Option<PathBuf> {
    let inherited = || env::var("PATH").ok();
    let candidates: Vec<PathBuf> = if spec.program.components().count() == 1 && !spec.program.has_root() {
        let path = spec.env.get("PATH").cloned().or_else(inherited)?;
        env::split_paths(&path).map(|directory| directory.join(&spec.program)).collect()
    } else {
        vec![spec.cwd.join(&spec.program)]
    };
    candidates.into_iter().find(|path| path.exists())
}

/// What another try may not meet. Everything else is permanent: trying for ever is worse than saying no too early.
fn may_pass(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::AGAIN
                | Errno::NOMEM
                | Errno::MFILE
                | Errno::NFILE
                | Errno::TXTBSY
                | Errno::INTR
                | Errno::IO
                | Errno::NOSPC
                | Errno::DQUOT
                | Errno::STALE
                | Errno::TIMEDOUT
        )
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn spec(program: &str) -> RankSpec {
        RankSpec {
            rank: 0,
            program: program.into(),
            args: vec![],
            env: BTreeMap::new(),
            env_remove: vec![],
            cwd: "/".into(),
            log_path: "/dev/null".into(),
        }
    }

    fn failure(program: &str, errno: Errno) -> StartFailure {
        explain(&spec(program), &errno.into())
    }

    #[test]
    fn what_another_try_may_not_meet_is_transient() {
        for errno in [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::TXTBSY] {
            assert!(!failure("sh", errno).is_permanent, "{errno}");
        }
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::NOEXEC, Errno::TOOBIG, Errno::LOOP] {
            assert!(failure("sh", errno).is_permanent, "{errno}");
        }
    }

    #[test]
    fn a_failure_says_what_is_wrong_and_what_to_do() {
        let cases = [
            (failure("no-such-program", Errno::NOENT), "named no-such-program is in PATH"),
            (failure("no-such-program", Errno::ACCESS), "named no-such-program is in PATH"),
            (failure("/no/such", Errno::NOENT), "no program /no/such (seen from /)"),
            (failure("/bin/sh", Errno::NOENT), "/bin/sh exists, but the interpreter"),
            (failure("/tmp", Errno::ACCESS), "/tmp is a directory"),
            (failure("/etc/passwd", Errno::ACCESS), "/etc/passwd may not be executed: make it executable"),
        ];
        for (failure, part) in cases {
            assert!(failure.message.contains(part), "{failure:?}");
        }
    }
}
