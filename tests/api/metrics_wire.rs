//! How metrics travel to the head: forms, encodings, and what is refused.

use std::io::Write;

use axum::{
    body::Body,
    http::{StatusCode, header},
};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::harness::{Answer, Head, Run, assert_problem, request};

const MSGPACK: &str = "application/msgpack";

/// Sends a body as it is.
async fn send(head: &Head, run: &Run, content_type: &str, coding: Option<&str>, body: Vec<u8>) -> Answer {
    let path = format!("/api/train/runs/{}/reports", run.id);
    let mut request = request("POST", &path, Some(&run.token), None);
    request.headers_mut().insert(header::CONTENT_TYPE, content_type.parse().unwrap());
    if let Some(coding) = coding {
        request.headers_mut().insert(header::CONTENT_ENCODING, coding.parse().unwrap());
    }
    *request.body_mut() = Body::from(body);
    head.send(request).await
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

async fn values(head: &Head, key: &str) -> Value {
    let key = serde_html_form::to_string([("key", key)]).unwrap();
    let answer = head.get(&format!("/api/train/runs/r/metrics/series?{key}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.body["series"][0]["value"].clone()
}

async fn stored_keys(head: &Head) -> Vec<Value> {
    let list = head.get("/api/train/runs/r/metrics").await.body;
    list["metrics"].as_array().unwrap().iter().map(|m| m["key"].clone()).collect()
}

#[tokio::test]
async fn every_form_and_encoding_stores_the_same() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let reports = |key: &str, seq: u64| {
        json!({"writer": "w", "seq": seq, "reports": [
            {"step": 1, "metrics": {"f": {key: 0.1}}}, {"step": 2, "metrics": {"f": {key: true}}},
            {"step": 3, "metrics": {"f": {key: "-inf"}}}, {"step": 4, "metrics": {"f": {key: 7}}}]})
    };
    let columns = |key: &str, seq: u64| {
        json!({"writer": "w", "seq": seq, "columns":
            {"step": [1, 2, 3, 4], "metrics": {"f": {key: [0.1, true, "-INFINITY", 7]}}}})
    };
    let mut seq = 0;
    let mut keys = Vec::new();
    for body in [&reports as &dyn Fn(&str, u64) -> Value, &columns] {
        for content_type in ["application/json; charset=utf-8", MSGPACK] {
            for coding in [None, Some("identity"), Some("gzip"), Some("GZIP"), Some("zstd")] {
                seq += 1;
                let key = format!("k{seq}");
                let body = body(&key, seq);
                let plain = match content_type {
                    MSGPACK => rmp_serde::to_vec_named(&body).unwrap(),
                    _ => body.to_string().into_bytes(),
                };
                let packed = match coding {
                    Some("gzip" | "GZIP") => gzip(&plain),
                    Some("zstd") => zstd(&plain),
                    _ => plain,
                };
                let answer = send(&head, &run, content_type, coding, packed).await;
                assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
                assert_eq!(answer.body, json!({"points": 4, "seq": seq, "known": false}));
                keys.push(key);
            }
        }
    }
    for key in keys {
        assert_eq!(values(&head, &format!("f/{key}")).await, json!([0.1, 1.0, "-Infinity", 7.0]), "{key}");
    }
}

#[tokio::test]
async fn odd_floats_come_back_exactly_from_messagepack() {
    #[derive(serde::Serialize)]
    struct Batch<'a> {
        writer: &'a str,
        seq: u64,
        columns: Columns<'a>,
    }
    #[derive(serde::Serialize)]
    struct Columns<'a> {
        step: &'a [u64],
        metrics: std::collections::BTreeMap<&'a str, Vec<f64>>,
    }
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let odd = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, 0.1 + 0.2, f64::MAX, 1.0];
    let columns = Columns { step: &[0, 1, 2, 3, 4, 5, 6, 7], metrics: [("loss", odd)].into() };
    let body = rmp_serde::to_vec_named(&Batch { writer: "w", seq: 1, columns }).unwrap();
    let answer = send(&head, &run, MSGPACK, None, body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let back = json!(["NaN", "Infinity", "-Infinity", -0.0, 5e-324, 0.1 + 0.2, f64::MAX, 1.0]);
    let values = values(&head, "loss").await;
    assert_eq!(values, back);
    assert_eq!(values[3].to_string(), "-0.0");
}

#[tokio::test]
async fn what_is_no_metric_is_refused_by_its_key_in_every_form() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let mut deep = json!(1);
    for _ in 0..40 {
        deep = json!({"bad": deep});
    }
    for (bad, status) in [(json!("abc"), 422), (json!([[1]]), 400), (json!(null), 400), (deep, 422)] {
        let report = json!({"writer": "w", "seq": 1, "reports": [
            {"step": 1, "metrics": {"good": 1}}, {"step": 2, "metrics": {"good": 1, "very/bad": bad}}]});
        let columns = json!({"writer": "w", "seq": 1, "columns":
            {"step": [1, 2], "metrics": {"good": [1, 2], "very/bad": [1, bad]}}});
        for (body, field) in
            [(report, "reports[1].metrics.very/bad"), (columns, "columns.metrics.very/bad[1]")]
        {
            let both = [
                send(&head, &run, "application/json", None, body.to_string().into_bytes()).await,
                send(&head, &run, MSGPACK, None, rmp_serde::to_vec_named(&body).unwrap()).await,
            ];
            for answer in both {
                // An object in a column is none of its numbers, however deep.
                let status = if field.starts_with("columns") && bad.is_object() { 400 } else { status };
                assert_eq!(answer.status.as_u16(), status, "{}", answer.body);
                assert!(answer.body["field"].as_str().unwrap().starts_with(field), "{}", answer.body);
            }
        }
    }
    for huge in [
        r#"{"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"good": 1, "bad": 1e400}}]}"#,
        r#"{"writer": "w", "seq": 1, "columns": {"step": [1], "metrics": {"good": [1], "bad": [-1e400]}}}"#,
    ] {
        let answer = send(&head, &run, "application/json", None, huge.into()).await;
        assert_problem(&answer, 400, "malformed");
        assert!(answer.body["field"].as_str().unwrap().contains("metrics.bad"), "{}", answer.body);
    }
    let short = json!({"writer": "w", "seq": 1, "columns": {"step": [1, 2], "metrics": {"bad": [1]}}});
    let answer = head.say(&run, "reports", short).await;
    assert_problem(&answer, 422, "invalid");
    assert_eq!(answer.body["field"], "columns.metrics.bad");
    assert_eq!(stored_keys(&head).await, Vec::<Value>::new());
}

#[tokio::test]
async fn too_many_keys_are_refused_with_their_limit() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let keys: serde_json::Map<String, Value> = (0..40_000).map(|i| (format!("k{i}"), json!([1]))).collect();
    let many = json!({"writer": "w", "seq": 1, "columns": {"step": [1], "metrics": keys}});
    let answer = head.say(&run, "reports", many).await;
    assert_problem(&answer, 422, "invalid");
    assert_eq!((&answer.body["field"], &answer.body["limit"]), (&json!("columns.metrics"), &json!(20_000)));
    assert_eq!(stored_keys(&head).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_body_counts_as_it_is_unpacked() {
    const LIMIT: usize = 16 << 20;
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let body = |spaces: usize| {
        let mut body =
            json!({"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"a": 1}}]}).to_string();
        body.extend(std::iter::repeat_n(' ', spaces - body.len()));
        body.into_bytes()
    };
    for (coding, packed) in [("gzip", gzip(&body(LIMIT + 1))), ("zstd", zstd(&body(LIMIT + 1)))] {
        assert!(packed.len() < LIMIT / 100);
        let answer = send(&head, &run, "application/json", Some(coding), packed).await;
        assert_problem(&answer, 413, "too-large");
        assert_eq!(answer.body["limit"], LIMIT);
    }
    assert_problem(&send(&head, &run, "application/json", None, body(LIMIT + 1)).await, 413, "too-large");
    for (seq, packed) in [("gzip", gzip(&body(LIMIT))), ("zstd", zstd(&body(LIMIT)))] {
        assert_eq!(send(&head, &run, "application/json", Some(seq), packed).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn what_is_not_what_it_says_is_refused() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let body = json!({"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"a": 1}}]});
    let (text, packed) = (body.to_string().into_bytes(), rmp_serde::to_vec_named(&body).unwrap());
    for coding in ["br", "deflate", "gzip, zstd", "x"] {
        let answer = send(&head, &run, "application/json", Some(coding), text.clone()).await;
        assert_problem(&answer, 415, "wrong-encoding");
    }
    for content_type in ["text/csv", "application/octet-stream", "multipart/form-data"] {
        assert_problem(&send(&head, &run, content_type, None, text.clone()).await, 415, "wrong-type");
    }
    let mut more = packed.clone();
    more.push(0);
    let mut cut = gzip(&text);
    cut.truncate(cut.len() - 5);
    for (content_type, coding, body) in [
        ("application/json", Some("gzip"), text.clone()),
        ("application/json", Some("gzip"), cut),
        ("application/json", Some("zstd"), gzip(&text)),
        ("application/json", None, packed.clone()),
        (MSGPACK, None, text),
        (MSGPACK, None, more),
        (MSGPACK, None, packed[..packed.len() - 1].to_vec()),
        // An array that claims to have four billion elements.
        (MSGPACK, None, [&packed[..packed.len() - 17], &[0xdd, 0xff, 0xff, 0xff, 0xff]].concat()),
        (MSGPACK, None, vec![]),
    ] {
        let answer = send(&head, &run, content_type, coding, body).await;
        assert_problem(&answer, 400, "malformed");
    }
    assert_eq!(stored_keys(&head).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_report_alone_in_its_batch_needs_no_step() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    for (seq, value) in [(1, 10), (2, 11), (3, 12), (2, 99)] {
        let body = json!({"writer": "w", "seq": seq, "reports": [{"metrics": {"a": value}}]});
        assert_eq!(head.say(&run, "reports", body).await.status, StatusCode::OK);
    }
    let answer = head.get("/api/train/runs/r/metrics/series?key=a").await.body;
    let series = &answer["series"][0];
    assert_eq!((&series["step"], &series["value"]), (&json!([0, 1, 2]), &json!([10.0, 11.0, 12.0])));
}
