//! The training controller: one drives one run, from registration to its final word. A plain machine decides
//! ([`machine`]), a loop performs ([`run`]); workers live in a [`group::WorkerGroup`]; what is said to the head goes
//! through the [`outbox`], so that training never waits for it.

pub mod agent;
mod agent_group;
mod closure_group;
mod failure;
#[cfg(test)]
mod fake_head;
pub mod group;
mod last_report;
#[cfg_attr(not(test), expect(dead_code, reason = "a controller whose head is elsewhere will start it"))]
mod log_shipper;
pub mod machine;
mod options;
mod outbox;
mod policy;
pub mod process;
mod run;
mod session;
mod session_server;
mod steps;
mod words;

pub use agent_group::{AgentGroup, Launch, Orphans};
pub use closure_group::{ClosureGroup, TrainFn};
pub use options::{ControllerOptions, ControllerView, TrainResult, default_stop_signal};
pub use policy::FailurePolicy;
pub use run::{ControllerHandle, TrainController};
pub use session::{ReportAnswer, Session, SessionError, WorkerSession};
