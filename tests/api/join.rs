//! Delivering metrics to a run that is another controller's, or has ended: by who has joined it, and by who has lost it.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Answer, Head, Run, assert_problem};

const WRITES: [(&str, &str); 6] = [
    ("state", r#"{"state": "RUNNING"}"#),
    ("attempts", r#"{"attempt_id": "other", "num_workers": 1}"#),
    (
        "attempts/r-a0/running",
        r#"{"workers": [{"actor_id": "w", "world_rank": 0, "node_id": "n", "node_ip": "127.0.0.1"}]}"#,
    ),
    ("attempts/r-a0/workers", r#"{"workers": [{"world_rank": 0, "status": "DEAD"}]}"#),
    ("attempts/r-a0/end", r#"{"status": "ERRORED", "end_reason": "worker_failed"}"#),
    ("end", r#"{"run_status": "FINISHED"}"#),
];

async fn join(head: &Head, id: &str, actor: &str) -> Answer {
    let body = json!({"id": id, "name": "joined", "join": true, "controller": {"actor_id": actor}});
    head.post("/api/train/runs", None, body).await
}

fn run_of(answer: &Answer) -> Run {
    Run {
        id: answer.body["run"]["id"].as_str().unwrap().to_owned(),
        token: answer.body["controller_token"].as_str().unwrap().to_owned(),
    }
}

fn batch(writer: &str, seq: u64, steps: std::ops::Range<u64>) -> Value {
    let steps: Vec<u64> = steps.collect();
    let values: Vec<f64> = steps.iter().map(|step| f64::from(u32::try_from(*step).unwrap())).collect();
    json!({"writer": writer, "seq": seq, "columns": {"step": steps, "metrics": {"x": values}}})
}

/// The run without what passes by itself.
async fn still(head: &Head, id: &str) -> Value {
    let mut run = head.show(id).await;
    for field in ["server_time_ms", "last_metrics", "evidence", "stats"] {
        run.as_object_mut().unwrap().remove(field);
    }
    run
}

async fn count(head: &Head, id: &str) -> Value {
    let metrics = head.get(&format!("/api/train/runs/{id}/metrics")).await.body;
    metrics["metrics"].as_array().unwrap().iter().find(|m| m["key"] == "x").unwrap()["count"].clone()
}

#[tokio::test]
async fn who_joins_a_live_run_delivers_metrics_and_can_do_nothing_else() {
    let head = Head::new().await;
    let owner = head.running("r", 1).await;
    let before = still(&head, "r").await;
    let answer = join(&head, "r", "other").await;
    assert_eq!((answer.status, &answer.body["epoch"]), (StatusCode::OK, &json!(1)), "{}", answer.body);
    let joined = run_of(&answer);
    assert_ne!(joined.token, owner.token);
    for (verb, body) in WRITES {
        let refused = head.say(&joined, verb, serde_json::from_str(body).unwrap()).await;
        assert_problem(&refused, 403, "wrong-token");
    }
    assert_eq!(head.heartbeat(&joined).await["problem"], "wrong-token");
    assert_eq!(still(&head, "r").await, before);
    for (seq, known) in [(1, false), (2, false), (1, true)] {
        let answer = head.say(&joined, "reports", batch("other", seq, seq * 10..seq * 10 + 10)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert_eq!((&answer.body["points"], &answer.body["known"]), (&json!(10), &json!(known)));
    }
    assert_eq!(count(&head, "r").await, 20);
    assert_eq!(still(&head, "r").await, before);
    // Another one that joins gets the same token, and one of another run has another.
    assert_eq!(run_of(&join(&head, "r", "third").await).token, joined.token);
    head.running("s", 1).await;
    let elsewhere = Run { id: "s".into(), token: joined.token };
    assert_problem(&head.say(&elsewhere, "reports", batch("other", 1, 0..1)).await, 403, "wrong-token");
    assert_eq!(head.say(&owner, "end", json!({"run_status": "FINISHED"})).await.status, StatusCode::OK);
    head.assert_consistent("r").await;
}

#[tokio::test]
async fn a_run_that_has_ended_takes_late_metrics_and_shows_them() {
    let head = Head::new().await;
    let owner = head.running("r", 1).await;
    head.say(&owner, "reports", batch("c-r", 1, 0..10)).await;
    assert_eq!(head.say(&owner, "end", json!({"run_status": "FINISHED"})).await.status, StatusCode::OK);
    let before = still(&head, "r").await;
    head.clock.advance(Duration::from_secs(3600));
    let joined = run_of(&join(&head, "r", "other").await);
    assert_eq!(head.say(&joined, "reports", batch("other", 1, 10..20)).await.status, StatusCode::OK);
    assert_eq!(head.say(&owner, "reports", batch("c-r", 2, 20..30)).await.status, StatusCode::OK);
    assert_eq!((count(&head, "r").await, still(&head, "r").await), (json!(30), before));
    assert_eq!(head.show("r").await["last_metrics"]["x"], 29.0);
    let by_value = "/api/train/runs?sort=-metric:x&metrics=x&include=evidence";
    let listed = head.get(by_value).await.body["train_runs"][0].clone();
    assert_eq!(listed["last_metrics"]["x"], 29.0, "{listed}");
    assert_eq!(listed["evidence"]["progress"]["last_step"], 29, "{listed}");
    head.assert_consistent("r").await;
    let head = head.restart().await;
    assert_eq!(head.show("r").await["last_metrics"]["x"], 29.0);
    assert_eq!(head.say(&joined, "reports", batch("other", 1, 10..20)).await.body["known"], true);
}

#[tokio::test]
async fn late_metrics_do_not_bring_a_run_back_whose_controller_is_gone() {
    let head = Head::new().await;
    head.running("r", 1).await;
    head.pass(Duration::from_secs(60)).await;
    assert_eq!(head.show("r").await["run_status"], "ABORTED");
    // Not even for its own controller, which may be gone as well.
    for actor in ["other", "c-r"] {
        let joined = run_of(&join(&head, "r", actor).await);
        assert_eq!(head.say(&joined, "reports", batch(actor, 1, 0..10)).await.status, StatusCode::OK);
    }
    let shown = head.show("r").await;
    assert_eq!((&shown["run_status"], &shown["epoch"]), (&json!("ABORTED"), &json!(1)));
    assert_eq!(count(&head, "r").await, 10);
}

#[tokio::test]
async fn who_joins_a_run_that_is_not_there_registers_it() {
    let head = Head::new().await;
    let created = join(&head, "r", "c").await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
    // An answer that was lost.
    let again = join(&head, "r", "c").await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(again.body["controller_token"], created.body["controller_token"]);
    // The same without `join` is the same registration.
    let body = json!({"id": "r", "name": "joined", "controller": {"actor_id": "c"}});
    let plain = head.post("/api/train/runs", None, body).await;
    assert_eq!(
        (plain.status, &plain.body["controller_token"]),
        (StatusCode::OK, &created.body["controller_token"])
    );
    let run = run_of(&created);
    head.attempt(&run, "a", 1).await;
    assert_eq!(head.say(&run, "end", json!({"run_status": "FINISHED"})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn who_joins_says_which_run_and_neither_takes_it_over_nor_resumes_it() {
    let head = Head::new().await;
    head.running("r", 1).await;
    for (more, field) in [
        (json!({"id": "r", "takeover": true}), "join"),
        (json!({"id": "r", "resume": true}), "join"),
        (json!({}), "id"),
    ] {
        let mut body = json!({"join": true, "controller": {"actor_id": "other"}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = head.post("/api/train/runs", None, body).await;
        assert_problem(&refused, 422, "invalid");
        assert_eq!(refused.body["field"], field, "{}", refused.body);
    }
    assert_eq!(head.show("r").await["epoch"], 1);
}

#[tokio::test]
async fn who_has_lost_a_run_delivers_what_it_measured_and_can_do_nothing_else() {
    let head = Head::new().await;
    let old = head.running("r", 1).await;
    let body = json!({"id": "r", "controller": {"actor_id": "new"}, "takeover": true});
    let new = run_of(&head.post("/api/train/runs", None, body).await);
    head.attempt(&new, "r-a1", 1).await;
    let before = still(&head, "r").await;
    for (verb, body) in WRITES {
        let refused = head.say(&old, verb, serde_json::from_str(body).unwrap()).await;
        assert_problem(&refused, 409, "stale-controller");
    }
    assert_eq!(head.heartbeat(&old).await["problem"], "stale-controller");
    assert_eq!(head.say(&old, "reports", batch("c-r", 1, 0..10)).await.status, StatusCode::OK);
    assert_eq!(still(&head, "r").await, before);
    let series = head.get("/api/train/runs/r/metrics/series?key=x&rank=0").await.body;
    assert_eq!(count(&head, "r").await, 10, "{series}");
    // It is no sign of life of the new one.
    let pass = async |seconds| head.pass(Duration::from_secs(seconds)).await;
    pass(20).await;
    head.say(&old, "reports", batch("c-r", 2, 10..20)).await;
    pass(20).await;
    assert_eq!(head.show("r").await["run_status"], "ABORTED");
    assert_eq!(head.say(&old, "reports", batch("c-r", 3, 20..30)).await.status, StatusCode::OK);
    assert_eq!(head.show("r").await["run_status"], "ABORTED");
    assert_eq!(count(&head, "r").await, 30);
}

#[tokio::test]
async fn spools_of_one_run_are_stored_once_whatever_the_order_and_at_once() {
    let head = Head::new().await;
    let owner = head.running("r", 1).await;
    let joined = run_of(&join(&head, "r", "b").await);
    // A has steps 0 to 100, B 90 to 200: each in batches of ten.
    let a = || (0..10u64).map(|i| (&owner, batch("a", i + 1, i * 10..i * 10 + 10)));
    let b = || (0..11u64).map(|i| (&joined, batch("b", i + 1, 90 + i * 10..100 + i * 10)));
    for (run, batch) in a().chain(b()).chain(a()) {
        assert_eq!(head.say(run, "reports", batch).await.status, StatusCode::OK);
    }
    assert_eq!(count(&head, "r").await, 200);
    let all: Vec<_> = a().chain(b()).chain(a()).chain(b()).collect();
    let answers = futures_util::future::join_all(
        all.iter().map(|(run, batch)| head.say(run, "reports", batch.clone())),
    )
    .await;
    assert!(answers.iter().all(|answer| answer.body["known"] == true));
    assert_eq!(count(&head, "r").await, 200);
    let other = head.running("s", 1).await;
    let all = (0..40u64).map(|i| batch("a", i % 20 + 1, i % 20 * 10..i % 20 * 10 + 10));
    let answers = futures_util::future::join_all(all.map(|batch| head.say(&other, "reports", batch))).await;
    let new = answers.iter().filter(|answer| answer.body["known"] == false).count();
    assert_eq!((new, count(&head, "s").await), (20, json!(200)));
}
