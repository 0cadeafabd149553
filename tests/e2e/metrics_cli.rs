//! `trainhead metrics`: what was measured is listed, drawn, and written to files whole.

use std::{fs::File, path::Path};

use arrow_ipc::reader::StreamReader;
use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::RowAccessor,
};
use serde_json::{Value, json};
use trainhead::base::number::{float, size};

use crate::harness::{Place, Running, http_with};

/// More than one page of an export, and more than one group of a Parquet file.
const STEPS: u64 = 110_000;
const ODD: &str = "a,\"b\"";

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap()
}

/// The value at a step.
fn loss(step: u64) -> f64 {
    1.0 / float(signed(step) + 3)
}

struct Reporter {
    url: String,
    token: String,
    seq: u64,
}

impl Reporter {
    fn new(head: &Running) -> Self {
        let body = json!({"id": "r", "name": "base", "controller": {"actor_id": "c"}});
        let (status, answer) = http_with(&head.url, "POST", "/api/train/runs", None, Some(&body)).unwrap();
        assert_eq!(status, 201, "{answer}");
        let token = answer["controller_token"].as_str().unwrap().to_owned();
        Self { url: head.url.clone(), token, seq: 0 }
    }

    fn say(&self, verb: &str, body: &Value) {
        let path = format!("/api/train/runs/r/{verb}");
        let (status, answer) = http_with(&self.url, "POST", &path, Some(&self.token), Some(body)).unwrap();
        assert!(status < 300, "{answer}");
    }

    fn report(&mut self, attempt: u32, rank: u32, steps: std::ops::Range<u64>) {
        self.seq += 1;
        let steps: Vec<u64> = steps.collect();
        let values: Vec<f64> = steps.iter().copied().map(loss).collect();
        let odd: Vec<Value> = steps.iter().map(|_| json!("NaN")).collect();
        self.say(
            "reports",
            &json!({"writer": "w", "seq": self.seq, "attempt": attempt, "rank": rank,
                "columns": {"step": steps, "metrics": {"train/loss": values, ODD: odd}}}),
        );
    }
}

/// A run of one rank and one attempt with many steps, then a second attempt of two ranks with few.
fn measured(head: &Running) {
    let mut reporter = Reporter::new(head);
    reporter.say("attempts", &json!({"attempt_id": "a0", "num_workers": 1}));
    for from in (0..STEPS).step_by(50_000) {
        reporter.report(0, 0, from..STEPS.min(from + 50_000));
    }
    reporter.say("attempts/a0/end", &json!({"status": "ERRORED", "end_reason": "worker_failed"}));
    reporter.say("attempts", &json!({"attempt_id": "a1", "num_workers": 1}));
    for rank in 0..2 {
        reporter.report(1, rank, STEPS - 10..STEPS + 10);
    }
}

fn rows_of_parquet(path: &Path) -> Vec<(String, u32, u32, i64, f64)> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|row| {
        (
            row.get_string(0).unwrap().clone(),
            row.get_uint(1).unwrap(),
            row.get_uint(2).unwrap(),
            row.get_long(3).unwrap(),
            row.get_double(5).unwrap(),
        )
    })
    .collect()
}

#[test]
fn an_export_has_every_point_in_every_format() {
    let place = Place::new();
    let head = place.serve(&[]);
    measured(&head);
    let file = |name: &str| place.path(name).display().to_string();

    // Merged: a restart replaced the last steps of the first attempt.
    let parquet = place.path("all.parquet");
    let said = place.output(&["metrics", "export", "base", "-o", &file("all.parquet")]);
    assert!(said.status.success());
    let points = 2 * (STEPS + 10);
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(told.contains(&format!("{points} points of 2 metrics")), "{told}");
    let rows = rows_of_parquet(&parquet);
    assert_eq!(size(rows.len()), points);
    let of_loss: Vec<_> = rows.iter().filter(|row| row.0 == "train/loss").collect();
    for (i, (_, attempt, rank, step, value)) in of_loss.iter().enumerate() {
        let i = size(i);
        assert_eq!((*step, *rank, *attempt), (signed(i), 0, u32::from(i >= STEPS - 10)));
        assert_eq!(value.to_bits(), loss(i).to_bits());
    }
    assert!(rows.iter().filter(|row| row.0 == ODD).all(|row| row.4.is_nan()));
    assert!(!place.path("all.parquet.partial").exists());

    // Everything that was ever reported of one metric, on stdout.
    let csv =
        place.output(&["metrics", "export", "r", "--key", "train/loss", "--attempt", "all", "--rank", "all"]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("key,attempt,rank,step,time_ms,value"));
    assert_eq!(size(lines.clone().count()), STEPS + 40);
    let of = |start: &str| size(csv.lines().filter(|line| line.starts_with(start)).count());
    assert_eq!([of("train/loss,0,0,"), of("train/loss,1,0,"), of("train/loss,1,1,")], [STEPS, 20, 20]);

    let args = ["metrics", "export", "r", "--key", ODD, "--rank", "1", "-o", &file("one.arrow"), "--json"];
    let told: Value = serde_json::from_slice(&place.output(&args).stdout).unwrap();
    assert_eq!((&told["points"], &told["keys"]), (&json!(20), &json!(1)));
    let batches = StreamReader::try_new(File::open(place.path("one.arrow")).unwrap(), None).unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 20);

    let missing = place.output(&["metrics", "export", "r", "--key", "nothing", "-o", &file("none.csv")]);
    assert!(!missing.status.success());
    assert!(String::from_utf8(missing.stderr).unwrap().contains("metrics ls base"));
    assert!(!place.path("none.csv").exists() && !place.path("none.csv.partial").exists());
}

#[test]
fn metrics_are_listed_and_drawn() {
    let place = Place::new();
    let head = place.serve(&[]);
    let mut reporter = Reporter::new(&head);
    let none = place.output(&["metrics", "ls", "base"]);
    assert_eq!(String::from_utf8(none.stdout).unwrap(), "base has no metrics\n");
    reporter.say("attempts", &json!({"attempt_id": "a0", "num_workers": 1}));
    reporter.report(0, 0, 1..6);
    let listed = String::from_utf8(place.output(&["metrics", "ls", "base"]).stdout).unwrap();
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["KEY", "POINTS", "STEPS", "LAST", "MIN", "MAX"]);
    assert_eq!(rows[1], [ODD, "5", "1–5", "NaN"]);
    assert_eq!(rows[2], ["train/loss", "5", "1–5", "0.125", "0.125", "0.25"]);
    let json: Value =
        serde_json::from_slice(&place.output(&["metrics", "ls", "base", "--json"]).stdout).unwrap();
    assert_eq!(json["metrics"][1]["key"], "train/loss");
    let drawn = String::from_utf8(place.output(&["metrics", "show", "base", "train/loss"]).stdout).unwrap();
    let rows: Vec<Vec<&str>> = drawn.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["train/loss", "merged", "0", "1–5", "█▅▃▂▁", "0.125"]);
    let missing = place.output(&["metrics", "show", "base", "train/loss", "nothing"]);
    assert!(!missing.status.success());
    assert!(String::from_utf8(missing.stderr).unwrap().contains("\"nothing\""));
}
