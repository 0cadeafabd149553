//! Events as they happen, as server-sent events. Bounded per reader: one that is too slow is told to start anew.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use futures_util::stream;
use serde::Deserialize;
use tokio::{sync::broadcast::error::RecvError, time::timeout};
use utoipa::IntoParams;

use super::{
    extract::ApiQuery,
    problem::{AnyProblem, Problem},
    router::HeadOptions,
};
use crate::{
    base::RunId,
    state::{Frame, Subscription},
};

/// A comment is sent after this long without an event, so that a proxy does not take the silence for an end.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which events are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventStreamParams {
    /// Only events of this run.
    run: Option<RunId>,
}

/// Events as they happen: `run` (a run was added or changed), `trail` (an entry of a trail), `metrics` (a tick: there
/// are new points), `reset` (something was missed: load again). Resumes after `Last-Event-ID`.
#[utoipa::path(get, path = "/api/train/events", tag = "read", params(EventStreamParams),
    responses((status = 200, body = String, content_type = "text/event-stream"), AnyProblem))]
pub(super) async fn follow_events(
    State(head): State<HeadOptions>,
    ApiQuery(params): ApiQuery<EventStreamParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok());
    let subscription = head.state.subscribe(last);
    let Subscription { boot, last_seq, missed, next } = subscription;
    let now = head.state.now().as_ms();
    let reader = Reader { boot, run: params.run, next, head };
    // An id on the first event would skip what was missed if the connection broke right after it.
    let position = if missed.as_ref().is_none_or(Vec::is_empty) {
        format!("id: {}-{last_seq}\n", reader.boot)
    } else {
        String::new()
    };
    let hello = format!("{position}event: hello\ndata: {{\"server_time_ms\":{now}}}\n\n");
    let mut first = VecDeque::from([Bytes::from(hello)]);
    match missed {
        Some(frames) => first.extend(frames.iter().filter_map(|f| reader.write(f))),
        None => first.push_back(reset()),
    }
    let body = stream::unfold((first, reader), |(mut first, mut reader)| async move {
        let bytes = match first.pop_front() {
            Some(bytes) => bytes,
            None => reader.read().await?,
        };
        Some((Ok::<_, Infallible>(bytes), (first, reader)))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

struct Reader {
    boot: String,
    run: Option<RunId>,
    next: tokio::sync::broadcast::Receiver<Arc<Frame>>,
    head: HeadOptions,
}

impl Reader {
    async fn read(&mut self) -> Option<Bytes> {
        loop {
            let received = tokio::select! {
                received = timeout(KEEP_ALIVE, self.next.recv()) => received,
                () = self.head.stop.cancelled() => return None,
            };
            match received {
                Err(_) => return Some(Bytes::from_static(b": keep-alive\n\n")),
                Ok(Ok(frame)) => {
                    if let Some(bytes) = self.write(&frame) {
                        return Some(bytes);
                    }
                }
                Ok(Err(RecvError::Lagged(_))) => return Some(reset()),
                Ok(Err(RecvError::Closed)) => return None,
            }
        }
    }

    fn write(&self, frame: &Frame) -> Option<Bytes> {
        if self.run.as_ref().is_some_and(|run| *run != frame.run) {
            return None;
        }
        // JSON as we write it has no line breaks.
        let data = String::from_utf8_lossy(&frame.data);
        Some(Bytes::from(format!(
            "id: {}-{}\nevent: {}\ndata: {data}\n\n",
            self.boot, frame.seq, frame.event
        )))
    }
}

fn reset() -> Bytes {
    Bytes::from_static(
        b"event: reset\ndata: {\"reason\":\"events were missed; load what you show again\"}\n\n",
    )
}
