//! What can be asked of the StateActor.

use tokio::sync::oneshot;

use super::{Ack, StateError, WebhookPlace};
use crate::{
    base::{ActorId, RunId, Secret},
    model::{
        commands::{Heartbeat, HeartbeatAnswer, RegisterRun, Registration, StopRun},
        metrics::Stored,
        people::{AnnotateRun, Pin},
        points::Block,
        verbs::{BeginAttempt, Begun, RunVerb},
    },
    store::metrics::Sealing,
};

/// Where an answer goes. It is sent after the commit, or with the reason why there was none.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StateError>>;

/// A batch of metrics whose points passed all checks.
#[derive(Debug)]
pub(super) struct Points {
    pub(super) writer: ActorId,
    pub(super) seq: u64,
    pub(super) attempt: u32,
    pub(super) rank: u32,
    pub(super) blocks: Vec<Block>,
}

/// What people may do to a run besides stopping it.
#[derive(Debug)]
pub(super) enum Edit {
    Annotate(AnnotateRun),
    Pin(u64, Pin),
    Trash,
    Restore,
}

/// One command, typed.
#[derive(Debug)]
pub(super) enum Command {
    Register {
        run: RunId,
        /// Its secrets are masked.
        body: Box<RegisterRun>,
        /// Of the body as it was sent.
        body_hash: String,
        reply: Reply<(Registration, Ack)>,
    },
    Verb {
        run: RunId,
        token: Secret,
        verb: RunVerb,
        reply: Reply<Ack>,
    },
    BeginAttempt {
        run: RunId,
        token: Secret,
        body: BeginAttempt,
        reply: Reply<(Begun, Ack)>,
    },
    Report {
        run: RunId,
        token: Secret,
        points: Points,
        reply: Reply<Stored>,
    },
    Heartbeats {
        beats: Vec<Heartbeat>,
        reply: Reply<Vec<HeartbeatAnswer>>,
    },
    Stop {
        run: RunId,
        body: StopRun,
        reply: Reply<Ack>,
    },
    /// The controller was heard of in another way.
    Contact {
        run: RunId,
        token: Secret,
        reply: Reply<()>,
    },
    /// What people do to an ended run, or to a run's annotations.
    Edit {
        run: RunId,
        edit: Edit,
        reply: Reply<Ack>,
    },
    /// Delete runs for good that are in the trash; how many were.
    Purge {
        runs: Vec<RunId>,
        reply: Reply<Vec<RunId>>,
    },
    /// Bring the records in line with what is known of the controllers.
    Reconcile {
        reply: Reply<()>,
    },
    /// A stream's batches were compressed: chunks in their place.
    Seal {
        run: RunId,
        /// The run has ended, and nothing is left to do when this is written.
        last: bool,
        sealing: Box<Sealing>,
        reply: Reply<()>,
    },
    /// Keep a webhook's place in the trail.
    KeepWebhook {
        place: WebhookPlace,
        reply: Reply<()>,
    },
}

impl Command {
    /// The runs whose records it needs.
    pub(super) fn runs(&self) -> Vec<RunId> {
        match self {
            Self::Register { run, .. }
            | Self::Verb { run, .. }
            | Self::BeginAttempt { run, .. }
            | Self::Report { run, .. }
            | Self::Stop { run, .. }
            | Self::Contact { run, .. }
            | Self::Edit { run, .. } => vec![run.clone()],
            Self::Purge { runs, .. } => runs.clone(),
            Self::Heartbeats { beats, .. } => beats.iter().map(|b| b.run_id.clone()).collect(),
            Self::Seal { .. } | Self::Reconcile { .. } | Self::KeepWebhook { .. } => Vec::new(),
        }
    }

    /// Answers that it was not carried out.
    pub(super) fn refuse(self, error: StateError) {
        // A caller that is gone needs no answer.
        match self {
            Self::Register { reply, .. } => drop(reply.send(Err(error))),
            Self::Verb { reply, .. } | Self::Stop { reply, .. } | Self::Edit { reply, .. } => {
                drop(reply.send(Err(error)));
            }
            Self::BeginAttempt { reply, .. } => drop(reply.send(Err(error))),
            Self::Purge { reply, .. } => drop(reply.send(Err(error))),
            Self::Report { reply, .. } => drop(reply.send(Err(error))),
            Self::Heartbeats { reply, .. } => drop(reply.send(Err(error))),
            Self::Contact { reply, .. }
            | Self::Seal { reply, .. }
            | Self::KeepWebhook { reply, .. }
            | Self::Reconcile { reply } => {
                drop(reply.send(Err(error)));
            }
        }
    }
}
