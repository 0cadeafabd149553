//! `--notify`: tells addresses what happens to one run, from its controller, whatever head records it.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use super::options::Run;
use crate::{
    base::{Clock, Tasks},
    controller::{Callback, Called, RunContext, TrainResult},
    head::webhooks::{SigningSecret, Wire},
    model::{ControllerState, FirstFailure},
};

/// Notes that wait for a receiver that does not answer; more are left out.
const WAITING: usize = 100;
/// How long a note is tried.
const GIVE_UP: Duration = Duration::from_secs(600);
/// The last notes are delivered within this, or not at all.
const LAST: Duration = Duration::from_secs(8);

/// Notes to one receiver, in order.
#[derive(Debug)]
pub(super) struct Notify {
    notes: mpsc::Sender<Note>,
    clock: Arc<dyn Clock>,
    host: String,
}

enum Note {
    Tell {
        id: String,
        body: String,
    },
    /// Says when all that came before was delivered or given up.
    Flush(oneshot::Sender<()>),
}

impl std::fmt::Debug for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tell { .. } => "Tell",
            Self::Flush(_) => "Flush",
        })
    }
}

/// One callback for each `--notify`.
pub(super) fn callbacks(
    args: &Run,
    clock: &Arc<dyn Clock>,
    tasks: &Tasks,
) -> anyhow::Result<Vec<Arc<dyn Callback>>> {
    let secret: Option<SigningSecret> = args
        .notify_secret
        .as_ref()
        .map(|secret| secret.expose().parse())
        .transpose()
        .context("--notify-secret cannot be used")?;
    args.notify
        .iter()
        .map(|url| {
            let wire = Wire::new(url.clone(), secret.clone())?;
            let (notes, received) = mpsc::channel(WAITING);
            let host = wire.host().to_owned();
            let (stop, at) = (tasks.stopping(), Arc::clone(clock));
            drop(tasks.spawn(async move {
                tokio::select! {
                    () = deliver(wire, received, at) => {}
                    () = stop.cancelled() => {}
                }
            }));
            let notify: Arc<dyn Callback> = Arc::new(Notify { notes, clock: Arc::clone(clock), host });
            Ok(notify)
        })
        .collect()
}

async fn deliver(wire: Wire, mut notes: mpsc::Receiver<Note>, clock: Arc<dyn Clock>) {
    while let Some(note) = notes.recv().await {
        match note {
            Note::Tell { id, body } => {
                if let Err(why) = wire.deliver(&id, &body, || clock.now(), GIVE_UP).await {
                    warn!("--notify {}: a note is given up: {why}", wire.host());
                }
            }
            // Nobody may wait any more.
            Note::Flush(done) => drop(done.send(())),
        }
    }
}

impl Notify {
    fn tell(&self, run: &RunContext, kind: &str, about: Value) {
        let id = format!("msg_{}", uuid::Uuid::now_v7().simple());
        let body = json!({
            "id": id,
            "type": kind,
            "time_ms": self.clock.now(),
            "run": {
                "id": run.run_id,
                "name": run.run_name,
                "experiment": run.experiment,
                "storage_path": run.storage_path,
            },
            "data": about,
        });
        if self.notes.try_send(Note::Tell { id, body: body.to_string() }).is_err() {
            warn!("--notify {}: {WAITING} notes wait; {kind} is left out", self.host);
        }
    }
}

#[async_trait]
impl Callback for Notify {
    async fn after_state_update(
        &self,
        run: &RunContext,
        _previous: ControllerState,
        next: ControllerState,
        detail: Option<&str>,
    ) -> Called {
        let kind = match next {
            ControllerState::Preempting => "run.preempting",
            ControllerState::Restarting => "run.restarting",
            ControllerState::Resizing => "run.resizing",
            _ => return Ok(()),
        };
        self.tell(run, kind, json!({"detail": detail}));
        Ok(())
    }

    async fn before_failure_decision(&self, run: &RunContext, failure: &FirstFailure) -> Called {
        self.tell(run, "run.failure", json!({"failure": failure}));
        Ok(())
    }

    async fn after_stall_change(&self, run: &RunContext, stalled: bool) -> Called {
        self.tell(run, if stalled { "run.stalled" } else { "run.going_on" }, Value::Null);
        Ok(())
    }

    async fn after_controller_finish(&self, run: &RunContext, result: &TrainResult) -> Called {
        self.tell(run, "run.ended", json!({"result": result}));
        let (done, delivered) = oneshot::channel();
        if self.notes.try_send(Note::Flush(done)).is_err()
            || tokio::time::timeout(LAST, delivered).await.is_err()
        {
            warn!("--notify {}: the receiver does not answer; the last notes are not delivered", self.host);
        }
        Ok(())
    }
}
