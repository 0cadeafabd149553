//! Events as they happen, as server-sent events. Bounded per reader: one that is too slow is told to start anew.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use bytes::BytesMut;
use futures_util::stream;
use serde::Deserialize;
use tokio::{
    sync::broadcast::{
        self,
        error::{RecvError, TryRecvError},
    },
    time::timeout,
};
use utoipa::IntoParams;

use super::{
    extract::ApiQuery,
    problem::{AnyProblem, Problem},
    router::Head,
};
use crate::{
    base::{RunId, limits},
    state::{Frame, Subscription},
};

/// A comment is sent after this long without an event, so that a proxy does not take the silence for an end.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Frames that wait are sent together up to this size.
const CHUNK: usize = 64 * 1024;

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
    State(head): State<Head>,
    ApiQuery(params): ApiQuery<EventStreamParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if head.state.listeners() >= limits::STREAMS {
        return Err(Problem::too_many_streams(limits::STREAMS));
    }
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok());
    let subscription = head.state.subscribe(last);
    let Subscription { boot, last_seq, missed, next } = subscription;
    let now = head.state.now().as_ms();
    let reader = Reader { run: params.run, next, head };
    // An id on the first event would skip what was missed if the connection broke right after it.
    let position = if missed.as_ref().is_none_or(Vec::is_empty) {
        format!("id: {boot}-{last_seq}\n")
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
    run: Option<RunId>,
    next: broadcast::Receiver<Arc<Frame>>,
    head: Head,
}

impl Reader {
    /// What comes next, with all that waits already: one write to the socket for many frames.
    async fn read(&mut self) -> Option<Bytes> {
        loop {
            let received = tokio::select! {
                received = timeout(KEEP_ALIVE, self.next.recv()) => received,
                () = self.head.stop.cancelled() => return None,
            };
            let first = match received {
                Err(_) => return Some(Bytes::from_static(b": keep-alive\n\n")),
                Ok(Err(RecvError::Closed)) => return None,
                Ok(Err(RecvError::Lagged(_))) => return Some(self.start_anew()),
                Ok(Ok(frame)) => self.write(&frame),
            };
            if self.next.is_empty() {
                if first.is_some() {
                    return first;
                }
                continue;
            }
            let mut many = BytesMut::from(first.as_deref().unwrap_or_default());
            while many.len() < CHUNK {
                match self.next.try_recv() {
                    Ok(frame) => many.extend(self.write(&frame)),
                    Err(TryRecvError::Lagged(_)) => {
                        let reset = self.start_anew();
                        many.extend_from_slice(&reset);
                    }
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            if !many.is_empty() {
                return Some(many.freeze());
            }
        }
    }

    fn write(&self, frame: &Frame) -> Option<Bytes> {
        self.run.as_ref().is_none_or(|run| *run == frame.run).then(|| frame.text.clone())
    }

    /// Too slow: what waits is old, so that it goes on with what is new.
    fn start_anew(&mut self) -> Bytes {
        self.next = self.next.resubscribe();
        self.head.state.count_reset();
        reset()
    }
}

fn reset() -> Bytes {
    Bytes::from_static(
        b"event: reset\ndata: {\"reason\":\"events were missed; load what you show again\"}\n\n",
    )
}
