//! Server-sent events: what happens is told, and a broken connection misses nothing.

use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::harness::{Head, request};

struct Stream {
    body: axum::body::BodyDataStream,
    text: String,
}

impl Stream {
    async fn open(head: &Head, query: &str, last_event_id: Option<&str>) -> Self {
        let mut request = request("GET", &format!("/api/train/events{query}"), None, None);
        if let Some(id) = last_event_id {
            request.headers_mut().insert("last-event-id", id.parse().unwrap());
        }
        let body: Body = head.raw(request).await.into_body();
        Self { body: body.into_data_stream(), text: String::new() }
    }

    /// The next event: id, name, data.
    async fn next(&mut self) -> (String, String, Value) {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let prefix = format!("{name}: ");
                    event.lines().find_map(|l| l.strip_prefix(&prefix)).unwrap_or_default().to_owned()
                };
                let found = (field("id"), field("event"), field("data"));
                self.text = rest.to_owned();
                return (found.0, found.1, serde_json::from_str(&found.2).unwrap());
            }
            let chunk = tokio::time::timeout(Duration::from_secs(10), self.body.next());
            let bytes = chunk.await.expect("an event within 10 s").expect("the stream goes on").unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    async fn until(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> (String, Value) {
        loop {
            let (id, event, data) = self.next().await;
            if event == name && fits(&data) {
                return (id, data);
            }
        }
    }
}

#[tokio::test]
async fn changes_are_told_and_a_reconnect_has_no_gap() {
    let head = Head::new().await;
    let mut stream = Stream::open(&head, "", None).await;
    assert_eq!(stream.next().await.1, "hello");
    let run = head.running("r", 1).await;
    let (id, told) = stream.until("run", |d| d["phase"] == "RUNNING").await;
    assert_eq!(told["workers"][0]["status"], "ALIVE");
    drop(stream);
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let mut again = Stream::open(&head, "", Some(&id)).await;
    let (_, told) = again.until("run", |_| true).await;
    assert_eq!(told["run_status"], "FINISHED");
    let mut lost = Stream::open(&head, "", Some("another-head-7")).await;
    lost.until("reset", |_| true).await;
}

#[tokio::test]
async fn a_stream_of_one_run_tells_of_that_run_only_with_ticks_of_its_metrics() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let mut stream = Stream::open(&head, "?run=r", None).await;
    assert_eq!(stream.next().await.1, "hello");
    head.running("other", 1).await;
    let report = json!({"writer": "w", "seq": 1, "reports": [{"step": 4, "metrics": {"loss": 0.25}}]});
    head.say(&run, "reports", report).await;
    let (_, event, tick) = stream.next().await;
    assert_eq!(event, "metrics");
    assert_eq!((&tick["run_id"], &tick["last_step"], &tick["points"]), (&json!("r"), &json!(4), &json!(1)));
    assert_eq!(tick["last_metrics"], json!({"loss": 0.25}));
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_told_to_start_anew_and_then_hears_what_is_new() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let mut slow = Stream::open(&head, "", None).await;
    assert_eq!(slow.next().await.1, "hello");
    // More than is kept for anybody.
    let mut beats = Vec::new();
    for i in 0..8_500 {
        let body = json!({"notes": format!("{i}")});
        beats.push(async { head.patch("/api/train/runs/r", body).await });
    }
    futures_util::stream::iter(beats).buffer_unordered(256).for_each(|_| async {}).await;
    slow.until("reset", |_| true).await;
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let (_, told) = slow.until("run", |_| true).await;
    assert_eq!(told["run_status"], "FINISHED", "what is old is not told any more");
    let figures = head.get("/metrics").await.body;
    assert!(figures.as_str().unwrap().contains("trainhead_stream_resets_total 1"), "{figures}");
}

#[tokio::test]
async fn a_deleted_run_is_told_to_be_gone() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let mut stream = Stream::open(&head, "?run=r", None).await;
    head.delete("/api/train/runs/r").await;
    let (_, told) = stream.until("run", |_| true).await;
    assert!(told["trashed_at_ms"].is_i64());
    head.post("/api/train/gc", None, json!({"purge": true, "trash_for_ms": 0})).await;
    assert_eq!(stream.until("gone", |_| true).await.1, json!({"run_id": "r"}));
}
