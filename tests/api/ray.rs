//! Ray's two views: their shape is that of Ray's own answers, and what they say is true.

use std::{
    collections::BTreeSet,
    process::{Child, Command, Stdio},
    time::Duration,
};

use axum::{
    body::{Body, to_bytes},
    http::{StatusCode, header},
};
use serde_json::{Value, json};
use trainhead::{
    base::{
        ActorId, AttemptId, RunId, Timestamp,
        host::{GpuProcess, GpuStats, ProcessStats, WorkerStats},
        secret::SigningKey,
    },
    model::{
        RunRecord, Trail,
        commands::RegisterRun,
        ray_v1::RayV1Run,
        ray_v2::RayV2Run,
        verbs::{AttemptRunning, BeginAttempt},
        view::StatsOf,
    },
    state::processes::identify,
};

use crate::{
    harness::{Head, Run, START, assert_problem, request},
    ray_shape::{Json, Shape, places},
};

const V1: &str = "/api/train/v2/runs";
const V2: &str = "/api/train/v2/runs/v1";

/// Looks at every view of every run, again and again, and remembers which objects it has seen.
struct Looker {
    v1: Shape,
    v2: Shape,
    seen: BTreeSet<String>,
}

impl Looker {
    fn new() -> Self {
        Self { v1: Shape::v1(), v2: Shape::v2(), seen: BTreeSet::new() }
    }

    /// Both views, once they have the shape and agree with what TrainHead itself says. By id.
    async fn look(&mut self, head: &Head, id: &str) -> (Value, Value) {
        let mut both = Vec::new();
        for (path, shape) in [(V1, &self.v1), (V2, &self.v2)] {
            let response = head.raw(request("GET", path, None, None)).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
            let bytes = to_bytes(response.into_body(), 64 << 20).await.unwrap();
            let json: Json = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(shape.complaints(&json), Vec::<String>::new(), "{path}");
            self.seen.extend(places(&json).into_iter().map(|place| format!("{path} {place}")));
            let list: Value = serde_json::from_slice(&bytes).unwrap();
            let runs = list["train_runs"].as_array().unwrap();
            both.push(runs.iter().find(|run| run["id"] == id).unwrap().clone());
        }
        let [v1, v2] = both.try_into().unwrap();
        head.assert_consistent(id).await;
        assert_true(&head.show(id).await, &v1, &v2);
        (v1, v2)
    }
}

/// Ray's views say the same as TrainHead's own.
fn assert_true(run: &Value, v1: &Value, v2: &Value) {
    let live = run["run_status"] == "STARTED";
    let ns = |ms: &Value| json!(ms.as_i64().map(|ms| ms * 1_000_000));
    assert_eq!(v2["status"], run["phase"]);
    assert_eq!(v1["run_status"], if live { json!("RUNNING") } else { run["run_status"].clone() });
    for view in [v1, v2] {
        assert_eq!(view["name"], run["name"]);
        assert_eq!(view["job_id"], run["job_id"].as_str().unwrap_or_default());
        assert_eq!(view["controller_actor_id"], run["controller_actor_id"]);
        assert_eq!(view["job_details"]["start_time"], run["start_time_ms"]);
        assert_eq!(view["job_details"]["end_time"], run["end_time_ms"]);
        assert_eq!(view["job_details"]["status"] == "RUNNING", live);
    }
    assert_eq!(v1["status_detail"], run["status_detail"].as_str().unwrap_or_default());
    assert_eq!(v2["status_detail"], run["status_detail"]);
    assert_eq!((&v1["start_time_ms"], &v1["end_time_ms"]), (&run["start_time_ms"], &run["end_time_ms"]));
    assert_eq!(
        (&v2["start_time_ns"], &v2["end_time_ns"]),
        (&ns(&run["start_time_ms"]), &ns(&run["end_time_ms"]))
    );
    let attempts = run["attempts"].as_array().unwrap();
    assert_eq!(v2["attempts"].as_array().unwrap().len(), attempts.len());
    for (shown, attempt) in v2["attempts"].as_array().unwrap().iter().zip(attempts) {
        let over = shown["status"] != "PENDING" && shown["status"] != "RUNNING";
        assert_eq!(over, !shown["end_time_ns"].is_null(), "{shown}");
        assert!(over || live, "an ended run has no live attempt: {v2}");
        assert_eq!(shown["end_time_ns"], ns(&attempt["end_time_ms"]));
        assert_eq!(json!(shown["resources"].as_array().unwrap().len()), attempt["num_workers"]);
        for (worker, own) in
            shown["workers"].as_array().unwrap().iter().zip(attempt["workers"].as_array().unwrap())
        {
            assert_eq!((&worker["world_rank"], &worker["status"]), (&own["world_rank"], &own["status"]));
            assert!(!over || worker["status"] == "DEAD", "{shown}");
            assert_eq!(worker["log_file_path"], own["log_url"]);
        }
    }
    let newest: Vec<&Value> = v2["attempts"]
        .as_array()
        .unwrap()
        .last()
        .map_or_else(Vec::new, |a| a["workers"].as_array().unwrap().iter().collect());
    assert_eq!(v1["workers"].as_array().unwrap().len(), newest.len());
    for (one, two) in v1["workers"].as_array().unwrap().iter().zip(newest) {
        for field in ["actor_id", "pid", "gpu_ids", "status", "node_ip", "local_rank", "node_rank"] {
            assert_eq!(one[field], two[field], "{field}");
        }
        assert_eq!(one["resources"], two["resources"]["resources"]);
    }
}

fn process() -> (Child, Value) {
    let child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
    let process = serde_json::to_value(identify(child.id()).unwrap()).unwrap();
    (child, process)
}

/// Ends the newest attempt, as a controller does that keeps its own words.
async fn end_attempt(head: &Head, run: &Run, attempt: &str, status: &str, reason: &str, detail: Value) {
    let body = json!({"status": status, "end_reason": reason, "status_detail": detail});
    let answer = head.say(run, &format!("attempts/{attempt}/end"), body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
}

#[tokio::test]
async fn without_runs_the_list_is_empty_and_not_an_error() {
    let head = Head::new().await;
    for path in [V1, V2] {
        let answer = head.get(path).await;
        assert_eq!((answer.status, answer.body), (StatusCode::OK, json!({"train_runs": []})));
        assert_eq!(
            head.get(&format!("{path}?page_size=1")).await.body,
            json!({"train_runs": [], "next_page_token": null})
        );
    }
}

#[tokio::test]
async fn every_life_of_a_run_has_the_shape_of_ray_and_is_true_at_every_stage() {
    let head = Head::new().await;
    let mut looker = Looker::new();

    // Nothing but a controller, then everything that can be said.
    head.register(json!({"id": "bare", "controller": {"actor_id": "c"}})).await;
    let (v1, v2) = looker.look(&head, "bare").await;
    assert_eq!((&v1["run_status"], &v2["status"]), (&json!("RUNNING"), &json!("INITIALIZING")));
    assert_eq!((&v1["job_id"], &v2["job_details"]["job_id"]), (&json!(""), &json!(null)));
    assert_eq!(v2["run_settings"]["scaling_config"]["num_workers"], 0);
    let (mut controller, process) = process();
    let settings = json!({"command": ["python", "train.py", "--lr", "0.1"], "workers": 2, "max_failures": 3,
        "lr": 1e-3, "none": null, "nested": {"a": {"b": {"c": {}}}, "list": [[{"x": {"y": 1}}]]}});
    let body = json!({"id": "full", "name": "bert", "job_id": "slurm-17", "experiment": "e",
        "controller": {"actor_id": "c-full", "process": process}, "settings": settings, "tags": {"team": "nlp"},
        "framework_versions": {"python": "3.12", "torch": "2.6.0"},
        "datasets": [{"name": "train", "dataset_name": "wiki", "dataset_uuid": "u1"}, {"name": "val", "dataset_uuid": "u2"}]});
    let run = head.register(body).await;
    let (v1, v2) = looker.look(&head, "full").await;
    let settings = &v2["run_settings"];
    assert_eq!(
        settings["train_loop_config"]["nested"],
        json!({"a": {"b": "..."}, "list": [[{"x": "..."}]]}),
        "three levels, and lists are none"
    );
    assert_eq!(settings["backend_config"]["framework"], "torch");
    assert_eq!(settings["scaling_config"]["num_workers"], 2);
    assert_eq!(settings["run_config"]["failure_config"]["max_failures"], 3);
    assert_eq!(
        settings["run_config"]["storage_path"],
        head.data_dir.root().join("runs/full").to_str().unwrap()
    );
    assert_eq!(settings["datasets"], json!(["train", "val"]));
    assert_eq!(
        v1["datasets"],
        json!([{"name": "train", "dataset_uuid": "u1", "dataset_name": "wiki"},
            {"name": "val", "dataset_uuid": "u2", "dataset_name": null}])
    );
    let job = &v2["job_details"];
    assert_eq!(job["entrypoint"], "python train.py --lr 0.1");
    assert_eq!(job["driver_info"]["pid"], controller.id().to_string());
    assert_eq!(job["metadata"], json!({"team": "nlp"}));

    // Placed, running, with devices and resources that Ray has no words for.
    head.say(&run, "attempts", json!({"attempt_id": "f0", "num_workers": 2})).await;
    let (_, v2) = looker.look(&head, "full").await;
    assert_eq!(v2["attempts"][0]["status"], "PENDING");
    assert_eq!(v2["attempts"][0]["resources"], json!([{"resources": {}}, {"resources": {}}]));
    let workers = json!({"workers": [
        {"actor_id": "w0", "world_rank": 0, "node_id": "h", "node_ip": "10.0.0.1", "pid": 77,
         "gpu_ids": ["3", "GPU-5f2c"], "resources": {"CPU": 4, "GPU": 1.5, "note": "fast"}},
        {"actor_id": "w1", "world_rank": 1, "node_id": "h", "node_ip": "10.0.0.1"}]});
    assert_eq!(head.say(&run, "attempts/f0/running", workers).await.status, StatusCode::OK);
    let (_, v2) = looker.look(&head, "full").await;
    let attempt = &v2["attempts"][0];
    assert_eq!((&v2["status"], &attempt["status"]), (&json!("RUNNING"), &json!("RUNNING")));
    assert_eq!(attempt["workers"][0]["gpu_ids"], json!([3]));
    assert_eq!((&attempt["workers"][0]["pid"], &attempt["workers"][1]["pid"]), (&json!(77), &json!(0)));
    assert_eq!(attempt["resources"], json!([{"resources": {"CPU": 4.0, "GPU": 1.5}}, {"resources": {}}]));
    assert_eq!(v2["run_settings"]["scaling_config"]["use_gpu"], true);

    // Killed: seen at once, with an end and dead workers.
    controller.kill().unwrap();
    controller.wait().unwrap();
    let (v1, v2) = looker.look(&head, "full").await;
    assert_eq!((&v1["run_status"], &v2["status"]), (&json!("ABORTED"), &json!("ABORTED")));
    assert_eq!(v2["attempts"][0]["status"], "ABORTED");
    assert!(
        v2["attempts"][0]["status_detail"]
            .as_str()
            .unwrap()
            .starts_with("controller_lost: controller process")
    );
    assert_eq!(v2["job_details"]["status"], "FAILED", "a driver that crashed did not succeed");

    // Fails, restarts, fails again.
    let run = head.running("fails", 2).await;
    let exit =
        json!({"workers": [{"world_rank": 1, "status": "DEAD", "exit": {"code": 3, "time_ms": START}}]});
    head.say(&run, "attempts/fails-a0/workers", exit).await;
    looker.look(&head, "fails").await;
    head.say(&run, "state", json!({"state": "RESTARTING"})).await;
    end_attempt(&head, &run, "fails-a0", "ERRORED", "worker_failed", json!("rank 1 exited with code 3"))
        .await;
    let (_, v2) = looker.look(&head, "fails").await;
    assert_eq!(v2["status"], "RESTARTING");
    head.attempt(&run, "fails-a1", 2).await;
    looker.look(&head, "fails").await;
    head.say(&run, "end", json!({"run_status": "ERRORED", "status_detail": "rank 0 was killed by SIGKILL"}))
        .await;
    let (v1, v2) = looker.look(&head, "fails").await;
    assert_eq!((&v1["run_status"], &v1["job_details"]["status"]), (&json!("ERRORED"), &json!("FAILED")));
    assert_eq!(v2["attempts"][0]["status"], "ERRORED");
    assert_eq!(v2["attempts"][0]["status_detail"], "worker_failed: rank 1 exited with code 3");

    // Resized and preempted: Ray says FINISHED of both.
    let run = head.running("moves", 1).await;
    end_attempt(&head, &run, "moves-a0", "FINISHED", "resized", json!(null)).await;
    head.attempt(&run, "moves-a1", 3).await;
    end_attempt(&head, &run, "moves-a1", "FINISHED", "preempted", json!("node h goes away")).await;
    head.attempt(&run, "moves-a2", 2).await;
    end_attempt(&head, &run, "moves-a2", "FINISHED", "callback_failed", json!("no space")).await;
    head.attempt(&run, "moves-a3", 2).await;
    let (_, v2) = looker.look(&head, "moves").await;
    let ends: Vec<_> =
        v2["attempts"].as_array().unwrap().iter().map(|a| (&a["status"], &a["status_detail"])).collect();
    assert_eq!(
        ends,
        [
            (&json!("ABORTED"), &json!("resized")),
            (&json!("ABORTED"), &json!("preempted: node h goes away")),
            (&json!("ERRORED"), &json!("callback_failed: no space")),
            (&json!("RUNNING"), &json!(null)),
        ]
    );
    assert_eq!(v2["run_settings"]["scaling_config"]["num_workers"], 2);
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let (v1, v2) = looker.look(&head, "moves").await;
    assert_eq!((&v1["run_status"], &v1["job_details"]["status"]), (&json!("FINISHED"), &json!("SUCCEEDED")));
    assert_eq!(
        (&v2["attempts"][3]["status"], &v2["attempts"][3]["status_detail"]),
        (&json!("FINISHED"), &json!(null))
    );

    // Stopped by a user; and silent until its lease is over.
    let run = head.running("stopped", 1).await;
    head.say(&run, "end", json!({"run_status": "ABORTED", "status_detail": "stopped by user ada (SIGINT)"}))
        .await;
    let (_, v2) = looker.look(&head, "stopped").await;
    assert_eq!((&v2["status"], &v2["job_details"]["status"]), (&json!("ABORTED"), &json!("STOPPED")));
    assert_eq!(v2["attempts"][0]["status_detail"], "stopped by user ada (SIGINT)");
    head.running("silent", 1).await;
    head.pass(Duration::from_secs(32)).await;
    let (_, v2) = looker.look(&head, "silent").await;
    assert_eq!((&v2["status"], &v2["job_details"]["status"]), (&json!("ABORTED"), &json!("FAILED")));

    // Stored is what was shown.
    let before = (head.get(V1).await.body, head.get(V2).await.body);
    let head = head.restart().await;
    assert_eq!((head.get(V1).await.body, head.get(V2).await.body), before);

    // What a worker uses right now is not known here; everything else that Ray shows was there to be checked.
    for (path, shape) in [(V1, &looker.v1), (V2, &looker.v2)] {
        for place in shape.objects().filter(|p| !p.contains("processStats") && !p.contains("gpus[]")) {
            assert!(looker.seen.contains(&format!("{path} {place}")), "no answer of {path} had {place}");
        }
    }
}

/// A run of which everything is known.
fn record() -> (RunRecord, StatsOf) {
    let now = Timestamp::from_ms(START);
    let mut trail = Trail::default();
    let mut body = RegisterRun::by(ActorId::parse("c").unwrap());
    body.controller.process = Some(identify(std::process::id()).unwrap());
    body.datasets = serde_json::from_value(json!([{"name": "train", "dataset_uuid": "u"}])).unwrap();
    body.framework_versions.insert("jax".into(), "0.9".into());
    body.tags.insert("a".into(), "b".into());
    let token = SigningKey::generate().unwrap().token(&["t"]).hash();
    let mut record =
        RunRecord::register(RunId::parse("r").unwrap(), body, String::new(), token, now, &mut trail);
    let attempt = AttemptId::parse("a").unwrap();
    let begin = BeginAttempt::unreserved(attempt.clone(), 1, None);
    record.begin_attempt(begin, Vec::new(), now, &mut trail).unwrap();
    let running: AttemptRunning =
        serde_json::from_value(json!({"workers": [{"actor_id": "w", "world_rank": 0,
        "node_id": "h", "node_ip": "i", "pid": 42, "gpu_ids": ["1"], "resources": {"GPU": 1}}]}))
        .unwrap();
    record.attempt_running(&attempt, running, now, &mut trail).unwrap();
    let gpu = |index, pid| GpuStats {
        index,
        uuid: format!("GPU-{index}"),
        name: "H100".into(),
        utilization_percent: (pid == 42).then_some(97.0),
        memory_used_bytes: 3 << 30,
        memory_total_bytes: 80 << 30,
        processes: vec![
            GpuProcess { pid: 7, memory_used_bytes: 1 },
            GpuProcess { pid, memory_used_bytes: 2 << 30 },
        ],
    };
    let process_stats = Some(ProcessStats { cpu_percent: 180.5, rss_bytes: 5 << 30, vms_bytes: 9 << 30 });
    let stats = WorkerStats { process_stats, gpus: vec![gpu(0, 41), gpu(1, 42)] };
    (record, StatsOf::from([((0, 0), stats)]))
}

#[test]
fn what_a_worker_uses_right_now_stands_in_ray_s_words_and_units() {
    let (record, stats) = record();
    let v2 = serde_json::to_value(RayV2Run::of(&record, "/data", &stats)).unwrap();
    let v1 = serde_json::to_value(RayV1Run::of(&record, &stats)).unwrap();
    for worker in [&v1["workers"][0], &v2["attempts"][0]["workers"][0]] {
        assert_eq!(
            worker["processStats"],
            json!({"cpuPercent": 180.5, "mem": null, "memoryInfo":
                {"rss": 5_368_709_120_i64, "vms": 9_663_676_416_i64, "pfaults": null, "pageins": null}})
        );
        assert_eq!(
            worker["gpus"],
            json!([{"uuid": "GPU-1", "index": 1, "name": "H100", "utilizationGpu": 97.0, "memoryUsed": 3072.0,
                "memoryTotal": 81920.0, "processInfo": {"pid": 42, "gpuMemoryUsage": 2048}}]),
            "only its own, in MiB"
        );
    }
}

#[test]
fn a_field_that_is_gone_renamed_more_elsewhere_or_of_another_type_is_noticed() {
    let (record, stats) = record();
    let v2 = serde_json::to_string(&[RayV2Run::of(&record, "/data", &stats)]).unwrap();
    let v1 = serde_json::to_string(&[RayV1Run::of(&record, &stats)]).unwrap();
    for (shape, runs) in [(Shape::v1(), v1), (Shape::v2(), v2)] {
        let answer: Json = serde_json::from_str(&format!(r#"{{"train_runs":{runs}}}"#)).unwrap();
        assert_eq!(shape.complaints(&answer), Vec::<String>::new());
        let seen = places(&answer);
        for place in shape.objects() {
            assert!(seen.contains(place), "{place} is not checked");
        }
        let spoilt = shape.spoilt(&answer);
        assert!(spoilt.len() > 200, "{}", spoilt.len());
        for answer in spoilt {
            assert!(!shape.complaints(&answer).is_empty(), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn all_runs_come_in_pieces_and_pages_meet_each_once() {
    let head = Head::new().await;
    let registrations = (0..250).map(|i| {
        let body =
            json!({"id": format!("r{i:03}"), "controller": {"actor_id": "c"}, "start_time_ms": START - i});
        head.register(body)
    });
    futures_util::future::join_all(registrations).await;
    let expected: Vec<String> = (0..250).map(|i| format!("r{i:03}")).collect();
    let ids = |list: &Value| -> Vec<String> {
        list["train_runs"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect()
    };
    for path in [V1, V2] {
        let all = head.get(path).await.body;
        assert_eq!(ids(&all), expected, "newest first, all of them");
        assert_eq!(
            all.as_object().unwrap().len(),
            1,
            "Ray's shape and nothing else: {:?}",
            all.get("next_page_token")
        );
        assert!(pieces(head.raw(request("GET", path, None, None)).await.into_body()).await >= 3);
        for page_size in [1000, 150, 100, 7] {
            let (mut seen, mut token) = (Vec::new(), String::new());
            loop {
                let page = head.get(&format!("{path}?page_size={page_size}{token}")).await.body;
                seen.extend(ids(&page));
                match page["next_page_token"].as_str() {
                    Some(next) => {
                        assert_eq!(page["train_runs"].as_array().unwrap().len(), page_size);
                        token = format!("&page_token={next}");
                    }
                    None => break,
                }
            }
            assert_eq!(seen, expected, "pages of {page_size}");
        }
        let first = head.get(&format!("{path}?page_size=1")).await.body;
        let token = first["next_page_token"].as_str().unwrap();
        let second = head.get(&format!("{path}?page_token={token}")).await.body;
        assert_eq!(ids(&second), expected[1..101], "a token without a size is a page too");
        for bad in ["page_size=0", "page_size=1001", "page_size=x", "page_token=x", "status=RUNNING", "q="] {
            let answer = head.get(&format!("{path}?{bad}")).await;
            assert!(answer.status.is_client_error(), "{bad}");
            assert!(answer.body.to_string().contains(bad.split_once('=').unwrap().0), "{}", answer.body);
        }
    }
    let answer = head.post(V2, None, json!({})).await;
    assert_problem(&answer, 405, "no-method");
}

async fn pieces(body: Body) -> usize {
    use futures_util::StreamExt;
    body.into_data_stream().map(|piece| piece.unwrap()).count().await
}
