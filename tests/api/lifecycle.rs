//! A run from its registration to its end, in every view.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Head, assert_problem};

#[tokio::test]
async fn a_run_that_restarts_once_and_finishes_looks_so_in_every_view() {
    let head = Head::new().await;
    let run = head.running("r", 2).await;
    head.say(&run, "state", json!({"state": "RUNNING"})).await;
    let exit = json!({"code": 3, "time_ms": crate::harness::START});
    let dead = json!({"workers": [{"world_rank": 1, "status": "DEAD", "exit": exit}]});
    assert_eq!(head.say(&run, "attempts/r-a0/workers", dead).await.status, StatusCode::OK);
    head.say(&run, "state", json!({"state": "RESTARTING", "status_detail": "rank 1 exited with code 3"}))
        .await;
    let end = json!({"status": "ERRORED", "end_reason": "worker_failed", "status_detail": "rank 1 exited with code 3"});
    assert_eq!(head.say(&run, "attempts/r-a0/end", end.clone()).await.status, StatusCode::OK);
    // The same end again is the same end, another one is refused.
    assert_eq!(head.say(&run, "attempts/r-a0/end", end).await.status, StatusCode::OK);
    let other = json!({"status": "FINISHED", "end_reason": "completed"});
    assert_problem(&head.say(&run, "attempts/r-a0/end", other).await, 409, "illegal-transition");
    head.clock.advance(std::time::Duration::from_secs(1));
    head.attempt(&run, "r-a1", 2).await;
    let live = head.say(&run, "attempts", json!({"attempt_id": "r-a2", "num_workers": 1})).await;
    assert_problem(&live, 409, "attempt-live");
    head.assert_consistent("r").await;
    head.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(head.say(&run, "end", json!({"run_status": "FINISHED"})).await.status, StatusCode::OK);
    head.assert_consistent("r").await;

    let shown = head.show("r").await;
    let events = head.get("/api/train/runs/r/events").await.body;
    insta::assert_json_snapshot!("finished_run", shown);
    insta::assert_json_snapshot!("trail_of_a_finished_run", trail(&events));
    let head = head.restart().await;
    assert_eq!(head.show("r").await, shown, "a restart changes nothing that is shown");
}

fn trail(events: &Value) -> Vec<String> {
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            format!(
                "{} {} -> {} by {}: {}",
                text(&e["kind"]),
                text(&e["from"]),
                text(&e["to"]),
                text(&e["by"]),
                text(&e["reason"])
            )
        })
        .collect()
}

#[tokio::test]
async fn an_end_is_final_and_idempotent() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let ended = head.show("r").await;
    head.clock.advance(std::time::Duration::from_secs(100));
    assert_eq!(head.say(&run, "end", json!({"run_status": "FINISHED"})).await.status, StatusCode::OK);
    assert_problem(&head.say(&run, "end", json!({"run_status": "ABORTED"})).await, 409, "run-ended");
    assert_problem(&head.say(&run, "state", json!({"state": "RUNNING"})).await, 409, "run-ended");
    assert_problem(&head.post("/api/train/runs/r/stop", None, json!({})).await, 409, "run-ended");
    assert_eq!(head.heartbeat(&run).await["problem"], "run-ended");
    let now = head.show("r").await;
    for field in ["run_status", "end_time_ms", "duration_ms", "attempts", "ended_by"] {
        assert_eq!(now[field], ended[field], "{field}");
    }
    let again =
        head.post("/api/train/runs", None, json!({"id": "r", "controller": {"actor_id": "other"}})).await;
    assert_problem(&again, 409, "run-ended");
}

#[tokio::test]
async fn the_state_machine_takes_no_shortcut() {
    let head = Head::new().await;
    let run = head.register(json!({"id": "r", "controller": {"actor_id": "c"}})).await;
    for state in ["INITIALIZING", "SCHEDULING", "RUNNING"] {
        assert_eq!(head.say(&run, "state", json!({"state": state})).await.status, StatusCode::OK, "{state}");
        assert_eq!(head.show("r").await["controller_state"], state);
    }
    for state in ["INITIALIZING", "SCHEDULING", "RESCHEDULING"] {
        let answer = head.say(&run, "state", json!({"state": state})).await;
        assert_problem(&answer, 409, "illegal-transition");
    }
    assert_problem(&head.say(&run, "state", json!({"state": "FINISHED"})).await, 422, "invalid");
    assert_eq!(head.say(&run, "state", json!({"state": "NONSENSE"})).await.status, 422);
    assert_problem(
        &head
            .say(
                &run,
                "attempts/none/running",
                json!({"workers": [
        {"actor_id": "w", "world_rank": 0, "node_id": "h", "node_ip": "1"}]}),
            )
            .await,
        404,
        "attempt-not-found",
    );
}

#[tokio::test]
async fn workers_are_all_there_once_and_the_dead_stay_dead() {
    let head = Head::new().await;
    let run = head.register(json!({"id": "r", "controller": {"actor_id": "c"}})).await;
    head.say(&run, "attempts", json!({"attempt_id": "a", "num_workers": 2})).await;
    let worker = |rank: u32| json!({"actor_id": format!("w{rank}"), "world_rank": rank, "node_id": "h", "node_ip": "1"});
    for workers in
        [json!([]), json!([worker(0)]), json!([worker(0), worker(0)]), json!([worker(0), worker(2)])]
    {
        let answer = head.say(&run, "attempts/a/running", json!({"workers": workers})).await;
        assert_eq!(answer.status.as_u16(), 422, "{workers}");
    }
    let workers = json!({"workers": [worker(1), worker(0)]});
    assert_eq!(head.say(&run, "attempts/a/running", workers.clone()).await.status, StatusCode::OK);
    assert_eq!(head.say(&run, "attempts/a/running", workers).await.status, StatusCode::OK, "a retry");
    let change = |status: &str| json!({"workers": [{"world_rank": 0, "status": status}]});
    assert_eq!(head.say(&run, "attempts/a/workers", change("DEAD")).await.status, StatusCode::OK);
    assert_problem(&head.say(&run, "attempts/a/workers", change("ALIVE")).await, 409, "illegal-transition");
    let shown = head.show("r").await;
    assert_eq!(shown["workers"][0]["status"], "DEAD");
    assert_eq!(shown["workers"][1]["status"], "ALIVE");
}

#[tokio::test]
async fn a_stop_is_told_to_the_controller_and_its_writes_are_taken_until_it_ends() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    assert_eq!(head.heartbeat(&run).await["stop_requested"], false);
    let stop = json!({"reason": "too slow", "grace_period_ms": 1000});
    let asked = head.post("/api/train/runs/r/stop", None, stop).await;
    assert_eq!(asked.status, StatusCode::ACCEPTED);
    assert_eq!(asked.body["run_status"], "STARTED");
    assert!(asked.body["stop_requested_at_ms"].is_i64());
    let told = head.heartbeat(&run).await;
    assert_eq!((&told["stop_requested"], &told["stop_reason"]), (&json!(true), &json!("too slow")));
    let report = json!({"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"loss": 1}}]});
    assert_eq!(head.say(&run, "reports", report).await.status, StatusCode::OK);
    head.say(&run, "end", json!({"run_status": "ABORTED", "status_detail": "stopped by user (API)"})).await;
    let shown = head.show("r").await;
    assert_eq!((&shown["run_status"], &shown["ended_by"]), (&json!("ABORTED"), &json!("user")));
    head.assert_consistent("r").await;
}
