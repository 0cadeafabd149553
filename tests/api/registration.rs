//! Who may register, take over and write.

use axum::http::StatusCode;
use serde_json::json;

use crate::harness::{Head, Run, assert_problem};

#[tokio::test]
async fn of_twenty_parallel_registrations_of_one_body_one_creates_and_all_get_the_same_run() {
    let head = Head::new().await;
    let body = json!({"id": "r", "name": "n", "controller": {"actor_id": "c"}, "settings": {"lr": 0.1}});
    let answers =
        futures_util::future::join_all((0..20).map(|_| head.post("/api/train/runs", None, body.clone())))
            .await;
    let created = answers.iter().filter(|a| a.status == StatusCode::CREATED).count();
    let retried = answers.iter().filter(|a| a.status == StatusCode::OK).count();
    assert_eq!((created, retried), (1, 19));
    for answer in &answers {
        assert_eq!(answer.body["run"], answers[0].body["run"]);
        assert_eq!(answer.body["controller_token"], answers[0].body["controller_token"]);
    }
    for (name, actor) in [("other", "c2"), ("other", "c"), ("n", "c2")] {
        let other = json!({"id": "r", "name": name, "controller": {"actor_id": actor}});
        assert_problem(&head.post("/api/train/runs", None, other).await, 409, "run-exists");
    }
    let shown = head.show("r").await;
    assert_eq!(
        (&shown["name"], &shown["epoch"], &shown["settings"]),
        (&json!("n"), &json!(1), &json!({"lr": 0.1}))
    );
}

#[tokio::test]
async fn a_takeover_fences_the_old_controller_and_closes_its_attempt() {
    let head = Head::new().await;
    let old = head.running("r", 2).await;
    let body = json!({"id": "r", "controller": {"actor_id": "new"}, "takeover": true});
    let answer = head.post("/api/train/runs", None, body).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(answer.body["epoch"], 2);
    let new = Run { id: "r".into(), token: answer.body["controller_token"].as_str().unwrap().into() };
    assert_problem(&head.say(&old, "state", json!({"state": "RUNNING"})).await, 409, "stale-controller");
    assert_problem(&head.say(&old, "end", json!({"run_status": "FINISHED"})).await, 409, "stale-controller");
    assert_eq!(head.heartbeat(&old).await["problem"], "stale-controller");
    assert_eq!(head.show("r").await["attempts"][0]["end_reason"], "controller_lost");
    head.attempt(&new, "r-a1", 1).await;
    head.assert_consistent("r").await;
    // What was fenced stays fenced over a restart.
    let head = head.restart().await;
    assert_problem(&head.say(&old, "end", json!({"run_status": "FINISHED"})).await, 409, "stale-controller");
    assert_eq!(head.say(&new, "end", json!({"run_status": "FINISHED"})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_opens_its_own_run_only() {
    let head = Head::new().await;
    let (a, b) = (head.running("a", 1).await, head.running("b", 1).await);
    let mixed = Run { id: a.id.clone(), token: b.token };
    assert_problem(&head.say(&mixed, "end", json!({"run_status": "FINISHED"})).await, 403, "wrong-token");
    let bare = head.post("/api/train/runs/a/end", None, json!({"run_status": "FINISHED"})).await;
    assert_problem(&bare, 401, "no-token");
    assert_eq!(head.show("a").await["run_status"], "STARTED");
}

#[tokio::test]
async fn a_bad_registration_names_the_field_and_writes_nothing() {
    let head = Head::new().await;
    let base = json!({"name": "n", "controller": {"actor_id": "c"}});
    let with = |path: &str, value: serde_json::Value| {
        let mut body = base.clone();
        match path.rsplit_once('/') {
            Some(("", last)) => body[last] = value,
            Some((parent, last)) => body.pointer_mut(parent).unwrap()[last] = value,
            None => unreachable!(),
        }
        body
    };
    let deep = (0..40).fold(json!(1), |v, _| json!({"a": v}));
    for (body, status, field) in [
        (with("/nme", json!("typo")), 422, "nme"),
        (with("/controller/lease", json!(1)), 422, "controller.lease"),
        (with("/name", json!(7)), 400, "name"),
        (with("/name", json!("x".repeat(257))), 422, "name"),
        (with("/name", json!("a\nb")), 422, "name"),
        (with("/id", json!("../x")), 422, "id"),
        (with("/controller/lease_ttl_ms", json!(1)), 422, "controller.lease_ttl_ms"),
        (with("/settings", deep), 422, "settings"),
        (with("/start_time_ms", json!(1_700_000_000)), 400, "start_time_ms"),
        (json!({"name": "n"}), 422, ""),
    ] {
        let answer = head.post("/api/train/runs", None, body.clone()).await;
        assert_eq!(answer.status.as_u16(), status, "{body} {}", answer.body);
        if !field.is_empty() {
            assert_eq!(answer.body["field"], field, "{}", answer.body);
        }
    }
    assert_eq!(head.get("/api/train/runs").await.body["total_size"], 0);
}

#[tokio::test]
async fn a_secret_in_the_settings_is_neither_shown_nor_stored_and_a_retry_is_one() {
    let head = Head::new().await;
    let body = json!({
        "id": "r", "controller": {"actor_id": "c"},
        "settings": {
            "db": {"password": "hunter2hunter2", "max_tokens": 512, "pad_token": "<pad>"},
            "store": "postgres://me:swordfish99@db/runs",
            "command": ["train.py", "--api-key", "opensesame77", "--lr", "0.1"],
        },
    });
    let registered = head.post("/api/train/runs", None, body.clone()).await;
    assert_eq!(registered.status, StatusCode::CREATED, "{}", registered.body);
    let retried = head.post("/api/train/runs", None, body.clone()).await;
    assert_eq!(retried.status, StatusCode::OK, "{}", retried.body);
    let detail = head.show("r").await;
    assert_eq!(
        detail["settings"],
        json!({
            "db": {"password": "***", "max_tokens": 512, "pad_token": "<pad>"},
            "store": "postgres://me:***@db/runs",
            "command": ["train.py", "--api-key", "***", "--lr", "0.1"],
        })
    );
    let mut other = body.clone();
    other["settings"]["db"]["password"] = json!("another");
    assert_problem(&head.post("/api/train/runs", None, other).await, 409, "run-exists");
    let list = head.get("/api/train/runs?include=evidence").await.body;
    // A restart folds the WAL into the database, and the retry is one all the same.
    let head = head.restart().await;
    assert_eq!(head.post("/api/train/runs", None, body).await.status, StatusCode::OK);
    let mut seen = format!("{}{}{detail}{list}", registered.body, retried.body).into_bytes();
    for file in std::fs::read_dir(head.data_dir.root()).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            seen.extend(std::fs::read(path).unwrap());
        }
    }
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.contains("postgres://me:***@db/runs"));
    for secret in ["hunter2hunter2", "swordfish99", "opensesame77"] {
        assert!(!seen.contains(secret), "{secret}");
    }
}
