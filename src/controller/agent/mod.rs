//! The agent: the parent of one attempt's workers on this machine, a process of its own, and the controller's end of
//! the connection to it. The agent decides nothing about the run: it starts, watches, signals, ends and reports.
//!
//! Why a process of its own: it can be a subreaper and fork cheaply however big the controller is, and when the
//! controller is killed, somebody is left who notices and ends the workers.

mod cgroup;
mod client;
mod ending;
mod heirs;
mod memory;
mod protocol;
mod serve;
mod start;
mod tree;

pub use cgroup::usable_cgroup;
pub use client::{AgentError, AgentProcess};
pub use protocol::{
    CgroupUse, FromAgent, MAX_MESSAGE_BYTES, OutOfMemory, PROTOCOL_VERSION, ProtocolError, RankSpec,
    StartedWorker, ToAgent,
};
pub use serve::serve;
pub use tree::{Swept, sweep_orphans};
