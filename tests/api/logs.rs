//! Logs that come over the network: appended once, however often they are sent.

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};
use trainhead::base::log_limit::keep_within;

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
async fn the_logs_of_one_attempt_are_listed_alone() {
    let head = Head::new().await;
    let run = head.running("r", 2).await;
    head.say(&run, "attempts/r-a0/end", json!({"status": "ERRORED", "end_reason": "worker_failed"})).await;
    head.attempt(&run, "r-a1", 1).await;
    for place in ["0/0", "0/1", "1/0"] {
        assert_eq!(put(&head, &run, place, 0, b"x").await.status, StatusCode::OK);
    }
    let listed = async |query: &str| {
        let list = head.get(&format!("/api/train/runs/r/logs{query}")).await.body;
        let logs = list["logs"].as_array().unwrap().iter();
        logs.map(|log| (log["attempt"].clone(), log["rank"].clone())).collect::<Vec<_>>()
    };
    let places = |places: &[(u32, u32)]| places.iter().map(|(a, r)| (json!(a), json!(r))).collect::<Vec<_>>();
    assert_eq!(listed("").await, places(&[(0, 0), (0, 1), (1, 0)]));
    assert_eq!(listed("?attempt=0").await, places(&[(0, 0), (0, 1)]));
    assert_eq!(listed("?attempt=1").await, places(&[(1, 0)]));
    assert_eq!(listed("?attempt=2").await, [], "not there yet");
    assert_problem(&head.get("/api/train/runs/none/logs?attempt=0").await, 404, "run-not-found");
    assert_problem(&head.get("/api/train/runs/r/logs/2/0").await, 404, "log-not-found");
    assert_problem(&head.get("/api/train/runs/r/logs/1/1?follow=1").await, 404, "log-not-found");
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

/// An answer with what it says about its place: status, offset, start of the hole before it, length that was promised.
type Placed = (u16, Option<u64>, Option<u64>, Option<u64>, Vec<u8>);

async fn read(head: &Head, query: &str, range: Option<String>) -> Placed {
    let path = format!("/api/train/runs/r/logs/0/0{query}");
    let mut request = crate::harness::request("GET", &path, None, None);
    if let Some(range) = range {
        request.headers_mut().insert(header::RANGE, range.parse().unwrap());
    }
    let response = head.raw(request).await;
    let number = |name: &str| response.headers().get(name).map(|v| v.to_str().unwrap().parse().unwrap());
    let (status, length) = (response.status().as_u16(), number("content-length"));
    let (offset, hole) = (number("x-log-offset"), number("x-log-hole-start"));
    let body = axum::body::to_bytes(response.into_body(), 16 << 20).await.unwrap();
    (status, offset, hole, length, body.to_vec())
}

#[tokio::test]
async fn a_log_with_its_middle_left_out_is_read_without_it() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let log = head.data_dir.root().join("runs/r/logs/0/rank_0.log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    let lines: String = (0..100_000).map(|i| format!("line {i:06}\n")).collect();
    std::fs::write(&log, &lines).unwrap();
    // As long as a worker can write in a day: nothing may take as long as reading all of that.
    let size: u64 = 1 << 40;
    let file = std::fs::File::options().write(true).open(&log).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, lines.as_bytes(), size - lines.len() as u64).unwrap();
    match keep_within(&log, 1 << 20) {
        Ok(freed) => assert!(freed > 0),
        Err(e) => return eprintln!("skipped: {e}"),
    }
    let list = head.get("/api/train/runs/r/logs").await.body;
    assert_eq!(list["logs"][0]["size_bytes"], size);

    let (status, offset, hole, length, whole) = read(&head, "", None).await;
    assert_eq!((status, offset, hole, length), (200, Some(0), None, None));
    let text = String::from_utf8(whole.clone()).unwrap();
    assert!(text.starts_with("line 000000\n") && text.ends_with("line 099999\n"));
    assert!(text.contains("\n… 1024 GiB left out here (--log-max-bytes) …") && !text.contains('\0'));
    assert!(text.len() > 256 << 10 && text.len() < 1 << 20, "{}", text.len());

    let (_, offset, hole, length, tail) = read(&head, "?tail=2", None).await;
    assert_eq!((offset, hole, length), (Some(size - 24), None, Some(24)));
    assert_eq!(tail, b"line 099998\nline 099999\n");
    // More than there are after the hole.
    let (_, after, before, length, tail) = read(&head, "?tail=90000", None).await;
    let (after, before) = (after.unwrap(), before.unwrap());
    assert_eq!((length, tail.len() as u64), (Some(size - after), size - after));
    assert_eq!([&whole[..before as usize], &tail[..]].concat(), whole, "together they are all of it");

    for (range, first, last) in [
        (format!("bytes={}-{}", before - 5, size - 1), before - 5, before),
        (format!("bytes={}-{}", size / 2, after + 3), after, after + 4),
        (format!("bytes={}-{}", size / 2, size / 2 + 9), after, after + 10),
        (format!("bytes={}-", size / 2), after, size),
        (format!("bytes=-{}", size - before), after, size),
    ] {
        let (status, offset, hole, length, part) = read(&head, "", Some(range.clone())).await;
        assert_eq!((status, offset, length), (206, Some(first), Some(last - first)), "{range}");
        assert_eq!(hole, (first == after).then_some(before), "{range}");
        let at = if first < before { first } else { first - after + before } as usize;
        assert_eq!(part, &whole[at..at + part.len()], "{range}");
    }

    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    assert_eq!(read(&head, "?follow=1", None).await.4, whole);
    let (_, offset, hole, _, followed) = read(&head, "?follow=1&tail=90000", None).await;
    assert_eq!((offset, hole), (Some(after), Some(before)));
    assert_eq!(followed, tail);
}

#[tokio::test]
async fn a_log_without_lines_and_with_any_bytes_is_read_as_it_is() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let log = head.data_dir.root().join("runs/r/logs/0/rank_0.log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    let bytes = b"\0\x1b[31mx\xff\xfe\r".repeat(500_000);
    std::fs::write(&log, &bytes).unwrap();
    let (status, offset, _, length, tail) = read(&head, "?tail=10", None).await;
    assert_eq!((status, length), (200, Some(80 << 10)), "long lines are cut");
    assert_eq!(tail, &bytes[offset.unwrap() as usize..]);
    assert_eq!(read(&head, "", None).await.4, bytes);
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    assert_eq!(read(&head, "?follow=1&tail=10", None).await.4, tail);
}

async fn search(head: &Head, query: &str) -> Value {
    let answer = head.get(&format!("/api/train/runs/r/logs/0/0/search?{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{query}: {}", answer.body);
    answer.body
}

#[tokio::test]
async fn a_log_is_searched_a_part_at_a_time() {
    let head = Head::new().await;
    head.running("r", 1).await;
    let path = "/api/train/runs/r/logs/0/0/search";
    assert_problem(&head.get(&format!("{path}?q=x")).await, 404, "log-not-found");
    let log = head.data_dir.root().join("runs/r/logs/0/rank_0.log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    let text =
        "Step 1 error=0.03\r\n0 errors\nTraceback (most recent call last):\nKeyError: 'x'\nSTEP 2\nend";
    std::fs::write(&log, text).unwrap();
    let size = text.len();
    assert_eq!(
        search(&head, "q=step%20").await,
        json!({"matches": [{"offset": 0, "text": "Step 1 error=0.03"}, {"offset": 77, "text": "STEP 2"}],
            "next_from": null, "scanned_to": size, "resume_from": 84, "size_bytes": size})
    );
    assert_eq!(
        search(&head, "q=step&limit=1").await,
        json!({"matches": [{"offset": 0, "text": "Step 1 error=0.03"}], "next_from": 19, "scanned_to": 19,
            "resume_from": 19, "size_bytes": size})
    );
    assert_eq!(search(&head, "q=step&limit=1&from=19").await["matches"][0]["offset"], 77);
    let errors = search(&head, "errors=true").await;
    assert_eq!(
        errors["matches"],
        json!([{"offset": 28, "text": "Traceback (most recent call last):"}, {"offset": 63, "text": "KeyError: 'x'"}])
    );
    assert_eq!(search(&head, "errors=false&q=END").await["matches"][0]["text"], "end");
    assert_eq!(search(&head, "q=none&from=1000").await["next_from"], Value::Null);

    let too_long = format!("q={}", "x".repeat(1001));
    for query in
        ["", "errors=false", "q=", "q=x&errors=true", "q=a%0Ab", "q=x&limit=0", "q=x&limit=1001", &too_long]
    {
        assert_problem(&head.get(&format!("{path}?{query}")).await, 422, "invalid");
    }
    for query in ["q=x&from=-1", "q=x&limit=all", "errors=perhaps", "q=x&rank=1"] {
        assert_eq!(head.get(&format!("{path}?{query}")).await.status, StatusCode::BAD_REQUEST, "{query}");
    }
    assert_problem(&head.get("/api/train/runs/none/logs/0/0/search?q=x").await, 404, "run-not-found");
    assert_problem(&head.get("/api/train/runs/r/logs/0/1/search?q=x").await, 404, "log-not-found");
}

#[tokio::test]
async fn a_search_answers_in_time_however_large_the_log_is() {
    let head = Head::new().await;
    head.running("r", 1).await;
    let log = head.data_dir.root().join("runs/r/logs/0/rank_0.log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    let line = format!("{}\n", "step 12 loss 0.25 ".repeat(56));
    let size =
        std::fs::write(&log, line.repeat(100_000).into_bytes()).map(|()| line.len() * 100_000).unwrap();
    let file = std::fs::File::options().append(true).open(&log).unwrap();
    std::io::Write::write_all(&mut &file, b"the needle\n").unwrap();
    let (mut from, mut answers, mut found) = (json!(0), 0, Vec::new());
    while !from.is_null() {
        let answer = search(&head, &format!("q=NEEDLE&from={from}")).await;
        found.extend(answer["matches"].as_array().unwrap().iter().cloned());
        assert_eq!(answer["size_bytes"], size + 11);
        from = answer["next_from"].clone();
        answers += 1;
    }
    assert!(answers > 1, "not at once");
    assert_eq!(found, [json!({"offset": size, "text": "the needle"})]);
}
