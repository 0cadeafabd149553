//! Leases, processes, clocks: who is declared dead, when, and who comes back.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use axum::http::StatusCode;
use serde_json::json;
use trainhead::{base::Timestamp, state::processes::identify};

use crate::harness::{Head, START};

const S: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_silent_controller_is_aborted_one_lease_later_and_comes_back_when_it_speaks() {
    let head = Head::new().await;
    let run = head.running("r", 2).await;
    head.pass(10 * S).await;
    head.heartbeat(&run).await;
    let last = head.show("r").await["evidence"]["contact"]["last_contact_ms"].as_i64().unwrap();
    head.pass(30 * S).await;
    assert_eq!(head.show("r").await["run_status"], "STARTED", "a lease is not over before it is over");
    head.pass(2 * S).await;
    let shown = head.show("r").await;
    assert_eq!(shown["run_status"], "ABORTED");
    assert_eq!(shown["ended_by"], "reconciler");
    assert_eq!(shown["end_time_ms"], last, "the end is the last contact, not the moment somebody noticed");
    assert!(shown["noticed_at_ms"].as_i64().unwrap() > last);
    assert!(shown["status_detail"].as_str().unwrap().starts_with("no contact with the controller since"));
    assert_eq!(shown["attempts"][0]["end_reason"], "controller_lost");
    assert_eq!(shown["workers"][0]["exit"]["cause"], "controller lost");
    head.assert_consistent("r").await;

    head.heartbeat(&run).await;
    let back = head.show("r").await;
    assert_eq!(back["run_status"], "STARTED");
    assert_eq!(back["attempts"][0]["status"], "RUNNING");
    assert_eq!(back["workers"][1]["status"], "ALIVE");
    head.assert_consistent("r").await;
    let trail = head.get("/api/train/runs/r/events").await.body.to_string();
    assert!(
        trail.contains("no contact") && trail.contains("heard of again"),
        "both changes stay in the trail"
    );
    head.pass(20 * S).await;
    assert_eq!(head.show("r").await["run_status"], "STARTED", "its lease started anew");
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    assert_eq!(head.show("r").await["run_status"], "FINISHED");
    head.assert_consistent("r").await;
}

#[tokio::test]
async fn a_concluded_run_whose_controller_ends_it_has_the_controller_s_word() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    head.pass(40 * S).await;
    assert_eq!(head.show("r").await["run_status"], "ABORTED");
    let head = head.restart().await;
    assert_eq!(head.say(&run, "end", json!({"run_status": "FINISHED"})).await.status, StatusCode::OK);
    let shown = head.show("r").await;
    assert_eq!((&shown["run_status"], &shown["ended_by"]), (&json!("FINISHED"), &json!("controller")));
    head.assert_consistent("r").await;
}

#[tokio::test]
async fn any_write_renews_the_lease() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    for seq in 1..=4 {
        head.pass(20 * S).await;
        let report = json!({"writer": "w", "seq": seq, "reports": [{"step": seq, "metrics": {"loss": 1}}]});
        assert_eq!(head.say(&run, "reports", report).await.status, StatusCode::OK);
    }
    assert_eq!(head.show("r").await["run_status"], "STARTED");
}

#[tokio::test]
async fn the_head_s_own_absence_kills_no_run() {
    let head = Head::new().await;
    let speaks = head.running("speaks", 1).await;
    head.running("silent", 1).await;
    let clock = head.clock.clone();
    let head = {
        clock.advance(90 * S);
        head.restart().await
    };
    assert_eq!(head.show("silent").await["run_status"], "STARTED");
    head.pass(20 * S).await;
    head.heartbeat(&speaks).await;
    head.pass(12 * S).await;
    assert_eq!(head.show("silent").await["run_status"], "ABORTED");
    assert_eq!(head.show("speaks").await["run_status"], "STARTED");
    // Suspended and resumed: the clock jumps between two looks.
    clock.advance(3600 * S);
    assert_eq!(head.show("speaks").await["run_status"], "STARTED");
}

#[tokio::test]
async fn jumping_clocks_kill_nobody_and_make_no_negative_duration() {
    let head = Head::new().await;
    let ahead = json!({"id": "r", "controller": {"actor_id": "c"}, "start_time_ms": START + 900_000});
    let run = head.register(ahead).await;
    for wall in [START - 3_600_000, START + 3_600_000, START] {
        head.clock.set_wall(Timestamp::from_ms(wall));
        head.pass(4 * S).await;
        assert_eq!(head.show("r").await["run_status"], "STARTED");
    }
    let beat = json!({"runs": [{"run_id": "r", "controller_token": run.token, "time_ms": START - 900_000}]});
    head.post("/api/train/heartbeats", None, beat).await;
    let skew = head.show("r").await["evidence"]["contact"]["clock_skew_ms"].as_i64().unwrap();
    assert!(skew < -800_000, "{skew}");
    head.say(&run, "end", json!({"run_status": "FINISHED", "end_time_ms": START - 500_000})).await;
    assert_eq!(head.show("r").await["duration_ms"], 0);
    head.assert_consistent("r").await;
}

#[tokio::test]
async fn a_killed_controller_on_this_host_is_aborted_in_the_very_next_answer() {
    let head = Head::new().await;
    let mut controller = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
    let process = serde_json::to_value(identify(controller.id()).unwrap()).unwrap();
    let run = head.register(json!({"id": "r", "controller": {"actor_id": "c", "process": process}})).await;
    head.attempt(&run, "a", 2).await;
    assert_eq!(head.show("r").await["evidence"]["process"]["state"], "running");
    controller.kill().unwrap();
    controller.wait().unwrap();
    let list = head.get("/api/train/runs").await.body;
    let listed = &list["train_runs"][0];
    assert_eq!((&listed["run_status"], &listed["ended_by"]), (&json!("ABORTED"), &json!("reconciler")));
    let detail = listed["status_detail"].as_str().unwrap();
    assert!(
        detail.contains(&format!("controller process {}", controller.id())) && detail.contains("is gone"),
        "{detail}"
    );
    head.assert_consistent("r").await;

    // What it had said before it died comes late, and brings it back for no longer than until somebody looks.
    head.heartbeat(&run).await;
    head.clock.advance(Duration::from_millis(1));
    assert_eq!(head.show("r").await["run_status"], "ABORTED");
    head.assert_consistent("r").await;
}

#[tokio::test]
async fn a_controller_that_died_while_the_head_was_down_is_aborted_after_the_start() {
    let head = Head::new().await;
    let mut controller = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
    let process = serde_json::to_value(identify(controller.id()).unwrap()).unwrap();
    head.register(json!({"id": "r", "controller": {"actor_id": "c", "process": process}})).await;
    controller.kill().unwrap();
    controller.wait().unwrap();
    // Seen or not before the stop: after the start it is known.
    let head = head.restart().await;
    head.clock.advance(S);
    assert_eq!(head.show("r").await["run_status"], "ABORTED");
    head.assert_consistent("r").await;
}

#[tokio::test]
async fn a_stop_that_nobody_confirms_ends_the_run_for_good() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    head.post("/api/train/runs/r/stop", None, json!({"grace_period_ms": 1000})).await;
    for _ in 0..16 {
        head.heartbeat(&run).await;
        head.pass(2 * S).await;
    }
    let shown = head.show("r").await;
    assert_eq!((&shown["run_status"], &shown["ended_by"]), (&json!("ABORTED"), &json!("user")));
    head.heartbeat(&run).await;
    assert_eq!(head.show("r").await["run_status"], "ABORTED", "what a user ended never comes back");
    head.assert_consistent("r").await;
}

#[tokio::test]
async fn a_controller_that_is_shutting_down_has_confirmed_the_stop_and_may_take_its_time() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    head.post("/api/train/runs/r/stop", None, json!({"grace_period_ms": 1000})).await;
    head.say(&run, "state", json!({"state": "SHUTTING_DOWN"})).await;
    for _ in 0..60 {
        head.heartbeat(&run).await;
        head.pass(2 * S).await;
    }
    assert_eq!(head.show("r").await["run_status"], "STARTED");
    head.say(&run, "end", json!({"run_status": "ABORTED", "status_detail": "stopped by user (API)"})).await;
    assert_eq!(head.show("r").await["attempts"][0]["end_reason"], "stopped");
}

#[tokio::test]
async fn only_what_trains_stalls_and_a_new_attempt_may_load() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    head.say(&run, "state", json!({"state": "RUNNING"})).await;
    let report = async |seq: u64, attempt: u32, step: i64| {
        let reports = json!([{"step": step, "metrics": {"loss": 1}}]);
        let body = json!({"writer": "w", "seq": seq, "attempt": attempt, "reports": reports});
        assert_eq!(head.say(&run, "reports", body).await.status, StatusCode::OK);
    };
    let stalled =
        async || head.get("/api/train/runs/r/evidence").await.body["evidence"]["progress"]["stalled"].clone();
    for step in 0..5 {
        report(step + 1, 0, i64::try_from(step).unwrap()).await;
        head.clock.advance(S);
    }
    assert_eq!(stalled().await, false);
    head.clock.advance(11 * S);
    head.heartbeat(&run).await;
    report(6, 0, 4).await;
    assert_eq!(stalled().await, true, "a report without a step is no step");
    let body = json!({"status": "ERRORED", "end_reason": "worker_failed"});
    head.say(&run, "attempts/r-a0/end", body).await;
    head.say(&run, "state", json!({"state": "RESTARTING"})).await;
    assert_eq!(stalled().await, false, "nothing trains");
    head.say(&run, "state", json!({"state": "SCHEDULING"})).await;
    head.attempt(&run, "r-a1", 1).await;
    head.say(&run, "state", json!({"state": "RUNNING"})).await;
    head.heartbeat(&run).await;
    assert_eq!(stalled().await, false, "it has made no step yet");
    report(7, 1, 2).await;
    report(8, 1, 3).await;
    head.clock.advance(11 * S);
    head.heartbeat(&run).await;
    assert_eq!(stalled().await, true);
    head.say(&run, "state", json!({"state": "SHUTTING_DOWN"})).await;
    assert_eq!(stalled().await, false, "its workers are done");
}
