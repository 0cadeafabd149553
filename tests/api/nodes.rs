//! The resource ledger and what nodes show of it.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Head, Run, assert_problem};

async fn node(head: &Head, id: &str) -> Value {
    let nodes = head.get("/api/train/nodes").await.body;
    let found = nodes["nodes"].as_array().unwrap().iter().find(|n| n["node_id"] == id).cloned();
    found.unwrap_or_else(|| panic!("{nodes}"))
}

async fn begin(head: &Head, run: &Run, attempt: &str, workers: u32, each: Value) -> crate::harness::Answer {
    let body = json!({"attempt_id": attempt, "num_workers": workers, "resources_per_worker": each});
    head.say(run, "attempts", body).await
}

async fn registered(head: &Head, id: &str) -> Run {
    head.register(json!({"id": id, "controller": {"actor_id": format!("c-{id}")}})).await
}

#[tokio::test]
async fn what_an_attempt_reserves_nobody_else_gets_until_it_ends_whatever_ends_it() {
    let head = Head::new().await;
    let own = node(&head, "head").await;
    assert_eq!(own["free"], json!({"CPU": 4.0, "GPU": 2.0, "licence": 1.0}));
    assert_eq!(own["is_head"], true);
    assert!(
        own["devices"]["cpu_count"].as_u64().unwrap() >= 1
            && own["devices"]["memory_total_bytes"].as_u64().unwrap() > 0
    );
    let ends = ["end_attempt", "end_run", "lease", "stop", "takeover"];
    for (i, how) in ends.iter().enumerate() {
        let run = registered(&head, &format!("r{i}")).await;
        let begun = begin(&head, &run, &format!("a{i}"), 2, json!({"CPU": 1.5, "GPU": 1})).await;
        assert_eq!(begun.status, StatusCode::CREATED, "{how}: {}", begun.body);
        let attempt = head.show(&run.id).await["attempts"][0].clone();
        assert_eq!(
            attempt["reservation"][1],
            json!({"world_rank": 1, "node_id": "head",
            "resources": {"CPU": 1.5, "GPU": 1.0}, "gpu_ids": ["1"]})
        );
        let taken = node(&head, "head").await;
        assert_eq!(taken["free"], json!({"CPU": 1.0, "GPU": 0.0, "licence": 1.0}));
        assert_eq!(taken["reservations"][0]["run_id"], run.id);
        assert_eq!(taken["reservations"][0]["gpu_ids"], json!(["0", "1"]));

        let late = registered(&head, &format!("late{i}")).await;
        let refused = begin(&head, &late, "a", 1, json!({"GPU": 1})).await;
        assert_problem(&refused, 409, "no-resources");
        assert!(refused.body["detail"].as_str().unwrap().contains("0 GPU"), "{}", refused.body);
        assert_eq!(head.show(&late.id).await["attempts"], json!([]), "nothing was begun");
        head.say(&late, "end", json!({"run_status": "ABORTED"})).await;

        match *how {
            "end_attempt" => {
                let body = json!({"status": "ERRORED", "end_reason": "start_failed"});
                head.say(&run, &format!("attempts/a{i}/end"), body).await;
            }
            "end_run" => drop(head.say(&run, "end", json!({"run_status": "ERRORED"})).await),
            "lease" => head.pass(std::time::Duration::from_secs(40)).await,
            "stop" => {
                head.post(&format!("/api/train/runs/{}/stop", run.id), None, json!({"grace_period_ms": 0}))
                    .await;
                for _ in 0..10 {
                    head.heartbeat(&run).await;
                    head.pass(std::time::Duration::from_secs(5)).await;
                }
            }
            _ => {
                let body = json!({"id": run.id, "controller": {"actor_id": "new"}, "takeover": true});
                head.post("/api/train/runs", None, body).await;
            }
        }
        let free = node(&head, "head").await;
        assert_eq!(free["free"], json!({"CPU": 4.0, "GPU": 2.0, "licence": 1.0}), "{how}");
        assert_eq!(free["reservations"], json!([]), "{how}");
    }
}

#[tokio::test]
async fn reservations_outlive_the_head_and_an_attempt_that_comes_back_has_them_again() {
    let head = Head::new().await;
    let run = registered(&head, "r").await;
    begin(&head, &run, "a", 1, json!({"GPU": 2})).await;
    let head = head.restart().await;
    assert_eq!(node(&head, "head").await["free"]["GPU"], 0.0);
    head.pass(std::time::Duration::from_secs(40)).await;
    assert_eq!(node(&head, "head").await["free"]["GPU"], 2.0);
    head.heartbeat(&run).await;
    assert_eq!(node(&head, "head").await["free"]["GPU"], 0.0);
}

#[tokio::test]
async fn more_than_all_nodes_have_is_refused_for_good_and_other_nodes_help() {
    let head = Head::new().await;
    let run = registered(&head, "r").await;
    let refused = begin(&head, &run, "a", 3, json!({"GPU": 1})).await;
    assert_problem(&refused, 422, "invalid");
    assert_eq!(refused.body["field"], "resources_per_worker");
    let body = json!({"attempt_id": "a", "num_workers": 3, "resources_per_worker": {"GPU": 1},
        "nodes": [{"node_id": "gpu-box", "node_ip": "10.0.0.7", "resources": {"CPU": 64}, "gpu_ids": ["0", "1"]},
            {"node_id": "head", "node_ip": "10.0.0.1", "resources": {"CPU": 1000}}]});
    assert_eq!(head.say(&run, "attempts", body).await.status, StatusCode::CREATED);
    let other = node(&head, "gpu-box").await;
    assert_eq!((&other["is_head"], &other["devices"]), (&json!(false), &Value::Null));
    assert_eq!(other["free"], json!({"CPU": 64.0, "GPU": 1.0}));
    assert_eq!(node(&head, "head").await["capacity"]["CPU"], 4.0, "the head knows its own node better");
    let head = head.restart().await;
    assert_eq!(node(&head, "gpu-box").await["free"]["GPU"], 1.0);
}

#[tokio::test]
async fn nodes_show_the_workers_that_live_on_them() {
    let head = Head::new().await;
    let run = head.running("r", 2).await;
    let host = node(&head, "host").await;
    assert_eq!(host["capacity"], json!({}), "nobody said what it has");
    let workers = host["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2);
    assert_eq!(
        (&workers[1]["run_id"], &workers[1]["world_rank"], &workers[1]["pid"]),
        (&json!("r"), &json!(1), &json!(1001))
    );
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    assert_eq!(node(&head, "host").await["workers"], json!([]));
}

#[tokio::test]
async fn bad_amounts_name_their_field() {
    let head = Head::new().await;
    let run = registered(&head, "r").await;
    for (each, field) in [
        (json!({"GPU": 0.5}), "resources_per_worker.GPU"),
        (json!({"CPU": -1}), "resources_per_worker.CPU"),
        (json!({"CPU": 1e9}), "resources_per_worker.CPU"),
    ] {
        let answer = begin(&head, &run, "a", 1, each).await;
        assert_eq!((answer.status.as_u16(), &answer.body["field"]), (422, &json!(field)), "{}", answer.body);
    }
}

#[tokio::test]
async fn what_a_local_worker_uses_is_shown_when_asked_for() {
    let head = Head::new().await;
    let identity = trainhead::state::processes::identify(std::process::id()).unwrap();
    let body = json!({"id": "r", "controller": {"actor_id": "c", "process": identity}});
    let run = head.register(body).await;
    head.say(&run, "attempts", json!({"attempt_id": "a", "num_workers": 2})).await;
    let worker = |rank: u32, node: &str| json!({"actor_id": format!("w{rank}"), "world_rank": rank, "node_id": node, "node_ip": "127.0.0.1", "pid": std::process::id()});
    let workers = json!({"workers": [worker(0, "head"), worker(1, "elsewhere")]});
    head.say(&run, "attempts/a/running", workers).await;
    let list = head.get("/api/train/runs?include=workers,stats").await.body;
    let shown = &list["train_runs"][0]["workers"];
    assert!(shown[0]["process_stats"]["rss_bytes"].as_u64().unwrap() > 1_000_000, "{shown}");
    assert_eq!(shown[0]["gpus"], json!([]));
    assert!(shown[1].get("process_stats").is_none(), "a pid elsewhere is another process");
    let plain = head.get("/api/train/runs").await.body;
    assert!(plain["train_runs"][0]["workers"][0].get("process_stats").is_none());
    let one = head.get("/api/train/runs/r?include=stats").await.body;
    for workers in [&one["workers"], &one["attempts"][0]["workers"]] {
        assert!(workers[0]["process_stats"]["rss_bytes"].as_u64().unwrap() > 1_000_000, "{one}");
        assert_eq!(workers[0]["gpus"], json!([]));
        assert!(workers[1].get("process_stats").is_none());
    }
    assert!(one["evidence"]["contact"].is_object() && one["server_time_ms"].is_i64());
    let evidence = head.get("/api/train/runs/r/evidence?include=stats").await.body;
    assert_eq!(evidence["evidence"]["progress"], one["evidence"]["progress"]);
    assert_eq!(evidence["stats"][0]["world_rank"], 0);
    assert!(evidence["stats"][0]["process_stats"]["rss_bytes"].as_u64().unwrap() > 1_000_000, "{evidence}");
    assert_eq!(evidence["stats"].as_array().unwrap().len(), 1, "{evidence}");
    assert!(head.get("/api/train/runs/r/evidence").await.body.get("stats").is_none());
    for query in ["", "?include=workers"] {
        let plain = head.get(&format!("/api/train/runs/r{query}")).await.body;
        assert!(plain["workers"][0].get("process_stats").is_none(), "only when asked for");
    }
    let ray = head.get("/api/train/v2/runs/v1").await.body;
    let stats = &ray["train_runs"][0]["attempts"][0]["workers"][0]["processStats"];
    assert!(stats["memoryInfo"]["rss"].as_u64().unwrap() > 1_000_000, "{stats}");
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let ended = head.get("/api/train/runs/r?include=stats").await.body;
    assert_eq!(ended, head.show("r").await, "what has ended uses nothing");
    let evidence = head.get("/api/train/runs/r/evidence?include=stats").await.body;
    assert_eq!((&evidence["evidence"], &evidence["stats"]), (&ended["evidence"], &json!([])));
    assert_problem(&head.get("/api/train/runs/none/evidence").await, 404, "run-not-found");
    assert_problem(&head.get("/api/train/runs/r?include=everything").await, 422, "invalid");
    assert_problem(&head.get("/api/train/runs/none?include=stats").await, 404, "run-not-found");
}

#[tokio::test]
async fn a_run_that_comes_back_by_beginning_an_attempt_gets_what_it_asks_for() {
    let head = Head::new().await;
    let run = registered(&head, "r").await;
    head.pass(std::time::Duration::from_secs(40)).await;
    assert_eq!(head.show("r").await["run_status"], "ABORTED");
    assert_eq!(begin(&head, &run, "a", 2, json!({"GPU": 1})).await.status, StatusCode::CREATED);
    let shown = head.show("r").await;
    assert_eq!(shown["run_status"], "STARTED");
    assert_eq!(shown["attempts"][0]["reservation"].as_array().unwrap().len(), 2);
    assert_eq!(node(&head, "head").await["free"]["GPU"], 0.0);
}

#[tokio::test]
async fn a_controller_that_waits_for_resources_is_alive() {
    let head = Head::new().await;
    let holder = registered(&head, "holder").await;
    begin(&head, &holder, "a", 1, json!({"GPU": 2})).await;
    let waiting = registered(&head, "waiting").await;
    for _ in 0..4 {
        head.pass(std::time::Duration::from_secs(20)).await;
        head.heartbeat(&holder).await;
        assert_problem(&begin(&head, &waiting, "a", 1, json!({"GPU": 1})).await, 409, "no-resources");
    }
    assert_eq!(head.show("waiting").await["run_status"], "STARTED", "any write renews the lease");
}
