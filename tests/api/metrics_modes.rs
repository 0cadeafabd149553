//! What can be asked of a series besides its range: how points are left out, pages, times, and only what is new.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Head, Run, START};

async fn ask(head: &Head, query: &str) -> Value {
    let answer = head.get(&format!("/api/train/runs/r/metrics/series?key=loss&{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.body
}

async fn report(head: &Head, run: &Run, seq: u64, steps: std::ops::Range<u64>) {
    let times: Vec<i64> = steps.clone().map(|step| START + step as i64 * 10).collect();
    let values: Vec<f64> = steps.clone().map(|step| step as f64).collect();
    let body = json!({"writer": "w", "seq": seq, "columns":
        {"step": steps.collect::<Vec<_>>(), "time_ms": times, "metrics": {"loss": values}}});
    assert_eq!(head.say(run, "reports", body).await.status, StatusCode::OK);
}

fn steps(answer: &Value) -> Vec<i64> {
    answer["series"][0]["step"].as_array().unwrap().iter().map(|step| step.as_i64().unwrap()).collect()
}

#[tokio::test]
async fn raw_pages_give_every_point_once() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    report(&head, &run, 1, 0..5_000).await;
    report(&head, &run, 2, 5_000..10_001).await;
    let (mut all, mut from, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(step) = from {
        let answer = ask(&head, &format!("mode=raw&max_points=1000&from_step={step}")).await;
        let page = steps(&answer);
        assert!(!page.is_empty() && page.len() <= 1000);
        all.extend(page);
        from = answer["series"][0]["next_step"].as_i64();
        pages += 1;
    }
    assert_eq!(all, (0..10_001).collect::<Vec<_>>());
    assert_eq!(pages, 11);
    let page = ask(&head, "mode=raw&max_points=1000&from_step=9001").await;
    assert_eq!((steps(&page).len(), &page["series"][0]["next_step"]), (1000, &Value::Null));
}

#[tokio::test]
async fn a_range_of_times_is_a_range() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    report(&head, &run, 1, 0..1_000).await;
    let (from, to) = (START + 100, START + 199);
    assert_eq!(steps(&ask(&head, &format!("from_ms={from}&to_ms={to}")).await), (10..20).collect::<Vec<_>>());
    let both = ask(&head, &format!("from_ms={from}&to_ms={to}&from_step=15&x=time")).await;
    assert_eq!(steps(&both), (15..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn every_mode_gives_as_many_points_as_were_asked_for() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    report(&head, &run, 1, 0..10_000).await;
    for mode in ["minmax", "lttb", "mean", "raw"] {
        for x in ["step", "time"] {
            let answer = ask(&head, &format!("mode={mode}&x={x}&max_points=100")).await;
            let steps = steps(&answer);
            assert!((40..=102).contains(&steps.len()), "{mode} {x}: {}", steps.len());
            assert!(steps.is_sorted());
            assert_eq!(answer["series"][0]["count"], 10_000, "{mode} {x}");
        }
    }
}

#[tokio::test]
async fn a_cursor_gives_what_is_new() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    report(&head, &run, 1, 0..100).await;
    let first = ask(&head, "").await;
    assert_eq!(first["whole"], true);
    let nothing = ask(&head, &format!("since={}", first["cursor"])).await;
    assert_eq!((&nothing["whole"], &nothing["series"]), (&json!(false), &json!([])));
    report(&head, &run, 2, 100..110).await;
    let new = ask(&head, &format!("since={}", first["cursor"])).await;
    assert_eq!((steps(&new), &new["whole"]), ((100..110).collect::<Vec<_>>(), &json!(false)));
    let head = head.restart().await;
    let again = ask(&head, &format!("since={}", new["cursor"])).await;
    assert_eq!(again["series"], json!([]));
}
