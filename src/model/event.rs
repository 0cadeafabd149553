//! The trail: who changed what, when, why, and on what evidence.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::closed_enum::closed_enum;
use crate::base::{RunId, Timestamp};

closed_enum! {
    /// What an event is about.
    EventKind {
        /// The run changed its phase.
        Run = "run",
        /// An attempt changed its status.
        Attempt = "attempt",
        /// A worker changed its status.
        Worker = "worker",
        /// Somebody asked the run to stop.
        Stop = "stop",
        /// Another controller took over, or the same one came back.
        Controller = "controller",
        /// Somebody changed its name, notes or tags.
        Annotation = "annotation",
        /// It was put into the trash or taken out of it.
        Trash = "trash",
        /// A checkpoint changed its state, or was pinned.
        Checkpoint = "checkpoint",
    }
}

closed_enum! {
    /// Who made a change.
    Actor {
        /// The run's controller.
        Controller = "controller",
        /// A person, by the API or a signal.
        User = "user",
        /// TrainHead, from what it knows of the controller.
        Reconciler = "reconciler",
    }
}

/// One change, as it is kept and shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Position in the trail of the whole head; 0 until it is stored.
    pub id: i64,
    /// The run it is about.
    pub run_id: RunId,
    /// When, by the server's clock.
    pub time_ms: Timestamp,
    /// What it is about.
    pub kind: EventKind,
    /// The state before.
    pub from: Option<String>,
    /// The state after.
    pub to: Option<String>,
    /// Who did it.
    pub by: Actor,
    /// Why, in a sentence.
    pub reason: Option<String>,
    /// Ordinal of the attempt it is about.
    pub attempt: Option<u32>,
    /// World rank of the worker it is about.
    pub rank: Option<u32>,
    /// What was known: exit, lease, process.
    #[schema(value_type = Option<Object>)]
    pub evidence: Option<serde_json::Value>,
}

/// What a command changed: the events, and which rows must be written.
#[derive(Debug, Default)]
pub struct Trail {
    /// Events in order.
    pub events: Vec<Event>,
    /// Ordinals of attempts whose own row changed.
    pub attempts: BTreeSet<u32>,
    /// Workers whose row changed, as (attempt ordinal, world rank).
    pub workers: BTreeSet<(u32, u32)>,
    /// Numbers of checkpoints whose row changed.
    pub checkpoints: BTreeSet<u64>,
}
