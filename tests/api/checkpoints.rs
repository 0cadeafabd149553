//! The ledger of checkpoints: what controllers say of them, what people pin, how they stand to each other.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Answer, Head, Run, START, assert_problem, request};

const ALL: &str = "/api/train/runs/r/checkpoints";

fn checkpoint(state: &str, step: u64, accuracy: Value) -> Value {
    json!({"state": state, "step": step, "attempt": 0, "uri": format!("/c/{step}"), "ranks": [0, 1], "num_files": 2,
        "size_bytes": 2048, "metrics": {"accuracy": accuracy}, "committed_at_ms": START})
}

async fn say(head: &Head, run: &Run, number: u64, body: Value) -> Answer {
    head.send(request("PUT", &format!("{ALL}/{number}"), Some(&run.token), Some(body))).await
}

async fn pin(head: &Head, method: &str, number: u64) -> Answer {
    head.send(request(method, &format!("{ALL}/{number}/pin"), None, Some(json!({})))).await
}

/// A run that keeps one checkpoint by its accuracy, with 0.9 and then 0.8.
async fn two_checkpoints(head: &Head) -> Run {
    let settings =
        json!({"checkpoints": {"num_to_keep": 1, "score_attribute": "accuracy", "score_order": "max"}});
    let run = head.register(json!({"id": "r", "settings": settings, "controller": {"actor_id": "c"}})).await;
    for (number, accuracy) in [(0, 0.9), (1, 0.8)] {
        let said = say(head, &run, number, checkpoint("COMMITTED", number * 10, json!(accuracy))).await;
        assert_eq!(said.status, StatusCode::OK, "{}", said.body);
    }
    run
}

fn fates(list: &Answer) -> Vec<(u64, String)> {
    let all = list.body["checkpoints"].as_array().unwrap();
    all.iter().map(|c| (c["number"].as_u64().unwrap(), c["fate"].as_str().unwrap().to_owned())).collect()
}

#[tokio::test]
async fn the_best_and_the_latest_are_shown_as_such_also_after_a_restart() {
    let head = Head::new().await;
    two_checkpoints(&head).await;
    let before = head.get(ALL).await;
    assert_eq!((&before.body["best"], &before.body["latest"]), (&json!(0), &json!(1)));
    assert_eq!(fates(&before), [(1, "LATEST".into()), (0, "BEST".into())]);
    let best = &before.body["checkpoints"][1];
    assert_eq!((&best["metrics"]["accuracy"], &best["size_bytes"]), (&json!(0.9), &json!(2048)));
    let head = head.restart().await;
    assert_eq!(head.get(ALL).await.body, before.body);
    head.assert_consistent("r").await;
}

#[tokio::test]
async fn a_checkpoint_goes_its_way_once_and_stays_what_it_is() {
    let head = Head::new().await;
    let run = two_checkpoints(&head).await;
    // The same again changes nothing and is no event.
    say(&head, &run, 1, checkpoint("COMMITTED", 10, json!(0.8))).await;
    let validated = say(&head, &run, 1, checkpoint("VALIDATED", 10, json!(0.95))).await;
    assert_eq!(validated.status, StatusCode::OK, "{}", validated.body);
    assert_eq!(head.get(ALL).await.body["best"], 1, "what was measured ranks it anew");
    let mut gone = checkpoint("MISSING", 0, json!(0.9));
    gone["status_detail"] = json!("somebody removed /c/0");
    assert_eq!(say(&head, &run, 0, gone).await.status, StatusCode::OK);

    let back = say(&head, &run, 0, checkpoint("COMMITTED", 0, json!(0.9))).await;
    assert_problem(&back, 409, "illegal-transition");
    assert_problem(&say(&head, &run, 1, checkpoint("VALIDATED", 11, json!(1))).await, 422, "invalid");
    let trail = head.get("/api/train/runs/r/events").await;
    let events = trail.body["events"].as_array().unwrap();
    let of = |e: &Value| (e["from"].clone(), e["to"].clone(), e["reason"].clone());
    let said: Vec<_> = events.iter().filter(|e| e["kind"] == "checkpoint").map(of).collect();
    assert_eq!(
        said,
        [
            (json!(null), json!("COMMITTED"), json!("checkpoint 0, step 0")),
            (json!(null), json!("COMMITTED"), json!("checkpoint 1, step 10")),
            (json!("COMMITTED"), json!("VALIDATED"), json!("checkpoint 1, step 10")),
            (json!("COMMITTED"), json!("MISSING"), json!("somebody removed /c/0")),
        ]
    );
}

#[tokio::test]
async fn a_pin_keeps_a_checkpoint_and_its_controller_hears_of_it() {
    let head = Head::new().await;
    let run = two_checkpoints(&head).await;
    say(&head, &run, 2, checkpoint("COMMITTED", 20, json!(0.7))).await;
    assert_eq!(fates(&head.get(ALL).await)[1], (1, "GOES".into()));
    for _ in 0..2 {
        assert_eq!(pin(&head, "PUT", 1).await.status, StatusCode::OK);
    }
    assert_eq!(fates(&head.get(ALL).await)[1], (1, "PINNED".into()));
    assert_eq!(head.heartbeat(&run).await["pinned_checkpoints"], json!([1]));
    // What the controller says later does not take the pin away.
    say(&head, &run, 1, checkpoint("VALIDATED", 10, json!(0.8))).await;
    let head = head.restart().await;
    assert_eq!(head.get(ALL).await.body["checkpoints"][1]["pinned"], true);
    assert_eq!(pin(&head, "DELETE", 1).await.status, StatusCode::OK);
    assert_eq!(head.heartbeat(&run).await["pinned_checkpoints"], json!([]));

    assert_problem(&pin(&head, "PUT", 9).await, 404, "checkpoint-not-found");
    say(&head, &run, 1, checkpoint("DELETED", 10, json!(0.8))).await;
    assert_problem(&pin(&head, "PUT", 1).await, 409, "checkpoint-gone");
    assert_problem(&head.get("/api/train/runs/none/checkpoints").await, 404, "run-not-found");
}

#[tokio::test]
async fn what_is_no_checkpoint_is_refused_by_name() {
    let head = Head::new().await;
    let run = two_checkpoints(&head).await;
    let good = checkpoint("COMMITTED", 30, json!("NaN"));
    for (field, value, named) in [
        ("state", json!("STAGING"), "state"),
        ("uri", json!(""), "uri"),
        ("uri", json!("x".repeat(4097)), "uri"),
        ("committed_at_ms", json!(5), "committed_at_ms"),
        ("metrics", json!({"": 1}), "metrics"),
        ("nonsense", json!(1), "nonsense"),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let answer = say(&head, &run, 3, body).await;
        assert!(answer.status.is_client_error(), "{field}: {}", answer.status);
        assert_eq!(answer.body["field"], named);
    }
    let stranger = Run { id: "r".into(), token: "x".into() };
    assert_problem(&say(&head, &stranger, 3, good.clone()).await, 403, "wrong-token");
    assert_eq!(head.get(ALL).await.body["total_size"], 2);
    assert_eq!(say(&head, &run, 3, good).await.status, StatusCode::OK);
    assert_eq!(head.get(ALL).await.body["checkpoints"][0]["metrics"]["accuracy"], "NaN");
}

#[tokio::test]
async fn pages_hold_each_checkpoint_once() {
    let head = Head::new().await;
    let run = two_checkpoints(&head).await;
    for number in 2..7 {
        say(&head, &run, number, checkpoint("COMMITTED", number * 10, json!(0.1))).await;
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = head.get(&format!("{ALL}?page_size=3{token}")).await;
        seen.extend(fates(&page).into_iter().map(|(number, _)| number));
        let Some(next) = page.body["next_page_token"].as_str() else { break };
        token = format!("&page_token={next}");
    }
    assert_eq!(seen, [6, 5, 4, 3, 2, 1, 0]);
    assert_problem(&head.get(&format!("{ALL}?page_token=x")).await, 400, "malformed");
}
