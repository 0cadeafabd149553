//! A head without a network: requests go into the router, the clock stands still until it is turned.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, Response, StatusCode, header},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use trainhead::{
    base::{ManualClock, Timestamp},
    head::{AllowedHosts, Assets, HeadOptions, router},
    model::ledger::NodeOffer,
    state::{DataDir, StateHandle, StateOptions, StateTask, start},
};

pub(crate) const START: i64 = 1_800_000_000_000;

pub(crate) struct Head {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) data_dir: DataDir,
    pub(crate) state: StateHandle,
    router: Router,
    task: StateTask,
    dir: TempDir,
}

/// A head that does not run, with its data.
pub(crate) struct Stopped {
    dir: TempDir,
    clock: Arc<ManualClock>,
}

impl Stopped {
    pub(crate) async fn start(self) -> Head {
        Head::open(self.dir, self.clock).await
    }
}

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

/// A registered run with its token.
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) token: String,
}

/// The head's own node, the same on every machine.
fn node() -> NodeOffer {
    NodeOffer {
        node_id: "head".into(),
        node_ip: "127.0.0.1".into(),
        resources: [("CPU".to_owned(), 4.0), ("licence".to_owned(), 1.0)].into(),
        gpu_ids: vec!["0".into(), "1".into()],
    }
}

impl Head {
    pub(crate) async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        Self::open(dir, Arc::new(ManualClock::at(Timestamp::from_ms(START)))).await
    }

    async fn open(dir: TempDir, clock: Arc<ManualClock>) -> Self {
        let data_dir = DataDir::open(dir.path()).unwrap();
        let lock = data_dir.try_lock().unwrap().expect("nobody else holds a temporary directory");
        let options =
            StateOptions { clock: clock.clone(), node: node(), ..StateOptions::new(data_dir.clone(), lock) };
        let (state, task) = start(options).await.unwrap();
        let router = router(HeadOptions {
            state: state.clone(),
            hosts: AllowedHosts::loopback_and([]),
            base_path: "/".into(),
            assets: Assets::Embedded,
            stop: CancellationToken::new(),
        });
        Self { clock, data_dir, state, router, task, dir }
    }

    /// Stops the head and starts another one on the same data.
    pub(crate) async fn restart(self) -> Self {
        self.stop().await.start().await
    }

    /// Stops the head.
    pub(crate) async fn stop(self) -> Stopped {
        let Self { clock, task, dir, router, state, .. } = self;
        drop((router, state));
        assert!(task.shutdown(Duration::from_secs(10)).await);
        Stopped { dir, clock }
    }

    pub(crate) async fn raw(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.raw(request).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), 64 << 20).await.unwrap();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Answer { status, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(request("GET", path, None, None)).await
    }

    pub(crate) async fn post(&self, path: &str, token: Option<&str>, body: Value) -> Answer {
        self.send(request("POST", path, token, Some(body))).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(request("PATCH", path, None, Some(body))).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(request("DELETE", path, None, None)).await
    }

    pub(crate) async fn register(&self, body: Value) -> Run {
        let answer = self.post("/api/train/runs", None, body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
        Run {
            id: answer.body["run"]["id"].as_str().unwrap().to_owned(),
            token: answer.body["controller_token"].as_str().unwrap().to_owned(),
        }
    }

    /// A run with one attempt of `workers` running ranks.
    pub(crate) async fn running(&self, id: &str, workers: u32) -> Run {
        let run =
            self.register(json!({"id": id, "name": id, "controller": {"actor_id": format!("c-{id}")}})).await;
        self.attempt(&run, &format!("{id}-a0"), workers).await;
        run
    }

    pub(crate) async fn attempt(&self, run: &Run, attempt: &str, workers: u32) {
        let begun = self.say(run, "attempts", json!({"attempt_id": attempt, "num_workers": workers})).await;
        assert_eq!(begun.status, StatusCode::CREATED, "{}", begun.body);
        let workers: Vec<Value> = (0..workers)
            .map(|rank| {
                json!({"actor_id": format!("{attempt}-w{rank}"), "world_rank": rank, "local_rank": rank,
                "node_id": "host", "node_ip": "127.0.0.1", "pid": 1000 + rank})
            })
            .collect();
        let running =
            self.say(run, &format!("attempts/{attempt}/running"), json!({"workers": workers})).await;
        assert_eq!(running.status, StatusCode::OK, "{}", running.body);
    }

    pub(crate) async fn say(&self, run: &Run, verb: &str, body: Value) -> Answer {
        self.post(&format!("/api/train/runs/{}/{verb}", run.id), Some(&run.token), body).await
    }

    pub(crate) async fn heartbeat(&self, run: &Run) -> Value {
        let body = json!({"runs": [{"run_id": run.id, "controller_token": run.token}]});
        let answer = self.post("/api/train/heartbeats", None, body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        answer.body["runs"][0].clone()
    }

    pub(crate) async fn show(&self, id: &str) -> Value {
        let answer = self.get(&format!("/api/train/runs/{id}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        answer.body
    }

    /// Lets time pass as it does: in steps, with a look at the list at each.
    pub(crate) async fn pass(&self, time: Duration) {
        let step = Duration::from_secs(2);
        let mut left = time;
        while !left.is_zero() {
            let now = left.min(step);
            self.clock.advance(now);
            left -= now;
            assert_eq!(self.get("/api/train/runs?page_size=1").await.status, StatusCode::OK);
        }
    }

    /// No view of the run disagrees with another.
    pub(crate) async fn assert_consistent(&self, id: &str) {
        let run = self.show(id).await;
        let ended = run["run_status"] != "STARTED";
        assert_eq!(run["end_time_ms"].is_null(), !ended, "{run}");
        assert_eq!(run["duration_ms"].is_null(), !ended, "{run}");
        assert_eq!(run["controller_actor_status"] == "DEAD", ended, "{run}");
        for (i, attempt) in run["attempts"].as_array().unwrap().iter().enumerate() {
            let live = attempt["status"] == "PENDING" || attempt["status"] == "RUNNING";
            assert!(!(live && ended), "{run}");
            assert_eq!(attempt["ordinal"], i);
            assert_eq!(attempt["end_time_ms"].is_null(), live);
            for worker in attempt["workers"].as_array().unwrap() {
                assert!(live || worker["status"] == "DEAD", "{run}");
            }
        }
        let list = self.get(&format!("/api/train/runs?q={id}")).await.body;
        let listed = list["train_runs"].as_array().unwrap().iter().find(|r| r["id"] == id).unwrap().clone();
        for (field, value) in listed.as_object().unwrap() {
            assert_eq!(*value, run[field], "{field}");
        }
    }
}

pub(crate) fn request(method: &str, path: &str, token: Option<&str>, body: Option<Value>) -> Request<Body> {
    let mut builder = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:8420");
    if let Some(token) = token {
        builder = builder.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    match body {
        Some(body) => builder
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .unwrap(),
        None => builder.body(Body::empty()).unwrap(),
    }
}

/// The answer is a problem of this kind.
#[track_caller]
pub(crate) fn assert_problem(answer: &Answer, status: u16, slug: &str) {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.body);
    assert_eq!(answer.body["type"], format!("/problems/{slug}"), "{}", answer.body);
    assert_eq!(answer.body["status"], status);
    assert!(answer.body["request_id"].is_string(), "{}", answer.body);
    assert!(answer.body["detail"].as_str().is_some_and(|d| !d.is_empty()));
}
