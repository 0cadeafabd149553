//! The list: filters, search, pages.

use serde_json::json;

use crate::harness::{Head, assert_problem};

#[tokio::test]
async fn filters_search_and_pages_work_together() {
    let head = Head::new().await;
    for i in 0..25 {
        let body = json!({"id": format!("r{i:02}"), "name": format!("Bert {i}"), "controller": {"actor_id": "c"},
            "tags": {"team": if i % 2 == 0 { "even" } else { "odd" }}});
        let run = head.register(body).await;
        if i % 5 == 0 {
            head.say(&run, "end", json!({"run_status": "ERRORED", "status_detail": "boom"})).await;
        }
        head.clock.advance(std::time::Duration::from_millis(10));
    }
    let list = head.get("/api/train/runs?status=ERRORED").await.body;
    assert_eq!((&list["total_size"], list["train_runs"].as_array().unwrap().len()), (&json!(5), 5));
    assert_eq!(list["counts"], json!({"STARTED": 20, "FINISHED": 0, "ERRORED": 5, "ABORTED": 0}));
    let list = head.get("/api/train/runs?q=TEAM:ODD&status=STARTED&status=ERRORED").await.body;
    assert_eq!(list["total_size"], 12);
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = head.get(&format!("/api/train/runs?page_size=4{token}")).await.body;
        seen.extend(
            page["train_runs"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap().to_owned()),
        );
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(
        seen,
        (0..25).rev().map(|i| format!("r{i:02}")).collect::<Vec<_>>(),
        "newest first, each once"
    );
}

#[tokio::test]
async fn a_bad_query_names_its_field() {
    let head = Head::new().await;
    for (query, field) in [
        ("page_size=0", "page_size"),
        ("page_size=1001", "page_size"),
        ("page_size=x", "page_size"),
        ("page_token=nonsense", "page_token"),
        ("status=RUNNING", "status"),
        ("sttus=STARTED", "sttus"),
        ("include=everything", "include"),
    ] {
        let answer = head.get(&format!("/api/train/runs?{query}")).await;
        assert!(answer.status.is_client_error(), "{query}");
        let told = answer.body["field"].as_str().unwrap_or_default().to_owned()
            + answer.body["detail"].as_str().unwrap();
        assert!(told.contains(field), "{query}: {}", answer.body);
    }
    assert_problem(&head.get("/api/train/runs/none").await, 404, "run-not-found");
    assert_problem(&head.get("/api/train/runs/none/events").await, 404, "run-not-found");
    assert_problem(&head.get("/api/train/runs/none/logs").await, 404, "run-not-found");
}

#[tokio::test]
async fn evidence_comes_when_asked_for_also_of_ended_runs() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let report =
        json!({"writer": "w", "seq": 1, "reports": [{"step": 7, "metrics": {"loss": "NaN", "acc": 0.5}}]});
    head.say(&run, "reports", report).await;
    let one =
        async || head.get("/api/train/runs?include=evidence,workers").await.body["train_runs"][0].clone();
    let live = one().await;
    assert_eq!(live["evidence"]["progress"]["last_step"], 7);
    assert_eq!(live["last_metrics"], json!({"loss": "NaN", "acc": 0.5}));
    assert!(live["evidence"]["contact"]["lease_expires_ms"].is_i64());
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let ended = one().await;
    assert_eq!(ended["evidence"]["progress"]["last_step"], 7);
    assert_eq!(ended["last_metrics"], live["last_metrics"]);
    assert!(ended["evidence"]["contact"]["lease_expires_ms"].is_null());
    let plain = head.get("/api/train/runs").await.body["train_runs"][0].clone();
    assert!(plain.get("evidence").is_none(), "what changes by itself only comes when asked for");
}
