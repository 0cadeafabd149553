//! After a commit: the list, the events and the log learn of it.

use std::sync::Arc;

use tracing::info;

use super::{actor::Actor, group::Group};
use crate::{
    base::{RunId, number},
    model::{Event, EventKind, Phase, RunStatus, view::Document},
    store::ListedRun,
};

impl Actor {
    pub(super) fn publish(&mut self, group: &Group, listed: Vec<(ListedRun, Document)>) {
        let shared = Arc::clone(&self.shared);
        shared.shown.forget(group.purged.iter().chain(listed.iter().map(|(run, _)| &run.id)));
        // First what is gone: its id may have been registered anew.
        for id in &group.purged {
            shared.index.write().remove(id);
            shared.windows.remove(id);
            shared.hub.publish(id, "gone", || serde_json::json!({"run_id": id}).to_string());
        }
        shared.counters.purged.add(number::size(group.purged.len()));
        for (run, doc) in listed {
            let (id, status) = (run.id.clone(), run.status);
            shared.hub.publish(&id, "run", || self.run_frame(&id, &doc));
            shared.index.write().put(run, doc);
            if let Some(trail) = group.touched.get(&id) {
                shared.counters.events.add(number::size(trail.events.len()));
                for event in &trail.events {
                    shared.hub.publish(&id, "trail", || serde_json::to_string(event).unwrap_or_default());
                    if event.kind == EventKind::Run {
                        log_phase(&id, event);
                    }
                }
            }
            if status != RunStatus::Started {
                self.ticks.remove(&id);
                self.unsealed.ended(id, &shared.windows);
            }
        }
        let newest = group.touched.values().flat_map(|trail| &trail.events).map(|event| event.id).max();
        if let Some(newest) = newest {
            shared.newest_event.send_replace(newest);
        }
    }

    /// The run as it is listed, and how far it is.
    fn run_frame(&self, run: &RunId, doc: &Document) -> String {
        let facts = self.shared.live.get(run);
        let progress = serde_json::json!({
            "last_step": facts.as_ref().and_then(|f| f.progress.last_step()),
            "last_report_ms": facts.as_ref().and_then(|f| f.progress.last_report()),
            "last_advance_ms": facts.as_ref().and_then(|f| f.progress.last_advance(f.training)),
        });
        let open = doc.json.strip_suffix('}').unwrap_or(&doc.json);
        format!("{open},\"progress\":{progress}}}")
    }

    pub(super) fn publish_ticks(&mut self) {
        let now = self.shared.clock.now();
        for (run, points) in self.ticks.drain() {
            let Some(facts) = self.shared.live.get(&run) else { continue };
            let tick = || {
                let tick = serde_json::json!({
                    "run_id": run,
                    "last_step": facts.progress.last_step(),
                    "last_advance_ms": facts.progress.last_advance(facts.training),
                    "time_ms": now,
                    "last_metrics": facts.progress.last_metrics(),
                    "points": points,
                    "cursor": self.shared.windows.newest(&run),
                });
                tick.to_string()
            };
            self.shared.hub.publish(&run, "metrics", tick);
        }
    }
}

fn log_phase(run: &RunId, event: &Event) {
    let to = event.to.as_deref().unwrap_or_default();
    let by = event.by;
    let ended = to.parse::<Phase>().is_ok_and(Phase::is_terminal);
    if ended || event.from.is_none() {
        let why = event.reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default();
        info!(run.id = %run, run.phase = to, "run {run} is now {to}, by the {by}{why}");
    }
}
