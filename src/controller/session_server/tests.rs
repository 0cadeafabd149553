//! The session's socket, as a client in any language sees it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::*;
use crate::{
    base::{Clock, RunId, SystemClock},
    controller::{
        checkpoints::{CheckpointOptions, Desk},
        session::SessionInfo,
    },
};

struct Place {
    dir: TempDir,
    tasks: Tasks,
}

impl Place {
    async fn new() -> Self {
        let (dir, tasks) = (tempfile::Builder::new().prefix("th-").tempdir().unwrap(), Tasks::new());
        let info = SessionInfo {
            run_id: RunId::generate(),
            run_name: "r".into(),
            experiment: None,
            storage_path: dir.path().into(),
            grace_period_ms: 0,
            config: Map::new(),
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let (run, at, options) = (info.run_id.clone(), dir.path().join("run"), CheckpointOptions::default());
        let desk = Desk::open(options, run, None, at, Arc::clone(&clock), &tasks);
        desk.begin_attempt(1, 2).await.unwrap();
        let session = Arc::new(Session::new(info, desk, clock));
        let from = Usable {
            number: 4,
            step: 9,
            attempt: 0,
            path: Some("/from/here".into()),
            metrics: BTreeMap::new(),
        };
        session.begin_attempt(1, 0, 2, Some(from));
        serve(session, &dir.path().join("s"), &tasks).unwrap();
        Self { dir, tasks }
    }

    /// Status and body of one request.
    async fn ask(&self, method: &str, target: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = UnixStream::connect(self.dir.path().join("s")).await.unwrap();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    async fn refused(&self, method: &str, target: &str, body: Value) -> Value {
        let (status, problem) = self.ask(method, target, body).await;
        assert_eq!(status, 422, "{problem}");
        problem["field"].clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

#[tokio::test]
async fn a_worker_hears_what_it_goes_on_from_and_what_came_of_its_reports() {
    let place = Place::new().await;
    let from = json!({"number": 4, "step": 9, "attempt": 0, "path": "/from/here", "metrics": {}});
    let (status, context) = place.ask("GET", "/context?rank=1", Value::Null).await;
    assert_eq!((status, &context["checkpoint"], &context["trial"]), (200, &from, &Value::Null));
    assert_eq!(context["reporting"], "immediate");
    let (_, latest) = place.ask("GET", "/checkpoint?rank=1", Value::Null).await;
    assert_eq!(latest, json!({"checkpoint": from}));
    let body = json!({"rank": 1, "seq": 5, "metrics": {"a": 1}});
    for _ in 0..2 {
        let (status, answer) = place.ask("POST", "/report", body.clone()).await;
        let expected = json!({"stop": false, "report_index": 10, "preemption": null, "checkpoint": null});
        assert_eq!((status, answer), (200, expected), "behind the checkpoint's step, and once");
    }
    let target = "/checkpoints?rank=0&consistency=committed&after=4&timeout_s=0.5";
    assert_eq!(place.ask("GET", target, Value::Null).await, (200, json!({"checkpoints": []})));
}

#[tokio::test]
async fn what_cannot_be_is_a_problem_with_its_field() {
    let place = Place::new().await;
    let report = |checkpoint: Value| json!({"rank": 0, "metrics": {}, "checkpoint": checkpoint});
    let nowhere = json!({"path": "/nowhere/at/all", "upload_mode": "async", "delete_local": true});
    assert_eq!(place.refused("POST", "/report", report(nowhere)).await, "checkpoint.path");
    let mode = json!({"path": "/", "upload_mode": "later"});
    assert_eq!(place.refused("POST", "/report", report(mode)).await, "checkpoint.upload_mode");
    assert_eq!(place.refused("GET", "/checkpoint?rank=2", Value::Null).await, "rank");
    assert_eq!(place.refused("GET", "/checkpoints?rank=0&timeout_s=-1", Value::Null).await, "timeout_s");
    assert_eq!(place.refused("GET", "/trial?rank=0", Value::Null).await, Value::Null);
    let error = json!({"rank": 0, "error": {"message": "boom"}});
    assert_eq!(place.refused("POST", "/finish", error).await, "error");
    assert_eq!(place.ask("POST", "/finish", json!({"rank": 0, "value": 7})).await, (200, json!({})));
}
