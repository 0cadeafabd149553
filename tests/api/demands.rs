//! What runs want, what of it fits, and what an attempt then gets.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Answer, Head, Run, assert_problem};

async fn registered(head: &Head, id: &str) -> Run {
    head.register(json!({"id": id, "controller": {"actor_id": format!("c-{id}")}})).await
}

fn demand(min: u32, max: u32, each: Value) -> Value {
    json!({"min_workers": min, "max_workers": max, "resources_per_worker": each})
}

/// What of a demand fits.
async fn fits(head: &Head, run: &Run, demand: Value) -> Value {
    let beat = json!({"run_id": run.id, "controller_token": run.token, "demand": demand});
    let answer = head.post("/api/train/heartbeats", None, json!({"runs": [beat]})).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.body["runs"][0]["fits"].clone()
}

async fn begin(head: &Head, run: &Run, attempt: &str, (min, max): (u32, u32), each: Value) -> Answer {
    let body =
        json!({"attempt_id": attempt, "min_workers": min, "num_workers": max, "resources_per_worker": each});
    head.say(run, "attempts", body).await
}

#[track_caller]
fn got(answer: &Answer) -> usize {
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    let attempt = &answer.body["attempt"];
    let reserved = attempt["reservation"].as_array().unwrap().len();
    assert_eq!(attempt["num_workers"], reserved, "{attempt}");
    reserved
}

async fn end(head: &Head, run: &Run, attempt: &str) {
    let body = json!({"status": "ABORTED", "end_reason": "resized"});
    let ended = head.say(run, &format!("attempts/{attempt}/end"), body).await;
    assert_eq!(ended.status, StatusCode::OK, "{}", ended.body);
}

#[tokio::test]
async fn a_run_that_waits_makes_an_elastic_one_shrink_and_freed_slots_make_it_grow() {
    let head = Head::new().await;
    let cpu = || json!({"CPU": 1});
    let elastic = registered(&head, "elastic").await;
    assert_eq!(fits(&head, &elastic, demand(1, 8, cpu())).await, 4);
    assert_eq!(got(&begin(&head, &elastic, "e0", (1, 8), cpu()).await), 4);

    let waiting = registered(&head, "waiting").await;
    assert_problem(&begin(&head, &waiting, "w0", (2, 2), cpu()).await, 409, "no-resources");
    assert_eq!(fits(&head, &waiting, demand(2, 2, cpu())).await, 0);
    assert_eq!(fits(&head, &elastic, demand(1, 8, cpu())).await, 2);
    assert_eq!(fits(&head, &elastic, demand(1, 8, cpu())).await, 2, "asked again");
    end(&head, &elastic, "e0").await;
    assert_eq!(got(&begin(&head, &elastic, "e1", (1, 8), cpu()).await), 2, "not what the other waits for");
    assert_eq!(fits(&head, &elastic, demand(1, 8, cpu())).await, 2, "not before it has started");
    let newcomer = registered(&head, "newcomer").await;
    let refused = begin(&head, &newcomer, "n0", (1, 1), cpu()).await;
    assert_problem(&refused, 409, "no-resources");
    assert!(refused.body["detail"].as_str().unwrap().contains("which others wait for"), "{}", refused.body);
    assert_eq!(fits(&head, &waiting, demand(2, 2, cpu())).await, 2);
    assert_eq!(got(&begin(&head, &waiting, "w0", (2, 2), cpu()).await), 2);
    assert_eq!(fits(&head, &elastic, demand(1, 8, cpu())).await, 2);

    head.say(&waiting, "end", json!({"run_status": "FINISHED"})).await;
    assert_eq!(fits(&head, &elastic, demand(1, 8, cpu())).await, 4);
    end(&head, &elastic, "e1").await;
    assert_eq!(got(&begin(&head, &elastic, "e2", (1, 8), cpu()).await), 4);
}

#[tokio::test]
async fn a_claim_goes_with_the_run_or_with_a_heartbeat_without_one() {
    let head = Head::new().await;
    let cpu = || json!({"CPU": 1});
    let elastic = registered(&head, "elastic").await;
    fits(&head, &elastic, demand(1, 4, cpu())).await;
    assert_eq!(got(&begin(&head, &elastic, "e0", (1, 4), cpu()).await), 4);
    for how in ["heartbeat", "end", "lease", "takeover"] {
        let waiting = registered(&head, how).await;
        fits(&head, &waiting, demand(2, 2, cpu())).await;
        assert_eq!(fits(&head, &elastic, demand(1, 4, cpu())).await, 2, "{how}");
        match how {
            "heartbeat" => assert_eq!(head.heartbeat(&waiting).await["fits"], Value::Null),
            "end" => drop(head.say(&waiting, "end", json!({"run_status": "ABORTED"})).await),
            "lease" => {
                for _ in 0..4 {
                    head.pass(Duration::from_secs(10)).await;
                    head.heartbeat(&elastic).await;
                }
            }
            _ => {
                let body = json!({"id": how, "controller": {"actor_id": "new"}, "takeover": true});
                head.post("/api/train/runs", None, body).await;
            }
        }
        assert_eq!(fits(&head, &elastic, demand(1, 4, cpu())).await, 4, "{how}");
    }
}

#[tokio::test]
async fn workers_are_placed_on_the_nodes_asked_for_with_their_gpus_in_order() {
    let head = Head::new().await;
    let run = registered(&head, "r").await;
    let body = |attempt: &str, min: u32, nodes: Value| {
        json!({"attempt_id": attempt, "num_workers": 8, "min_workers": min, "node_ids": nodes,
            "resources_per_worker": {"CPU": 1, "GPU": 1},
            "nodes": [{"node_id": "box", "node_ip": "10.0.0.7", "resources": {"CPU": 64}, "gpu_ids": ["7", "3", "5"]}]})
    };
    let refused = head.say(&run, "attempts", body("a", 4, json!(["box", "nowhere"]))).await;
    assert_problem(&refused, 422, "invalid");
    assert_eq!(refused.body["field"], "resources_per_worker");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("at least 4 of 8 workers with 1 CPU, 1 GPU each"), "{detail}");
    assert!(detail.contains("(box 64 CPU, 3 GPU; nowhere is not known)"), "{detail}");
    let begun = head.say(&run, "attempts", body("a", 2, json!(["box"]))).await;
    assert_eq!(got(&begun), 3);
    let reserved = begun.body["attempt"]["reservation"].as_array().unwrap().clone();
    let places: Vec<(&Value, &Value)> = reserved.iter().map(|b| (&b["node_id"], &b["gpu_ids"][0])).collect();
    let on = |gpu: &str| (json!("box"), json!(gpu));
    let expected = [on("7"), on("3"), on("5")];
    assert_eq!(places, expected.iter().map(|(n, g)| (n, g)).collect::<Vec<_>>());

    // A lost answer is asked for again, also of a head that has started anew.
    let head = head.restart().await;
    let again = head.say(&run, "attempts", body("a", 2, json!(["box"]))).await;
    assert_eq!(again.body["attempt"], begun.body["attempt"]);
    let running = |n: u32| {
        let worker = |rank| json!({"actor_id": format!("w{rank}"), "world_rank": rank, "node_id": "box", "node_ip": "10.0.0.7"});
        json!({"workers": (0..n).map(worker).collect::<Vec<_>>(), "master_address": "10.0.0.7:43017"})
    };
    assert_problem(&head.say(&run, "attempts/a/running", running(8)).await, 422, "invalid");
    assert_eq!(head.say(&run, "attempts/a/running", running(3)).await.status, StatusCode::OK);

    let late = registered(&head, "late").await;
    let refused = head.say(&late, "attempts", body("l", 1, json!(["box"]))).await;
    assert_problem(&refused, 409, "no-resources");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("free: box 61 CPU, 0 GPU;"), "only the nodes asked for: {detail}");
    let wanted =
        json!({"min_workers": 1, "max_workers": 3, "resources_per_worker": {"GPU": 1}, "node_ids": ["box"]});
    assert_eq!(fits(&head, &late, wanted).await, 0);
    assert_eq!(fits(&head, &late, demand(1, 3, json!({"GPU": 1}))).await, 2, "the head's own");
}

#[tokio::test]
async fn without_resources_the_size_is_what_was_asked_for() {
    let head = Head::new().await;
    let run = registered(&head, "r").await;
    let body = json!({"attempt_id": "a", "num_workers": 100, "min_workers": 2});
    let begun = head.say(&run, "attempts", body).await;
    assert_eq!(begun.body["attempt"], json!({"attempt_id": "a", "num_workers": 100, "reservation": []}));
}

#[tokio::test]
async fn what_cannot_be_wanted_names_its_field() {
    let head = Head::new().await;
    let run = registered(&head, "r").await;
    let long = "x".repeat(300);
    for (wrong, field) in [
        (json!({"min_workers": 3}), "min_workers"),
        (json!({"min_workers": 0}), "min_workers"),
        (json!({"node_ids": ["a", "b\n"]}), "node_ids[1]"),
        (json!({"node_ids": vec!["n"; 10_001]}), "node_ids"),
    ] {
        let mut body = json!({"attempt_id": "a", "num_workers": 2, "resources_per_worker": {"CPU": 1}});
        body.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let refused = head.say(&run, "attempts", body).await;
        assert_problem(&refused, 422, "invalid");
        assert_eq!(refused.body["field"], field);
    }
    for (demand, field) in [
        (demand(0, 1, json!({})), "runs[1].demand.min_workers"),
        (demand(2, 1, json!({})), "runs[1].demand.min_workers"),
        (demand(1, 10_001, json!({})), "runs[1].demand.max_workers"),
        (demand(1, 1, json!({"GPU": 0.5})), "runs[1].demand.resources_per_worker.GPU"),
    ] {
        let beat = json!({"run_id": run.id, "controller_token": run.token});
        let mut wanting = beat.clone();
        wanting["demand"] = demand;
        let refused = head.post("/api/train/heartbeats", None, json!({"runs": [beat, wanting]})).await;
        assert_problem(&refused, 422, "invalid");
        assert_eq!(refused.body["field"], field);
    }
    head.attempt(&run, "a", 1).await;
    let pids = json!({"processes_ended": vec![1; 10_001], "forced": false, "left": []});
    let ended = json!({"status": "ABORTED", "end_reason": "stopped", "stop_report": pids});
    let refused = head.say(&run, "attempts/a/end", ended).await;
    assert_eq!(refused.body["field"], "stop_report.processes_ended", "{}", refused.body);
    let second = registered(&head, "s").await;
    head.say(&second, "attempts", json!({"attempt_id": "b", "num_workers": 1})).await;
    let worker = json!({"actor_id": "w", "world_rank": 0, "node_id": "h", "node_ip": "i"});
    let running = json!({"workers": [worker], "master_address": long});
    let refused = head.say(&second, "attempts/b/running", running).await;
    assert_eq!(refused.body["field"], "master_address", "{}", refused.body);
}

#[tokio::test]
async fn an_attempt_shows_where_its_ranks_met_and_what_became_of_its_processes() {
    let head = Head::new().await;
    let run = registered(&head, "r").await;
    head.say(&run, "attempts", json!({"attempt_id": "a", "num_workers": 1})).await;
    let attempt = head.show("r").await["attempts"][0].clone();
    assert_eq!((&attempt["master_address"], &attempt["stop_report"]), (&Value::Null, &Value::Null));
    let worker = json!({"actor_id": "w", "world_rank": 0, "node_id": "h", "node_ip": "i"});
    let running = json!({"workers": [worker], "master_address": "127.0.0.1:43017"});
    assert_eq!(head.say(&run, "attempts/a/running", running).await.status, StatusCode::OK);
    let report = json!({"processes_ended": [17, 18], "forced": true, "left": [19]});
    let end = json!({"status": "ABORTED", "end_reason": "stopped", "stop_report": report});
    assert_eq!(head.say(&run, "attempts/a/end", end).await.status, StatusCode::OK);
    let head = head.restart().await;
    let attempt = head.show("r").await["attempts"][0].clone();
    assert_eq!((&attempt["master_address"], &attempt["stop_report"]), (&json!("127.0.0.1:43017"), &report));
}
