//! The head is killed again and again while metrics come in and are compressed: what it acknowledged is there, once.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};

use crate::harness::{Place, Running, http, http_with, wait_for};

const KILLS: usize = 50;
const WRITERS: usize = 3;
const ROWS: i64 = 100;
const KEYS: [&str; 3] = ["a", "b", "train/loss"];

/// The value of each step, odd floats among them.
fn value(step: i64) -> Value {
    match step % 1009 {
        0 => json!("NaN"),
        1 => json!("-Infinity"),
        _ => json!(f64::from(i32::try_from(step).unwrap()) / 3.0),
    }
}

fn body(seq: i64) -> Value {
    let steps: Vec<i64> = ((seq - 1) * ROWS..seq * ROWS).collect();
    let values: Vec<Value> = steps.iter().map(|step| value(*step)).collect();
    let metrics: serde_json::Map<_, _> = KEYS.iter().map(|key| ((*key).to_owned(), json!(values))).collect();
    json!({"writer": "w", "seq": seq, "columns": {"step": steps, "metrics": metrics}})
}

/// All points of a key.
fn steps_and_values(head: &Running, run: &str, key: &str) -> Vec<(i64, Value)> {
    let answer = head.get(&format!("/api/train/runs/{run}/metrics/series?key={key}&max_points=1000000"));
    let column = |name: &str| answer["series"][0][name].as_array().cloned().unwrap_or_default();
    column("step").iter().map(|s| s.as_i64().unwrap()).zip(column("value")).collect()
}

#[test]
fn no_acknowledged_point_is_lost_or_doubled_by_fifty_kills() {
    let place = Place::new();
    // Of each writer the batches that were acknowledged.
    let acknowledged: [Mutex<i64>; WRITERS] = Default::default();
    let mut tokens = Vec::new();
    for kill in 0..KILLS {
        let mut head = place.serve(&[]);
        if kill == 0 {
            for writer in 0..WRITERS {
                let body = json!({"id": format!("r{writer}"), "controller": {"actor_id": "c"}});
                let answer = http(&head.url, "POST", "/api/train/runs", Some(&body)).unwrap();
                tokens.push(answer["controller_token"].as_str().unwrap().to_owned());
            }
        }
        let (url, stop) = (head.url.clone(), AtomicBool::new(false));
        let total = || acknowledged.iter().map(|n| *n.lock().unwrap()).sum::<i64>();
        let begun = total();
        std::thread::scope(|scope| {
            for (writer, (token, acknowledged)) in tokens.iter().zip(&acknowledged).enumerate() {
                let (url, stop) = (&url, &stop);
                scope.spawn(move || {
                    let path = format!("/api/train/runs/r{writer}/reports");
                    while !stop.load(Ordering::Relaxed) {
                        // What got no answer is sent again, to the next head if need be.
                        let seq = *acknowledged.lock().unwrap() + 1;
                        match http_with(url, "POST", &path, Some(token), Some(&body(seq))) {
                            Some((200, answer)) => {
                                assert_eq!(
                                    answer["points"],
                                    ROWS * i64::try_from(KEYS.len()).unwrap(),
                                    "{answer}"
                                );
                                *acknowledged.lock().unwrap() = seq;
                            }
                            Some((status, answer)) => assert_eq!(status, 503, "{answer}"),
                            None => return,
                        }
                    }
                });
            }
            // Not always at the same moment.
            let enough = 6 + i64::try_from(kill % 7).unwrap() * 5;
            wait_for("batches", || (total() - begun >= enough).then_some(()));
            head.kill();
            stop.store(true, Ordering::Relaxed);
        });
    }
    let head = place.serve(&[]);
    let check = || {
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            // The last one may be in though its answer was lost.
            let (least, run) = (*acknowledged.lock().unwrap() * ROWS, format!("r{writer}"));
            for key in KEYS {
                let points = steps_and_values(&head, &run, key);
                let n = i64::try_from(points.len()).unwrap();
                assert!(n == least || n == least + ROWS, "{n} points of {least} in {run} {key}");
                for (step, point) in (0..n).zip(points) {
                    assert_eq!(point, (step, value(step)), "{run} {key}");
                }
            }
        }
    };
    check();
    for (writer, token) in tokens.iter().enumerate() {
        let end = json!({"run_status": "FINISHED"});
        http_with(&head.url, "POST", &format!("/api/train/runs/r{writer}/end"), Some(token), Some(&end))
            .unwrap();
    }
    let database = place.data().join("trainhead.db");
    let count = |sql: &'static str| -> i64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection =
                SqliteConnection::connect(&format!("sqlite://{}?mode=ro", database.display())).await.unwrap();
            sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
        })
    };
    wait_for("everything to be sealed", || {
        std::thread::park_timeout(Duration::from_millis(50));
        (count("select count(*) from metric_tail") == 0).then_some(())
    });
    assert!(count("select count(*) from metric_chunks") >= 9, "a chunk for each of three keys in three runs");
    check();
}
