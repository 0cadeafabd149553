//! Metrics: what goes in comes out, once, exactly.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Head, Run, assert_problem};

async fn series(head: &Head, query: &str) -> Value {
    let answer = head.get(&format!("/api/train/runs/r/metrics/series?{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.body["series"].clone()
}

fn columns(seq: u64, attempt: u32, steps: std::ops::Range<u64>, value: impl Fn(u64) -> Value) -> Value {
    let values: Vec<Value> = steps.clone().map(value).collect();
    let times: Vec<u64> = steps.clone().map(|step| 1_700_000_000_000 + step).collect();
    json!({"writer": "w", "seq": seq, "attempt": attempt,
        "columns": {"step": steps.collect::<Vec<_>>(), "time_ms": times, "metrics": {"loss": values}}})
}

async fn report(head: &Head, run: &Run, body: Value) {
    let answer = head.say(run, "reports", body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
}

#[tokio::test]
async fn odd_floats_and_odd_names_come_back_exactly() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let odd = json!(["NaN", "Infinity", "-Infinity", -0.0, 5e-324, 0.1, 1.797_693_134_862_315_7e308, true]);
    let back = json!(["NaN", "Infinity", "-Infinity", -0.0, 5e-324, 0.1, 1.797_693_134_862_315_7e308, 1.0]);
    report(&head, &run, columns(1, 0, 0..8, |i| odd[usize::try_from(i).unwrap()].clone())).await;
    let one = series(&head, "key=loss").await;
    assert_eq!(one[0]["value"], back);
    assert_eq!(one[0]["value"][3].to_string(), "-0.0");
    let names =
        ["train/loss", "a b", "50%", "a?b#c", "損失", "mean@1", "n:estimators", "\u{202e}rtl", "[x](y)'\""];
    let metrics: serde_json::Map<String, Value> =
        names.iter().map(|n| ((*n).to_owned(), json!(1.5))).collect();
    report(&head, &run, json!({"writer": "w", "seq": 2, "reports": [{"step": 1, "metrics": metrics}]})).await;
    for name in names {
        let key: String = serde_html_form::to_string([("key", name)]).unwrap();
        assert_eq!(series(&head, &key).await[0]["value"], json!([1.5]), "{name}");
    }
    let list = head.get("/api/train/runs/r/metrics").await.body;
    let loss = list["metrics"].as_array().unwrap().iter().find(|m| m["key"] == "loss").unwrap().clone();
    assert_eq!((&loss["count"], &loss["nan_count"], &loss["last_step"]), (&json!(8), &json!(1), &json!(7)));
    assert_eq!(
        (&loss["min"], &loss["max"], &loss["last"]),
        (&json!("-Infinity"), &json!("Infinity"), &json!(1.0))
    );
}

#[tokio::test]
async fn a_restart_branches_the_curve_and_the_newest_attempt_is_shown() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    report(&head, &run, columns(1, 0, 0..1001, |_| json!(0))).await;
    head.say(&run, "attempts/r-a0/end", json!({"status": "ERRORED", "end_reason": "worker_failed"})).await;
    head.attempt(&run, "r-a1", 1).await;
    report(&head, &run, columns(2, 1, 500..1201, |_| json!(1))).await;
    let overview = head.get("/api/train/runs/r/metrics").await.body;
    // Steps 500 to 1,000 were done again; `columns` has a step a ms.
    let first = json!({"attempt": 0, "steps": 501, "ms": 500});
    assert_eq!(overview["lost"], json!({"steps": 501, "ms": 500, "attempts": [first]}));
    let merged = &series(&head, "key=loss&max_points=10000").await[0];
    assert_eq!(merged["count"], 1201);
    let values = merged["value"].as_array().unwrap();
    assert!(values[..500].iter().all(|v| *v == json!(0.0)) && values[500..].iter().all(|v| *v == json!(1.0)));
    assert_eq!((&merged["attempt_at"][499], &merged["attempt_at"][500]), (&json!(0), &json!(1)));
    let all = series(&head, "key=loss&attempt=all&max_points=10000").await;
    assert_eq!((&all[0]["count"], &all[1]["count"]), (&json!(1001), &json!(701)));
    assert_eq!(series(&head, "key=loss&attempt=0&from_step=10&to_step=19").await[0]["count"], 10);
    // The next one begins where that one ended, the one after it does some steps again.
    for (attempt, steps) in [(2, 1201..1301), (3, 1281..1400)] {
        let before = format!("attempts/r-a{}/end", attempt - 1);
        head.say(&run, &before, json!({"status": "ERRORED", "end_reason": "worker_failed"})).await;
        head.attempt(&run, &format!("r-a{attempt}"), 1).await;
        report(&head, &run, columns(u64::from(attempt) + 1, attempt, steps, |_| json!(1))).await;
    }
    let lost = head.get("/api/train/runs/r/metrics").await.body["lost"].clone();
    let third = json!({"attempt": 2, "steps": 20, "ms": 19});
    assert_eq!(lost, json!({"steps": 521, "ms": 519, "attempts": [first, third]}));
}

#[tokio::test]
async fn an_attempt_loses_no_more_steps_than_it_did() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    report(&head, &run, columns(1, 0, 1000..1101, |_| json!(0))).await;
    head.say(&run, "attempts/r-a0/end", json!({"status": "ERRORED", "end_reason": "worker_failed"})).await;
    head.attempt(&run, "r-a1", 1).await;
    report(&head, &run, columns(2, 1, 0..10, |_| json!(1))).await;
    let lost = head.get("/api/train/runs/r/metrics").await.body["lost"].clone();
    let first = json!({"attempt": 0, "steps": 101, "ms": 100});
    assert_eq!(lost, json!({"steps": 101, "ms": 100, "attempts": [first]}));
}

#[tokio::test]
async fn a_batch_sent_again_by_anybody_is_stored_once() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let body = columns(1, 0, 0..150, |i| json!(i));
    for _ in 0..3 {
        report(&head, &run, body.clone()).await;
    }
    let mut other = body.clone();
    other["writer"] = json!("another");
    let (a, b) = tokio::join!(head.say(&run, "reports", other.clone()), head.say(&run, "reports", other));
    assert_eq!((a.status, b.status), (StatusCode::OK, StatusCode::OK));
    assert_eq!(series(&head, "key=loss").await[0]["count"], 150);
    // A batch that overtook another is not the end of the other.
    report(&head, &run, columns(3, 0, 300..310, |_| json!(3))).await;
    let head = head.restart().await;
    report(&head, &run, columns(2, 0, 200..210, |_| json!(2))).await;
    report(&head, &run, columns(3, 0, 300..310, |_| json!(99))).await;
    let all = &series(&head, "key=loss&from_step=200").await[0];
    assert_eq!(all["count"], 20);
    assert_eq!(all["value"][19], json!(3.0), "a batch that is in stores nothing again");
}

#[tokio::test]
async fn one_bad_value_stores_nothing_and_is_named() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    for (value, named) in [(json!("abc"), true), (json!([1]), true), (json!(null), true)] {
        let body =
            json!({"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"good": 1, "bad": value}}]});
        let answer = head.say(&run, "reports", body).await;
        assert!(answer.status.is_client_error());
        assert_eq!(answer.body["field"].as_str().unwrap().contains("bad"), named, "{}", answer.body);
    }
    let huge = r#"{"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"good": 1, "bad": 1e400}}]}"#;
    let mut request =
        crate::harness::request("POST", "/api/train/runs/r/reports", Some(&run.token), Some(json!({})));
    *request.body_mut() = huge.into();
    let answer = head.send(request).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.body["field"].as_str().unwrap().contains("bad"), "{}", answer.body);
    let keys: serde_json::Map<String, Value> = (0..40_000).map(|i| (format!("k{i}"), json!(1))).collect();
    let many = json!({"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": keys}]});
    let answer = head.say(&run, "reports", many).await;
    assert_problem(&answer, 422, "invalid");
    assert_eq!(answer.body["limit"], 20_000);
    let unknown = columns(1, 7, 0..1, |_| json!(1));
    assert_problem(&head.say(&run, "reports", unknown).await, 404, "attempt-not-found");
    assert_eq!(head.get("/api/train/runs/r/metrics").await.body["metrics"], json!([]));
}

#[tokio::test]
async fn a_spike_survives_downsampling_and_a_small_window_is_raw() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    for (i, start) in (0..100_000).step_by(20_000).enumerate() {
        let value = |step| if step == 77_777 { json!(1000) } else { json!(0) };
        report(&head, &run, columns(u64::try_from(i).unwrap() + 1, 0, start..start + 20_000, value)).await;
    }
    let thin = series(&head, "key=loss&max_points=1000").await;
    assert_eq!(thin[0]["count"], 100_000);
    assert!(thin[0]["step"].as_array().unwrap().len() <= 1000);
    assert!(thin[0]["step"].as_array().unwrap().contains(&json!(77_777)));
    assert_eq!(thin, series(&head, "key=loss&max_points=1000").await);
    let window = series(&head, "key=loss&max_points=1000&from_step=77000&to_step=77900").await;
    assert_eq!(window[0]["step"].as_array().unwrap().len(), 901);
}

#[tokio::test]
async fn twelve_thousand_keys_are_taken_listed_and_do_not_swell_the_list() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let before = head.get("/api/train/runs").await.body.to_string().len();
    for seq in 1..=2u64 {
        let metrics: serde_json::Map<String, Value> =
            (0..12_000).map(|i| (format!("layer{i}/norm"), json!([i, seq]))).collect();
        let steps = [2 * seq, 2 * seq + 1];
        report(
            &head,
            &run,
            json!({"writer": "w", "seq": seq, "columns": {"step": steps, "metrics": metrics}}),
        )
        .await;
    }
    let overview = head.get("/api/train/runs/r/metrics").await.body;
    let metrics = overview["metrics"].as_array().unwrap();
    assert_eq!(metrics.len(), 12_000);
    let one = metrics.iter().find(|m| m["key"] == "layer7/norm").unwrap();
    assert_eq!((&one["count"], &one["last"], &one["max"]), (&json!(4), &json!(2.0), &json!(7.0)));
    let after = head.get("/api/train/runs").await.body.to_string().len();
    assert!(after < before + 2_000, "{before} bytes became {after}");
}

#[tokio::test]
async fn a_batch_of_many_keys_whose_answer_was_lost_is_stored_once_also_by_two_at_once() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let metrics: serde_json::Map<String, Value> =
        (0..150).map(|i| (format!("k{i}"), json!([i, 1]))).collect();
    let body = json!({"writer": "w", "seq": 1, "columns": {"step": [1, 2], "metrics": metrics}});
    let mut other = body.clone();
    other["writer"] = json!("another");
    let (a, b) =
        tokio::join!(head.say(&run, "reports", body.clone()), head.say(&run, "reports", body.clone()));
    assert_eq!(
        [&a.body["known"], &b.body["known"]].iter().filter(|known| **known == &json!(true)).count(),
        1
    );
    report(&head, &run, other).await;
    let overview = head.get("/api/train/runs/r/metrics").await.body;
    let counts: Vec<&Value> = overview["metrics"].as_array().unwrap().iter().map(|m| &m["count"]).collect();
    assert_eq!(counts, vec![&json!(2); 150]);
}
