//! The training controller: one drives one run, from registration to its final word. A plain machine decides
//! ([`machine`]), a loop performs ([`run`]); workers live in a [`group::WorkerGroup`]; what is said to the head goes
//! through the [`outbox`], so that training never waits for it.

pub mod agent;
mod agent_group;
mod begin;
mod callbacks;
mod checkpoints;
mod closure_group;
mod failure;
#[cfg(test)]
mod fake_head;
pub mod group;
mod handle;
mod keep;
mod last_report;
mod log_shipper;
mod machine;
mod options;
mod outbox;
mod perform;
mod policy;
pub mod process;
mod run;
mod session;
mod session_server;
mod stacks;
mod steps;
mod trials;
mod validation;
mod words;

pub use agent_group::{AgentGroup, Launch, Orphans};
pub use callbacks::{Callback, CallbackError, Called, Reported, RunContext};
pub use checkpoints::{
    CheckpointOptions, Consistency, Desk, HandedShard, Listed, Manifest, ManifestFile, Newest, UploadMode,
    Usable, storage as checkpoint_storage,
};
pub use closure_group::{ClosureGroup, TrainFn};
pub use handle::ControllerHandle;
pub use options::{AttemptSummary, ControllerOptions, ControllerView, TrainResult, default_stop_signal};
pub use outbox::{About, FoundSpool, Leftover, Tally, Undelivered, is_spool_dir, spools_of_run};
pub use policy::{FailurePolicy, HealthPolicy, OnPreemption, ScalingPolicy, Why};
pub use run::TrainController;
pub use session::{
    Context, Notice, ReportAnswer, Reporter, Reporting, Session, SessionError, SessionInfo, TrialError,
    TrialResult, WorkerReport, WorkerSession,
};
pub use trials::{Reset, Trial, TrialEnd, TrialOptions, TrialWorker};
pub use validation::{ValidateBy, ValidateFn, Validated, Validation};
