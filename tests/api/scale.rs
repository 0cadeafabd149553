//! Many runs: what is right with three must be right with thousands.

use std::{collections::HashMap, time::Duration};

use axum::http::StatusCode;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::harness::{Head, Run};

/// Does something for each number, many at a time.
async fn for_each<T, F: Future<Output = T>>(
    numbers: std::ops::Range<usize>,
    one: impl Fn(usize) -> F,
) -> Vec<T> {
    stream::iter(numbers).map(one).buffered(256).collect().await
}

async fn finished(head: &Head, id: String) {
    let run = head.register(json!({"id": id, "controller": {"actor_id": "c"}})).await;
    assert_eq!(head.say(&run, "end", json!({"run_status": "FINISHED"})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_one_live_run_is_found_behind_12_000_newer_finished_ones() {
    let head = Head::new().await;
    let live = head
        .register(json!({"id": "live", "controller": {"actor_id": "c", "lease_ttl_ms": 3_600_000}}))
        .await;
    head.clock.advance(Duration::from_secs(1));
    for_each(0..12_000, |i| finished(&head, format!("f{i:05}"))).await;
    head.heartbeat(&live).await;
    let list = head.get("/api/train/runs?status=STARTED&page_size=10").await.body;
    assert_eq!(list["total_size"], 1);
    assert_eq!(list["train_runs"].as_array().unwrap().len(), 1);
    assert_eq!((&list["train_runs"][0]["id"], &list["next_page_token"]), (&json!("live"), &Value::Null));
    assert_eq!(list["counts"], json!({"STARTED": 1, "FINISHED": 12_000, "ERRORED": 0, "ABORTED": 0}));
}

#[tokio::test]
async fn paging_through_5_000_runs_of_one_moment_meets_each_once_while_500_are_added() {
    let head = Head::new().await;
    let register = |id: String| {
        let body = json!({"id": id, "controller": {"actor_id": "c"}, "start_time_ms": crate::harness::START});
        let head = &head;
        async move { head.register(body).await }
    };
    for_each(0..5_000, |i| register(format!("old{i:04}"))).await;
    let mut seen: HashMap<String, u32> = HashMap::new();
    let (mut token, mut page) = (String::new(), 0);
    loop {
        let list = head.get(&format!("/api/train/runs?page_size=100{token}")).await.body;
        for run in list["train_runs"].as_array().unwrap() {
            *seen.entry(run["id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        if page < 50 {
            // Some before the place that was reached, some after it.
            for_each(page * 10..(page + 1) * 10, |i| {
                register(if i % 2 == 0 { format!("z{i:04}") } else { format!("a{i:04}") })
            })
            .await;
        }
        page += 1;
        match list["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(head.get("/api/train/runs?page_size=1").await.body["total_size"], 5_500);
    let old: Vec<u32> = seen.iter().filter(|(id, _)| id.starts_with("old")).map(|(_, n)| *n).collect();
    assert_eq!(old.len(), 5_000);
    assert!(seen.values().all(|n| *n == 1), "each once");
}

#[tokio::test]
async fn a_restart_in_the_middle_of_1_000_leases_kills_nobody_and_then_exactly_the_silent() {
    let head = Head::new().await;
    let runs: Vec<Run> = for_each(0..1_000, |i| {
        let head = &head;
        async move { head.running(&format!("r{i:03}"), 1).await }
    })
    .await;
    // The head is away for three leases.
    let clock = head.clock.clone();
    let stopped = head.stop().await;
    clock.advance(Duration::from_secs(90));
    let head = stopped.start().await;
    let live =
        async || head.get("/api/train/runs?status=STARTED&page_size=1").await.body["total_size"].clone();
    assert_eq!(live().await, 1_000);
    head.pass(Duration::from_secs(20)).await;
    let speaks = |i: usize| !i.is_multiple_of(3);
    for_each(0..1_000, |i| {
        let (head, run) = (&head, &runs[i]);
        async move {
            if speaks(i) {
                assert_eq!(head.heartbeat(run).await["problem"], Value::Null);
            }
        }
    })
    .await;
    head.pass(Duration::from_secs(9)).await;
    assert_eq!(live().await, 1_000, "no run is ABORTED before a full lease after the start");
    head.pass(Duration::from_secs(3)).await;
    let list = head.get("/api/train/runs?status=ABORTED&page_size=1000").await.body;
    let mut aborted: Vec<&str> =
        list["train_runs"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    aborted.sort_unstable();
    let silent: Vec<String> = (0..1_000).filter(|i| !speaks(*i)).map(|i| format!("r{i:03}")).collect();
    assert_eq!(aborted, silent, "exactly the silent ones");
    for id in [&silent[0], &silent[100]] {
        head.assert_consistent(id).await;
    }
    assert_eq!(live().await, 1_000 - silent.len());
}

#[tokio::test]
async fn a_thousand_controllers_that_die_at_once_are_aborted_in_one_answer() {
    let head = Head::new().await;
    for_each(0..1_000, |i| {
        let head = &head;
        async move { head.running(&format!("r{i:03}"), 2).await }
    })
    .await;
    // Half of a lease, so that the head does not take the jump for its own absence.
    for _ in 0..15 {
        head.clock.advance(Duration::from_secs(2));
        assert_eq!(head.get("/api/train/runs?status=STARTED&page_size=1").await.body["total_size"], 1_000);
    }
    head.clock.advance(Duration::from_secs(2));
    let list = head.get("/api/train/runs?page_size=1000").await.body;
    assert_eq!(list["counts"], json!({"STARTED": 0, "FINISHED": 0, "ERRORED": 0, "ABORTED": 1_000}));
    for run in list["train_runs"].as_array().unwrap() {
        assert_eq!(
            (&run["run_status"], &run["controller_actor_status"]),
            (&json!("ABORTED"), &json!("DEAD"))
        );
        assert!(run["end_time_ms"].is_i64());
        assert!(run["workers"].as_array().unwrap().iter().all(|w| w["status"] == "DEAD"));
    }
}
