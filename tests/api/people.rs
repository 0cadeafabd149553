//! What people may do: annotate, throw away, take back, clear away.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Head, assert_problem};

#[tokio::test]
async fn annotations_change_what_is_named_and_nothing_else() {
    let head = Head::new().await;
    let body = json!({"id": "r", "name": "n", "controller": {"actor_id": "c"}, "tags": {"a": "1", "b": "2"}});
    let run = head.register(body).await;
    let changed = head
        .patch("/api/train/runs/r", json!({"name": "new", "notes": "# Why", "tags": {"b": null, "c": "3"}}))
        .await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    let shown = head.show("r").await;
    assert_eq!((&shown["name"], &shown["notes"]), (&json!("new"), &json!("# Why")));
    assert_eq!(shown["tags"], json!({"a": "1", "c": "3"}));
    assert_eq!(head.get("/api/train/runs?tag=b:2").await.body["total_size"], 0);
    assert_eq!(head.get("/api/train/runs?tag=c:3&q=NEW").await.body["total_size"], 1);
    // It does not speak for the controller: the lease goes on as it was, and the run takes all that it says.
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    head.patch("/api/train/runs/r", json!({"notes": null})).await;
    let head = head.restart().await;
    let shown = head.show("r").await;
    assert_eq!(
        (&shown["notes"], &shown["name"], &shown["run_status"]),
        (&Value::Null, &json!("new"), &json!("FINISHED"))
    );
    let trail = head.get("/api/train/runs/r/events").await.body.to_string();
    assert!(trail.contains("annotation") && trail.contains("changed name"), "{trail}");

    for (body, field) in [
        (json!({"status": "FINISHED"}), "status"),
        (json!({"name": ""}), "name"),
        (json!({"notes": "x".repeat(65_537)}), "notes"),
        (json!({"tags": {"": "x"}}), "tags."),
    ] {
        let answer = head.patch("/api/train/runs/r", body).await;
        assert_eq!((answer.status.as_u16(), &answer.body["field"]), (422, &json!(field)), "{}", answer.body);
    }
    assert_problem(&head.patch("/api/train/runs/none", json!({})).await, 404, "run-not-found");
}

#[tokio::test]
async fn tags_stay_within_their_limit_however_they_are_added() {
    let head = Head::new().await;
    head.running("r", 1).await;
    let tags =
        |from: usize, to: usize| -> Value { (from..to).map(|i| (format!("k{i}"), json!("v"))).collect() };
    assert_eq!(head.patch("/api/train/runs/r", json!({"tags": tags(0, 100)})).await.status, StatusCode::OK);
    let answer = head.patch("/api/train/runs/r", json!({"tags": tags(100, 101)})).await;
    assert_problem(&answer, 422, "invalid");
    assert_eq!(answer.body["limit"], 100);
    assert_eq!(head.show("r").await["tags"].as_object().unwrap().len(), 100);
}

#[tokio::test]
async fn an_ended_run_goes_to_the_trash_and_back_and_a_live_one_does_not() {
    let head = Head::new().await;
    let run = head.running("r", 2).await;
    assert_problem(&head.delete("/api/train/runs/r").await, 409, "run-live");
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let before = head.show("r").await;
    for _ in 0..2 {
        assert_eq!(head.delete("/api/train/runs/r").await.status, StatusCode::OK, "again is no error");
    }
    assert_eq!(head.get("/api/train/runs").await.body["total_size"], 0);
    for view in ["v2/runs", "v2/runs/v1"] {
        assert_eq!(head.get(&format!("/api/train/{view}")).await.body["train_runs"], json!([]), "{view}");
    }
    let trash = head.get("/api/train/runs?trashed=true").await.body;
    assert_eq!((&trash["total_size"], &trash["train_runs"][0]["id"]), (&json!(1), &json!("r")));
    let head = head.restart().await;
    assert!(head.show("r").await["trashed_at_ms"].is_i64(), "it can still be looked at");
    assert_eq!(head.get("/api/train/runs").await.body["total_size"], 0);
    assert_eq!(head.post("/api/train/runs/r/restore", None, json!({})).await.status, StatusCode::OK);
    let mut after = head.show("r").await;
    after["server_time_ms"] = before["server_time_ms"].clone();
    assert_eq!(after, before, "nothing of it was lost");
    assert_eq!(head.get("/api/train/runs").await.body["total_size"], 1);
}

#[tokio::test]
async fn a_run_that_comes_back_comes_out_of_the_trash() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    head.pass(std::time::Duration::from_secs(40)).await;
    assert_eq!(head.show("r").await["run_status"], "ABORTED");
    head.delete("/api/train/runs/r").await;
    head.heartbeat(&run).await;
    let shown = head.show("r").await;
    assert_eq!((&shown["run_status"], &shown["trashed_at_ms"]), (&json!("STARTED"), &Value::Null));
    head.assert_consistent("r").await;
}

#[tokio::test]
async fn clearing_away_goes_by_the_trash_and_only_a_purge_deletes() {
    let head = Head::new().await;
    for i in 0..6 {
        let run = head.running(&format!("r{i}"), 1).await;
        let log = head.data_dir.root().join(trainhead::state::DataDir::log(
            &trainhead::base::RunId::parse(&run.id).unwrap(),
            0,
            0,
        ));
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::fs::write(&log, vec![b'x'; 1000]).unwrap();
        let report = json!({"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"loss": 1}}]});
        head.say(&run, "reports", report).await;
        if i < 5 {
            head.clock.advance(std::time::Duration::from_secs(1));
            head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
        }
    }
    let gc = async |body: Value| head.post("/api/train/gc", None, body).await.body;
    let ids = |answer: &Value, what: &str| -> Vec<String> {
        answer[what].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let dry = gc(json!({"keep": 3, "dry_run": true})).await;
    assert_eq!(ids(&dry, "trashed"), ["r0", "r1"]);
    assert_eq!(head.get("/api/train/runs").await.body["total_size"], 6, "nothing was done");
    assert_eq!(ids(&gc(json!({"keep": 3})).await, "trashed"), ["r0", "r1"]);
    assert_eq!(ids(&gc(json!({"max_size_bytes": 2000})).await, "trashed"), ["r2"], "live runs do not count");
    assert_eq!(ids(&gc(json!({"purge": true})).await, "purged"), [""; 0], "seven days are not over");
    let purged = gc(json!({"purge": true, "trash_for_ms": 0})).await;
    assert_eq!(ids(&purged, "purged"), ["r0", "r1", "r2"]);
    assert_eq!((&purged["freed_bytes"], &purged["remaining"]), (&json!(3000), &json!(0)));
    for gone in ["r0", "r1", "r2"] {
        assert_problem(&head.get(&format!("/api/train/runs/{gone}")).await, 404, "run-not-found");
        assert!(!head.data_dir.root().join("runs").join(gone).exists());
    }
    let head = head.restart().await;
    assert_eq!(head.get("/api/train/runs").await.body["total_size"], 3);
    assert_eq!(head.get("/api/train/runs?trashed=true").await.body["total_size"], 0);
    // The id is free again, and nothing of the old run is left on it.
    head.register(json!({"id": "r0", "controller": {"actor_id": "c"}})).await;
    assert_eq!(head.get("/api/train/runs/r0/metrics").await.body["metrics"], json!([]));
    assert_eq!(head.get("/api/train/runs/r0/events").await.body["events"].as_array().unwrap().len(), 1);
    assert_problem(&head.post("/api/train/gc", None, json!({"dry_run": true})).await, 422, "invalid");
}
