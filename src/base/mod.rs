//! Building blocks that do not know what a run is: ids, time, limits, secrets, tasks, files with holes and their tails,
//! searching in logs, masking, what a host has.

pub mod clock;
pub mod error;
pub mod host;
pub mod http;
pub mod ids;
pub mod invalid;
pub mod limits;
mod log_errors;
pub mod log_limit;
pub mod log_search;
pub mod masking;
pub mod number;
pub mod readable;
pub mod sampler;
pub mod secret;
pub mod sparse;
pub mod tail;
pub mod tasks;

pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use ids::{ActorId, AttemptId, RunId};
pub use invalid::Invalid;
pub use sampler::HostSampler;
pub use secret::{Secret, TokenHash};
pub use tasks::{Tasks, until};
