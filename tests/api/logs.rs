//! Logs that come over the network: appended once, however often they are sent.

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};

use crate::harness::{Answer, Head, Run, assert_problem};

async fn put(head: &Head, run: &Run, place: &str, offset: u64, bytes: &[u8]) -> Answer {
    let path = format!("/api/train/runs/{}/logs/{place}?offset={offset}", run.id);
    let request = Request::put(path)
        .header(header::HOST, "localhost")
        .header(header::AUTHORIZATION, format!("Bearer {}", run.token))
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .body(Body::from(bytes.to_vec()))
        .unwrap();
    head.send(request).await
}

#[tokio::test]
async fn the_same_bytes_twice_are_there_once_and_a_gap_is_refused() {
    let head = Head::new().await;
    let run = head.running("r", 2).await;
    for (offset, bytes, size) in
        [(0, "one\n", 4), (0, "one\n", 4), (4, "two\n", 8), (2, "e\ntwo\nthree\n", 14), (3, "\n", 14)]
    {
        let answer = put(&head, &run, "0/1", offset, bytes.as_bytes()).await;
        assert_eq!((answer.status, &answer.body["size_bytes"]), (StatusCode::OK, &json!(size)), "{offset}");
    }
    let text = head.get("/api/train/runs/r/logs/0/1").await.body;
    assert_eq!(text, json!("one\ntwo\nthree\n"));
    let gap = put(&head, &run, "0/1", 20, b"x").await;
    assert_problem(&gap, 409, "log-gap");
    assert_eq!(gap.body["limit"], 14, "where to go on");
    // After its end too: the last bytes come late.
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    assert_eq!(put(&head, &run, "0/1", 14, b"bye\n").await.status, StatusCode::OK);
    assert_eq!(head.get("/api/train/runs/r/logs").await.body["logs"][0]["size_bytes"], 18);
}

#[tokio::test]
async fn only_the_run_s_controller_writes_and_only_where_a_rank_is() {
    let head = Head::new().await;
    let run = head.running("r", 2).await;
    let other = head.running("other", 1).await;
    let stranger = Run { id: run.id.clone(), token: other.token };
    assert_problem(&put(&head, &stranger, "0/0", 0, b"x").await, 403, "wrong-token");
    assert_problem(&put(&head, &run, "0/2", 0, b"x").await, 404, "attempt-not-found");
    assert_problem(&put(&head, &run, "1/0", 0, b"x").await, 404, "attempt-not-found");
    for place in ["..%2f..%2fx/0", "0/..%2f0", "-1/0"] {
        assert_eq!(put(&head, &run, place, 0, b"x").await.status, StatusCode::NOT_FOUND, "{place}");
    }
    let json = crate::harness::request(
        "PUT",
        "/api/train/runs/r/logs/0/0?offset=0",
        Some(&run.token),
        Some(json!({})),
    );
    assert_problem(&head.send(json).await, 415, "wrong-type");
    let logs: Value = head.get("/api/train/runs/r/logs").await.body;
    assert_eq!(logs["logs"], json!([]), "nothing was written");
}

#[tokio::test]
async fn a_log_vouches_for_its_controller() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    for i in 0..4 {
        head.pass(std::time::Duration::from_secs(20)).await;
        assert_eq!(put(&head, &run, "0/0", i, b"x").await.status, StatusCode::OK);
    }
    assert_eq!(head.show("r").await["run_status"], "STARTED");
}

#[tokio::test]
async fn no_link_leads_a_log_out_of_the_data_directory() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let outside = tempfile::tempdir().unwrap();
    let runs = head.data_dir.root().join("runs/r");
    std::fs::create_dir_all(&runs).unwrap();
    std::os::unix::fs::symlink(outside.path(), runs.join("logs")).unwrap();
    assert!(!put(&head, &run, "0/0", 0, b"x").await.status.is_success());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "nothing was written there");
}
