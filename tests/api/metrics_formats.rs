//! How series are given back: each format holds what the JSON holds.

use arrow_array::{
    Array, Float64Array, Int64Array, StringArray, TimestampMillisecondArray, UInt32Array, cast::AsArray,
};
use arrow_ipc::reader::StreamReader;
use axum::{
    body::to_bytes,
    http::{StatusCode, header},
};
use serde_json::{Value, json};

use crate::harness::{Head, START, assert_problem, request};

const KEYS: [&str; 4] = ["loss", "a,b", "say \"hi\", twice", "損失 = 1\u{202e}"];

/// A run with two ranks of two attempts, a NaN and more points than one piece of an answer holds.
async fn filled() -> Head {
    let head = Head::new().await;
    let run = head.running("r", 2).await;
    let batch = |seq: u64, attempt: u32, rank: u32, steps: std::ops::Range<u64>| {
        let value = |i: u64| if i == 3 { json!("NaN") } else { json!(i as f64 / 3.0) };
        let rows = steps.end - steps.start;
        let metrics: serde_json::Map<String, Value> =
            KEYS.iter().map(|key| ((*key).to_owned(), steps.clone().map(value).collect())).collect();
        let times: Vec<i64> = (0..rows).map(|i| START + i as i64 * 7).collect();
        let steps: Vec<u64> = steps.collect();
        json!({"writer": "w", "seq": seq, "attempt": attempt, "rank": rank,
            "columns": {"step": steps, "time_ms": times, "metrics": metrics}})
    };
    for body in [batch(1, 0, 0, 0..20_000), batch(2, 0, 1, 0..10)] {
        assert_eq!(head.say(&run, "reports", body).await.status, StatusCode::OK);
    }
    head.say(&run, "attempts/r-a0/end", json!({"status": "ERRORED", "end_reason": "worker_failed"})).await;
    head.attempt(&run, "r-a1", 1).await;
    assert_eq!(head.say(&run, "reports", batch(3, 1, 0, 19_000..20_100)).await.status, StatusCode::OK);
    head
}

fn query(more: &str) -> String {
    let keys = serde_html_form::to_string(KEYS.map(|key| ("key", key))).unwrap();
    format!("/api/train/runs/r/metrics/series?{keys}&rank=all&max_points=100000{more}")
}

/// The bytes and the content type of an answer.
async fn bytes(head: &Head, path: &str, accept: Option<&str>) -> (Vec<u8>, String) {
    let mut request = request("GET", path, None, None);
    if let Some(accept) = accept {
        request.headers_mut().insert(header::ACCEPT, accept.parse().unwrap());
    }
    let response = head.raw(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    let content_type = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    (to_bytes(response.into_body(), 64 << 20).await.unwrap().to_vec(), content_type)
}

/// A point, its value as bits.
type Row = (String, u32, u32, i64, i64, u64);

fn bits(value: &Value) -> u64 {
    if value == "NaN" { f64::NAN.to_bits() } else { value.as_f64().unwrap().to_bits() }
}

/// What the JSON answer holds.
async fn expected(head: &Head, path: &str) -> Vec<Row> {
    let answer = head.get(path).await.body;
    let mut rows = Vec::new();
    for series in answer["series"].as_array().unwrap() {
        let at = |column: &str, i: usize| series[column][i].as_i64().unwrap();
        for (i, value) in series["value"].as_array().unwrap().iter().enumerate() {
            let rank = u32::try_from(series["rank"].as_u64().unwrap()).unwrap();
            let attempt = u32::try_from(at("attempt_at", i)).unwrap();
            let key = series["key"].as_str().unwrap().to_owned();
            rows.push((key, attempt, rank, at("step", i), at("time_ms", i), bits(value)));
        }
    }
    assert_eq!(rows.len(), 4 * (20_100 + 10), "all of it");
    rows
}

/// A frame of the binary layout: its header and its points, and what follows it.
fn read_frame(bytes: &[u8]) -> (Value, Vec<Row>, &[u8]) {
    assert_eq!(&bytes[..4], b"THS1");
    let header_len = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    let frame_len = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
    assert_eq!((header_len % 8, frame_len % 8), (0, 0));
    let header: Value = serde_json::from_slice(&bytes[16..16 + header_len]).unwrap();
    let columns = &bytes[16 + header_len..frame_len];
    let mut rows = Vec::new();
    for series in header["series"].as_array().unwrap() {
        let points = series["points"].as_u64().unwrap() as usize;
        let float = |column: &str, i: usize| {
            let offset = series["offsets"][column].as_u64().unwrap() as usize;
            assert_eq!(offset % 8, 0, "{column} is aligned");
            f64::from_le_bytes(columns[offset + 8 * i..offset + 8 * i + 8].try_into().unwrap())
        };
        let attempt_at = series["offsets"]["attempt_at"].as_u64().unwrap() as usize;
        for i in 0..points {
            let at = attempt_at + 4 * i;
            let attempt = u32::from_le_bytes(columns[at..at + 4].try_into().unwrap());
            let rank = u32::try_from(series["rank"].as_u64().unwrap()).unwrap();
            let key = series["key"].as_str().unwrap().to_owned();
            let value = float("value", i).to_bits();
            rows.push((key, attempt, rank, float("step", i) as i64, float("time_ms", i) as i64, value));
        }
    }
    (header, rows, &bytes[frame_len..])
}

/// The records of a CSV file by RFC 4180.
fn read_csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field, mut quoted) = (vec![], vec![], String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {
                chars.next();
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    assert!(field.is_empty() && record.is_empty() && !quoted, "a line that does not end");
    records
}

#[tokio::test]
async fn the_binary_layout_holds_what_the_json_holds() {
    let head = filled().await;
    let expected = expected(&head, &query("")).await;
    let (frame, content_type) = bytes(&head, &query("&format=binary"), None).await;
    assert_eq!(content_type, "application/octet-stream");
    let (header, rows, rest) = read_frame(&frame);
    assert!(rest.is_empty());
    assert_eq!(rows, expected);
    let json = head.get(&query("")).await.body;
    assert_eq!((&header["cursor"], &header["whole"]), (&json["cursor"], &json["whole"]));
    let first = &header["series"][0];
    assert_eq!((&first["attempt"], &first["count"]), (&json!("merged"), &json!(20_100)));
    let (empty, _) = bytes(&head, "/api/train/runs/r/metrics/series?key=none&format=binary", None).await;
    let (header, rows, _) = read_frame(&empty);
    assert_eq!((&header["series"], rows.len()), (&json!([]), 0));
}

#[tokio::test]
async fn csv_holds_what_the_json_holds_whatever_keys_are_called() {
    let head = filled().await;
    let expected = expected(&head, &query("")).await;
    let (csv, content_type) = bytes(&head, &query("&format=csv"), None).await;
    assert_eq!(content_type, "text/csv");
    let mut records = read_csv(std::str::from_utf8(&csv).unwrap()).into_iter();
    assert_eq!(records.next().unwrap(), ["key", "attempt", "rank", "step", "time_ms", "value"]);
    let rows: Vec<Row> = records
        .map(|record| {
            let [key, attempt, rank, step, time_ms, value] = <[String; 6]>::try_from(record).unwrap();
            let value: f64 = value.parse().unwrap();
            let value = if value.is_nan() { f64::NAN } else { value };
            (
                key,
                attempt.parse().unwrap(),
                rank.parse().unwrap(),
                step.parse().unwrap(),
                time_ms.parse().unwrap(),
                value.to_bits(),
            )
        })
        .collect();
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn arrow_holds_what_the_json_holds() {
    let head = filled().await;
    let expected = expected(&head, &query("")).await;
    let (stream, content_type) = bytes(&head, &query("&format=arrow"), None).await;
    assert_eq!(content_type, "application/vnd.apache.arrow.stream");
    let mut rows: Vec<Row> = Vec::new();
    for batch in StreamReader::try_new(&*stream, None).unwrap() {
        let batch = batch.unwrap();
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let keys: &StringArray = column("key").as_string();
        let attempts: &UInt32Array = column("attempt").as_primitive();
        let ranks: &UInt32Array = column("rank").as_primitive();
        let steps: &Int64Array = column("step").as_primitive();
        let times: &TimestampMillisecondArray = column("time_ms").as_primitive();
        let values: &Float64Array = column("value").as_primitive();
        assert_eq!(times.timezone(), Some("UTC"));
        assert_eq!(batch.columns().iter().map(|c| c.null_count()).sum::<usize>(), 0);
        for i in 0..batch.num_rows() {
            rows.push((
                keys.value(i).to_owned(),
                attempts.value(i),
                ranks.value(i),
                steps.value(i),
                times.value(i),
                values.value(i).to_bits(),
            ));
        }
    }
    assert_eq!(rows, expected);
    let (none, _) = bytes(&head, "/api/train/runs/r/metrics/series?key=none&format=arrow", None).await;
    assert_eq!(StreamReader::try_new(&*none, None).unwrap().count(), 0);
}

#[tokio::test]
async fn the_format_is_chosen_by_name_or_by_what_is_accepted() {
    let head = filled().await;
    for (format, accept, content_type) in [
        ("", None, "application/json"),
        ("", Some("*/*"), "application/json"),
        ("", Some("text/html, application/xhtml+xml"), "application/json"),
        ("", Some("text/csv"), "text/csv"),
        ("", Some("image/png, TEXT/CSV; charset=utf-8, application/json"), "text/csv"),
        ("", Some("application/vnd.apache.arrow.stream"), "application/vnd.apache.arrow.stream"),
        ("&format=json", Some("text/csv"), "application/json"),
        ("&format=binary", Some("text/csv"), "application/octet-stream"),
    ] {
        let (_, given) =
            bytes(&head, &format!("/api/train/runs/r/metrics/series?key=loss{format}"), accept).await;
        assert_eq!(given, content_type, "{format} {accept:?}");
    }
    for (wrong, field, status) in [
        ("format=xml", "format", 400),
        ("mode=median", "mode", 400),
        ("x=epoch", "x", 400),
        ("max_points=0", "max_points", 422),
        ("max_points=1000001", "max_points", 422),
        ("max_points=many", "max_points", 400),
        ("from_step=-1", "from_step", 400),
        ("from_ms=noon", "from_ms", 400),
        ("to_ms=1.5", "to_ms", 400),
        ("since=x", "since", 400),
        ("attempt=newest", "attempt", 400),
        ("rank=-1", "rank", 400),
        ("colour=red", "colour", 400),
    ] {
        let answer = head.get(&format!("/api/train/runs/r/metrics/series?key=loss&{wrong}")).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["field"]),
            (status, &json!(field)),
            "{}",
            answer.body
        );
    }
    let keys = "key=a&".repeat(5);
    let answer = head.get(&format!("/api/train/runs/r/metrics/series?{keys}max_points=1000000")).await;
    assert_problem(&answer, 422, "invalid");
    assert_eq!((&answer.body["field"], &answer.body["limit"]), (&json!("max_points"), &json!(4_000_000)));
}

#[tokio::test]
async fn runs_are_compared_line_by_line_or_frame_by_frame() {
    let head = filled().await;
    let other = head.running("s", 1).await;
    let body = json!({"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"loss": 5}}]});
    assert_eq!(head.say(&other, "reports", body).await.status, StatusCode::OK);
    let ask = async |body: Value, accept: Option<&str>| {
        let mut request = request("POST", "/api/train/metrics/query", None, Some(body));
        if let Some(accept) = accept {
            request.headers_mut().insert(header::ACCEPT, accept.parse().unwrap());
        }
        let response = head.raw(request).await;
        let content_type = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        (content_type, to_bytes(response.into_body(), 64 << 20).await.unwrap().to_vec())
    };
    let asked = json!({"runs": ["s", "r", "s"], "keys": ["loss"], "from_step": 1, "to_step": 2, "rank": 0, "attempt": "merged"});
    let (content_type, lines) = ask(asked.clone(), None).await;
    assert_eq!(content_type, "application/x-ndjson");
    let lines: Vec<Value> = std::str::from_utf8(&lines)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ids: Vec<&Value> = lines.iter().map(|line| &line["run_id"]).collect();
    assert_eq!(ids, ["s", "r", "s"]);
    assert_eq!(lines[0]["series"][0]["value"], json!([5.0]));
    assert_eq!(lines[1]["series"][0]["step"], json!([1, 2]));
    let (content_type, frames) = ask(asked, Some("application/octet-stream")).await;
    assert_eq!(content_type, "application/octet-stream");
    let mut rest = frames.as_slice();
    for line in &lines {
        let (header, rows, more) = read_frame(rest);
        assert_eq!(header["run_id"], line["run_id"]);
        assert_eq!(rows.len(), line["series"][0]["step"].as_array().unwrap().len());
        rest = more;
    }
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_comparison_that_cannot_be_is_refused_before_it_begins() {
    let head = filled().await;
    let many = |n: usize| (0..n).map(|i| format!("x{i}")).collect::<Vec<_>>();
    for (body, status, field) in [
        (json!({"runs": [], "keys": ["loss"]}), 422, json!("runs")),
        (json!({"runs": ["r"], "keys": []}), 422, json!("keys")),
        (json!({"runs": many(1001), "keys": ["loss"]}), 422, json!("runs")),
        (json!({"runs": ["r"], "keys": many(1001)}), 422, json!("keys")),
        (
            json!({"runs": ["r"], "keys": ["a", "b", "c", "d", "e"], "max_points": 1_000_000}),
            422,
            json!("max_points"),
        ),
        (json!({"runs": ["r"], "keys": ["loss"], "format": "csv"}), 422, json!("format")),
        (json!({"runs": ["r"], "keys": ["loss"], "mode": "x"}), 422, json!("mode")),
        (json!({"runs": ["r"], "keys": ["loss"], "rank": "x"}), 400, json!("rank")),
        (json!({"runs": ["r"], "keys": ["loss"], "since": 1}), 422, json!("since")),
        (json!({"keys": ["loss"]}), 422, Value::Null),
        (json!({"runs": ["r", "nobody"], "keys": ["loss"]}), 404, Value::Null),
    ] {
        let answer = head.post("/api/train/metrics/query", None, body).await;
        assert_eq!((answer.status.as_u16(), &answer.body["field"]), (status, &field), "{}", answer.body);
        assert!(answer.body["type"].as_str().unwrap().starts_with("/problems/"));
    }
}
