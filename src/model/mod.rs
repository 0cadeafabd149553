//! The pure domain: runs, attempts, workers, their transitions, leases, metrics. Nothing here is async, does I/O
//! or reads a clock; times are handed in.

mod closed_enum;

pub mod attempt;
mod attempt_transitions;
pub mod branches;
pub mod buckets;
pub mod checkpoint;
mod checkpoint_transitions;
pub mod commands;
mod demand;

pub mod end_transitions;
pub mod event;
pub mod failure;
pub mod keyed;
pub mod lease;
pub mod ledger;
pub mod metrics;
pub mod names;
pub mod people;
pub mod phase;
pub mod placement;
mod plan;
pub mod points;
pub mod process;
pub mod progress;
mod ray_job;
mod ray_settings;
pub mod ray_v1;
pub mod ray_v2;
pub mod ray_worker;
pub mod record;
pub mod refusal;
pub mod retention;
pub mod run;
pub mod seqs;
pub mod series;
pub mod settings;
pub mod thin;
pub mod track;
mod transitions;
pub mod verbs;
pub mod view;
pub mod worker;

pub use attempt::{Attempt, AttemptStatus, EndReason, StopReport};
pub use checkpoint::{Checkpoint, CheckpointState, RecordCheckpoint};
pub use event::{Actor, Event, EventKind, Trail};
pub use failure::FirstFailure;
pub use phase::{ControllerState, Phase, RunStatus};
pub use process::ProcessIdentity;
pub use record::{NumFailures, RunRecord, Tally};
pub use refusal::Refusal;
pub use worker::{Exit, Worker, WorkerStatus};
