//! Runs that go on in their own record after their end.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Answer, Head, Run, START, assert_problem};

fn body(actor: &str) -> Value {
    json!({"id": "r", "controller": {"actor_id": actor}, "resume": true})
}

async fn resume(head: &Head, actor: &str) -> Answer {
    head.post("/api/train/runs", None, body(actor)).await
}

fn run_of(answer: &Answer) -> Run {
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    Run { id: "r".into(), token: answer.body["controller_token"].as_str().unwrap().into() }
}

/// A run with one attempt that failed, and an error as its end.
async fn failed(head: &Head) -> Run {
    let run = head
        .register(
            json!({"id": "r", "name": "n", "experiment": "e", "tags": {"k": "v"}, "settings": {"lr": 0.1},
            "controller": {"actor_id": "first"}}),
        )
        .await;
    head.attempt(&run, "a0", 2).await;
    let report = json!({"writer": "w", "seq": 1, "reports": [{"step": 7, "metrics": {"loss": 0.5}}]});
    assert_eq!(head.say(&run, "reports", report).await.status, StatusCode::OK);
    head.post("/api/train/runs/r/stop", None, json!({"reason": "enough"})).await;
    head.say(&run, "attempts/a0/end", json!({"status": "ERRORED", "end_reason": "worker_failed"})).await;
    let failure = json!({"rank": 0, "attempt": 0, "message": "it failed", "log_tail": [], "time_ms": START,
        "consequences": []});
    let end = json!({"run_status": "ERRORED", "status_detail": "rank 0 failed", "first_failure": failure});
    let ended = head.say(&run, "end", end).await;
    assert_eq!(ended.status, StatusCode::OK, "{}", ended.body);
    run
}

#[tokio::test]
async fn a_failed_run_goes_on_with_its_attempts_its_metrics_and_nothing_of_its_end() {
    let head = Head::new().await;
    let old = failed(&head).await;
    assert_eq!(head.delete("/api/train/runs/r").await.status, StatusCode::OK);
    let head = head.restart().await;
    head.pass(Duration::from_secs(100)).await;

    let mut with_settings = body("second");
    with_settings["settings"] = json!({"lr": 0.2});
    let answer = head.post("/api/train/runs", None, with_settings.clone()).await;
    let new = run_of(&answer);
    assert_eq!(
        (&answer.body["epoch"], &answer.body["run"]["num_attempts"], &answer.body["run"]["num_failures"]),
        (&json!(2), &json!(1), &json!({"worker": 1, "controller": 0, "preemption": 0}))
    );
    let retried = head.post("/api/train/runs", None, with_settings).await;
    assert_eq!(retried.status, StatusCode::OK);
    assert_eq!(retried.body["controller_token"], answer.body["controller_token"]);

    let shown = head.show("r").await;
    for (field, value) in [
        ("phase", json!("INITIALIZING")),
        ("name", json!("n")),
        ("experiment", json!("e")),
        ("tags", json!({"k": "v"})),
        ("settings", json!({"lr": 0.2})),
        ("controller_actor_id", json!("second")),
        ("last_metrics", json!({"loss": 0.5})),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(shown["evidence"]["progress"]["last_step"], 7);
    for field in [
        "end_time_ms",
        "ended_by",
        "noticed_at_ms",
        "first_failure",
        "stop",
        "controller_state",
        "status_detail",
        "trashed_at_ms",
    ] {
        assert_eq!(shown[field], Value::Null, "{field}");
    }
    let events = head.get("/api/train/runs/r/events").await.body;
    let runs: Vec<&Value> =
        events["events"].as_array().unwrap().iter().filter(|e| e["kind"] == "run").collect();
    let last = runs.last().unwrap();
    assert_eq!(
        (&last["from"], &last["to"], &last["by"], &last["reason"]),
        (&json!("ERRORED"), &json!("INITIALIZING"), &json!("user"), &json!("resumed, epoch 2"))
    );
    assert_eq!(head.heartbeat(&new).await["stop_requested"], false);
    assert_eq!(head.heartbeat(&old).await["problem"], "stale-controller");
    assert_problem(&head.say(&old, "state", json!({"state": "RUNNING"})).await, 409, "stale-controller");

    let head = head.restart().await;
    assert_eq!(head.show("r").await["phase"], "INITIALIZING");
    head.attempt(&new, "a1", 1).await;
    let report =
        json!({"writer": "w2", "seq": 1, "attempt": 1, "reports": [{"step": 8, "metrics": {"loss": 0.4}}]});
    assert_eq!(head.say(&new, "reports", report).await.status, StatusCode::OK);
    head.assert_consistent("r").await;
    assert_eq!(head.show("r").await["attempts"][1]["ordinal"], 1);
    let series = head.get("/api/train/runs/r/metrics/series?key=loss").await.body;
    assert_eq!(series["series"][0]["value"], json!([0.5, 0.4]), "one curve through both lives");

    assert_eq!(head.say(&new, "end", json!({"run_status": "FINISHED"})).await.status, StatusCode::OK);
    let refused = resume(&head, "third").await;
    assert_problem(&refused, 409, "run-ended");
    assert!(refused.body["detail"].as_str().unwrap().contains("nothing to resume"), "{}", refused.body);
    assert_eq!(head.show("r").await["epoch"], 2);
}

#[tokio::test]
async fn the_same_controller_may_resume_its_run_again_and_again() {
    let head = Head::new().await;
    failed(&head).await;
    for epoch in 2..5 {
        let answer = resume(&head, "second").await;
        let run = run_of(&answer);
        assert_eq!(answer.body["epoch"], epoch);
        head.say(&run, "end", json!({"run_status": "ERRORED"})).await;
    }
    assert_eq!(head.show("r").await["settings"], json!({"lr": 0.1}), "who gives no settings keeps them");
}

#[tokio::test]
async fn a_run_whose_controller_is_gone_is_resumed_and_one_that_lives_is_not() {
    let head = Head::new().await;
    let old = head.running("r", 1).await;
    assert_problem(&resume(&head, "second").await, 409, "run-exists");
    head.post("/api/train/runs/r/stop", None, json!({"grace_period_ms": 3_600_000})).await;
    head.pass(Duration::from_secs(40)).await;
    assert_eq!(head.show("r").await["ended_by"], "reconciler");
    let new = run_of(&resume(&head, "second").await);
    assert_eq!(head.show("r").await["attempts"][0]["end_reason"], "controller_lost");
    assert_eq!(head.heartbeat(&new).await["stop_requested"], false, "the stop was for its last life");
    assert_eq!(head.heartbeat(&old).await["problem"], "stale-controller");
    head.attempt(&new, "a1", 1).await;
    head.assert_consistent("r").await;

    let mut takeover = body("third");
    takeover["takeover"] = json!(true);
    let third = run_of(&head.post("/api/train/runs", None, takeover).await);
    assert_eq!(head.heartbeat(&third).await["epoch"], 3);
    assert_eq!(head.show("r").await["attempts"][1]["status"], "ABORTED");
}

#[tokio::test]
async fn to_resume_needs_an_id_and_a_run_and_makes_none() {
    let head = Head::new().await;
    let nameless = json!({"controller": {"actor_id": "c"}, "resume": true});
    let refused = head.post("/api/train/runs", None, nameless).await;
    assert_problem(&refused, 422, "invalid");
    assert_eq!(refused.body["field"], "id");
    assert_problem(&resume(&head, "c").await, 404, "run-not-found");
    assert_eq!(head.get("/api/train/runs").await.body["total_size"], 0);
}
