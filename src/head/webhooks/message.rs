//! One event as a receiver gets it. Made once; each attempt has its own time and so its own signature.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    base::Timestamp,
    model::{Event, EventKind},
    state::StateHandle,
};

/// An event on its way.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// The same at each attempt, and of no other event or hook: receivers tell repetitions by it.
    pub(super) id: String,
    /// JSON.
    pub(super) body: String,
}

#[derive(Serialize)]
struct Body<'a> {
    id: i64,
    r#type: String,
    time_ms: Timestamp,
    event: &'a Event,
    run: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
}

impl Message {
    pub(super) async fn new(event: &Event, hook: &str, server: Option<&str>, state: &StateHandle) -> Self {
        // The event is worth more than the run beside it.
        let doc = state.listed(&event.run_id).await.ok().flatten();
        let body = Body {
            id: event.id,
            r#type: type_of(event),
            time_ms: event.time_ms,
            event,
            run: doc.as_deref().and_then(|doc| serde_json::from_slice(doc).ok()),
            server,
        };
        // Ids of events are those of one data directory; with the run and the time they are unique for the receiver.
        let identity = format!("{hook} {} {} {}", event.id, event.run_id, event.time_ms.as_ms());
        let hash = blake3::hash(identity.as_bytes()).to_hex();
        Self {
            id: format!("msg_{}", &hash.as_str()[..32]),
            // An event holds nothing that JSON cannot.
            body: serde_json::to_string(&body).unwrap_or_default(),
        }
    }
}

/// `run.finished`, `worker.dead`: a word that receivers may route by.
fn type_of(event: &Event) -> String {
    let to = match event.kind {
        EventKind::Run | EventKind::Attempt | EventKind::Worker => {
            event.to.as_deref().unwrap_or("changed").to_ascii_lowercase()
        }
        EventKind::Checkpoint => event.to.as_deref().unwrap_or("unpinned").to_ascii_lowercase(),
        EventKind::Stop => "requested".to_owned(),
        // Its `to` is an actor's id.
        EventKind::Controller | EventKind::Annotation => "changed".to_owned(),
        EventKind::Trash if event.to.is_some() => "put".to_owned(),
        EventKind::Trash => "restored".to_owned(),
    };
    format!("{}.{to}", event.kind)
}
