//! The words that a controller and its agent exchange: one JSON object a line, of bounded length.
//! The same on a socket pair and on a connection between nodes; nothing here does any I/O.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{base::number::bytes_in_words, model::StopReport};

/// Raised when a message changes its meaning. Both sides are the same binary unless it was replaced during a run.
pub const PROTOCOL_VERSION: u32 = 1;

/// No message is longer: room for a thousand ranks with 16 kB of environment each.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// What a controller asks of its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToAgent {
    /// Start these ranks, all or none. Once in the life of an agent.
    Start {
        /// The workers of this node.
        ranks: Vec<RankSpec>,
        /// Whether they get a control group of their own.
        cgroup: CgroupUse,
    },
    /// Pass a signal to the process group of each rank.
    Signal {
        /// Its number.
        signal: i32,
    },
    /// Send `signal` to each rank's process group, wait for the whole tree, end by force what is left after the grace.
    Stop {
        /// Number of the stop signal.
        signal: i32,
        /// How long the tree may take.
        grace_ms: u64,
    },
    /// End everything now.
    Kill,
}

/// Whether the workers of an attempt are put into a control group (v2) of their own, which makes killing them certain
/// even if they fork faster than a look at /proc takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupUse {
    /// Where the machine allows it.
    #[default]
    IfPossible,
    /// Leave them in the agent's.
    Never,
}

/// One worker to start.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSpec {
    /// Its rank in the world.
    pub rank: u32,
    /// A path, or a name to look for in the worker's `PATH`.
    pub program: PathBuf,
    /// Arguments, without the program's name.
    pub args: Vec<String>,
    /// Variables to set, on top of the agent's own environment.
    pub env: BTreeMap<String, String>,
    /// Variables of the agent's environment that the worker must not see.
    pub env_remove: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// File that gets standard output and standard error, appended. Its directories are created.
    pub log_path: PathBuf,
}

/// Shows the names of the environment's variables only: their values may be secrets.
impl fmt::Debug for RankSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, program, args, env, env_remove, cwd, log_path } = self;
        f.debug_struct("RankSpec")
            .field("rank", rank)
            .field("program", program)
            .field("args.len", &args.len())
            .field("env", &env.keys())
            .field("env_remove", env_remove)
            .field("cwd", cwd)
            .field("log_path", log_path)
            .finish()
    }
}

/// What an agent tells its controller. After `StartFailed` or `Ended` it exits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromAgent {
    /// The first message.
    Hello {
        /// The agent's [`PROTOCOL_VERSION`].
        version: u32,
        /// The agent's process id.
        pid: u32,
    },
    /// All ranks run.
    Started {
        /// In the order of the request.
        workers: Vec<StartedWorker>,
        /// The control group that holds them, where one could be made.
        cgroup: Option<PathBuf>,
    },
    /// A rank could not be started; those that were have been ended.
    StartFailed {
        /// The rank at fault.
        rank: u32,
        /// Whether another try will fail in the same way.
        permanent: bool,
        /// What was wrong and what to do about it, for the user.
        message: String,
    },
    /// A rank ended by itself or by a signal. Of a rank whose first process died of a stop while its children lived on,
    /// this is how the last of these ended.
    Exited {
        /// Its rank.
        rank: u32,
        /// The process id that it was started with.
        pid: u32,
        /// Exit code, if it exited.
        code: Option<i32>,
        /// Number of the signal that ended it, if one did.
        signal: Option<i32>,
        /// Evidence that the kernel killed for want of memory, if there is any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oom: Option<OutOfMemory>,
    },
    /// Nothing of the attempt is left, except what the report says.
    Ended {
        /// How it went.
        report: StopReport,
    },
}

/// Evidence that the kernel killed a process for want of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfMemory {
    /// The limit that was in force; none if the host itself had no more.
    pub limit_bytes: Option<u64>,
    /// What the limit belongs to: the directory of a control group, or the host.
    pub place: String,
    /// Whether it was the rank's own process, or what a wrapper of it ran (code 137), and not another of its group,
    /// such as a loader of data.
    pub killed_this: bool,
}

impl OutOfMemory {
    /// For the user: `out of memory (limit 512 MiB of /sys/fs/cgroup/…)`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { limit_bytes, place, killed_this } = self;
        let whom = if *killed_this { "" } else { ": the kernel killed another process beside it" };
        match limit_bytes {
            Some(limit) => format!("out of memory{whom} (limit {} of {place})", bytes_in_words(*limit)),
            None => format!("out of memory{whom} ({place})"),
        }
    }
}

/// A rank and its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedWorker {
    /// Its rank.
    pub rank: u32,
    /// Its process id, which is also its process group's.
    pub pid: u32,
}

/// Why a line is not a message.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The other side sends more than [`MAX_MESSAGE_BYTES`] without a line end, or we were about to.
    #[error("a message is longer than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
    /// Not JSON, or not a message of this version.
    #[error("a message cannot be read or written")]
    Malformed(#[source] serde_json::Error),
}

/// One message as a line.
pub(super) fn to_line<M: Serialize>(message: &M) -> Result<Vec<u8>, ProtocolError> {
    let mut line = serde_json::to_vec(message).map_err(ProtocolError::Malformed)?;
    if line.len() >= MAX_MESSAGE_BYTES {
        return Err(ProtocolError::TooLong);
    }
    line.push(b'\n');
    Ok(line)
}

/// Bytes as they came, taken out as messages.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    /// So much was searched for a line end already.
    searched: usize,
}

impl Incoming {
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The next whole message, if it is here.
    pub(super) fn take<M: DeserializeOwned>(&mut self) -> Result<Option<M>, ProtocolError> {
        let end = self.bytes.iter().skip(self.searched).position(|byte| *byte == b'\n');
        let Some(end) = end.map(|offset| self.searched + offset) else {
            self.searched = self.bytes.len();
            return if self.searched > MAX_MESSAGE_BYTES { Err(ProtocolError::TooLong) } else { Ok(None) };
        };
        let message = serde_json::from_slice(self.bytes.get(..end).unwrap_or_default());
        self.bytes.drain(..=end);
        self.searched = 0;
        message.map(Some).map_err(ProtocolError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_however_they_are_cut() {
        let sent =
            [ToAgent::Signal { signal: 10 }, ToAgent::Stop { signal: 15, grace_ms: 30_000 }, ToAgent::Kill];
        let wire: Vec<u8> = sent.iter().flat_map(|message| to_line(message).unwrap()).collect();
        for size in 1..wire.len() {
            let mut incoming = Incoming::default();
            let mut got = Vec::new();
            for piece in wire.chunks(size) {
                incoming.buffer().extend_from_slice(piece);
                while let Some(message) = incoming.take::<ToAgent>().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, sent);
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut incoming = Incoming::default();
        incoming.buffer().resize(MAX_MESSAGE_BYTES, b' ');
        assert!(incoming.take::<ToAgent>().unwrap().is_none());
        incoming.buffer().extend_from_slice(b"  ");
        assert!(matches!(incoming.take::<ToAgent>(), Err(ProtocolError::TooLong)));
    }

    #[test]
    fn the_form_on_the_wire_is_fixed() {
        let exited = FromAgent::Exited { rank: 1, pid: 7, code: None, signal: Some(9), oom: None };
        let line = to_line(&exited).unwrap();
        assert_eq!(line, b"{\"type\":\"exited\",\"rank\":1,\"pid\":7,\"code\":null,\"signal\":9}\n");
        assert_eq!(serde_json::from_slice::<FromAgent>(&line).unwrap(), exited);
        let mut incoming = Incoming::default();
        incoming.buffer().extend_from_slice(b"{\"type\":\"dance\"}\n");
        assert!(matches!(incoming.take::<ToAgent>(), Err(ProtocolError::Malformed(_))));
    }

    #[test]
    fn want_of_memory_is_told_with_its_limit() {
        let mut oom =
            OutOfMemory { limit_bytes: Some(512 << 20), place: "/sys/fs/cgroup/x".into(), killed_this: true };
        assert_eq!(oom.sentence(), "out of memory (limit 512 MiB of /sys/fs/cgroup/x)");
        oom = OutOfMemory { limit_bytes: None, place: "this host".into(), killed_this: false };
        assert_eq!(oom.sentence(), "out of memory: the kernel killed another process beside it (this host)");
    }

    #[test]
    fn values_of_the_environment_are_not_shown() {
        let spec = RankSpec {
            rank: 0,
            program: "train".into(),
            args: vec!["--token=hidden".into()],
            env: BTreeMap::from([("KEY".to_owned(), "hidden".to_owned())]),
            env_remove: vec![],
            cwd: "/".into(),
            log_path: "/dev/null".into(),
        };
        let shown = format!("{spec:?}");
        assert!(shown.contains("KEY") && !shown.contains("hidden"), "{shown}");
    }
}
