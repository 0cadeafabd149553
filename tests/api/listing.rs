//! The list: filters, search, pages.

use axum::{body::to_bytes, http::header};
use serde_json::{Value, json};

use crate::harness::{Head, assert_problem, request};

#[tokio::test]
async fn filters_search_and_pages_work_together() {
    let head = Head::new().await;
    for i in 0..25 {
        let body = json!({"id": format!("r{i:02}"), "name": format!("Bert {i}"), "controller": {"actor_id": "c"},
            "tags": {"team": if i % 2 == 0 { "even" } else { "odd" }}});
        let run = head.register(body).await;
        if i % 5 == 0 {
            head.say(&run, "end", json!({"run_status": "ERRORED", "status_detail": "boom"})).await;
        }
        head.clock.advance(std::time::Duration::from_millis(10));
    }
    let list = head.get("/api/train/runs?status=ERRORED").await.body;
    assert_eq!((&list["total_size"], list["train_runs"].as_array().unwrap().len()), (&json!(5), 5));
    assert_eq!(list["counts"], json!({"STARTED": 20, "FINISHED": 0, "ERRORED": 5, "ABORTED": 0}));
    let list = head.get("/api/train/runs?q=TEAM:ODD&status=STARTED&status=ERRORED").await.body;
    assert_eq!(list["total_size"], 12);
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = head.get(&format!("/api/train/runs?page_size=4{token}")).await.body;
        seen.extend(
            page["train_runs"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap().to_owned()),
        );
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(
        seen,
        (0..25).rev().map(|i| format!("r{i:02}")).collect::<Vec<_>>(),
        "newest first, each once"
    );
}

#[tokio::test]
async fn a_bad_query_names_its_field() {
    let head = Head::new().await;
    for (query, field) in [
        ("page_size=0", "page_size"),
        ("page_size=1001", "page_size"),
        ("page_size=x", "page_size"),
        ("page_token=nonsense", "page_token"),
        ("status=RUNNING", "status"),
        ("sttus=STARTED", "sttus"),
        ("include=everything", "include"),
        ("sort=size", "sort"),
        ("sort=metric:", "sort"),
        ("tag=nocolon", "tag"),
        ("started_after_ms=yesterday", "started_after_ms"),
        ("trashed=perhaps", "trashed"),
    ] {
        let answer = head.get(&format!("/api/train/runs?{query}")).await;
        assert!(answer.status.is_client_error(), "{query}");
        let told = answer.body["field"].as_str().unwrap_or_default().to_owned()
            + answer.body["detail"].as_str().unwrap();
        assert!(told.contains(field), "{query}: {}", answer.body);
    }
    assert_problem(&head.get("/api/train/runs/none").await, 404, "run-not-found");
    assert_problem(&head.get("/api/train/runs/none/events").await, 404, "run-not-found");
    assert_problem(&head.get("/api/train/runs/none/logs").await, 404, "run-not-found");
}

#[tokio::test]
async fn evidence_comes_when_asked_for_also_of_ended_runs() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    let report =
        json!({"writer": "w", "seq": 1, "reports": [{"step": 7, "metrics": {"loss": "NaN", "acc": 0.5}}]});
    head.say(&run, "reports", report).await;
    let one =
        async || head.get("/api/train/runs?include=evidence,workers").await.body["train_runs"][0].clone();
    let live = one().await;
    assert_eq!(live["evidence"]["progress"]["last_step"], 7);
    assert_eq!(live["last_metrics"], json!({"loss": "NaN", "acc": 0.5}));
    assert!(live["evidence"]["contact"]["lease_expires_ms"].is_i64());
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let ended = one().await;
    assert_eq!(ended["evidence"]["progress"]["last_step"], 7);
    assert_eq!(ended["last_metrics"], live["last_metrics"]);
    assert!(ended["evidence"]["contact"]["lease_expires_ms"].is_null());
    let plain = head.get("/api/train/runs").await.body["train_runs"][0].clone();
    assert!(plain.get("evidence").is_none(), "what changes by itself only comes when asked for");
}

/// Three ended runs and a live one, with values of `loss`.
async fn some_runs(head: &Head) {
    let rates = [json!(0.1), json!(3), json!("Auto")];
    for (i, (name, seconds, loss)) in
        [("beta", 30, json!(0.5)), ("Alpha", 10, json!("NaN")), ("gamma", 20, json!(-1.5))]
            .into_iter()
            .enumerate()
    {
        let body = json!({"id": format!("r{i}"), "name": name, "controller": {"actor_id": "c"}, "job_id": format!("job{}", i % 2),
            "experiment": if i == 0 { "one" } else { "two" }, "tags": {"lr": "0.1", "i": i.to_string()},
            "settings": {"opt": {"lr": rates[i]}}});
        let run = head.register(body).await;
        let report =
            json!({"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"loss": loss, "other": 1}}]});
        head.say(&run, "reports", report).await;
        head.clock.advance(std::time::Duration::from_secs(seconds));
        head.heartbeat(&run).await;
        head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    }
    let live = head
        .register(json!({"id": "r3", "name": "delta", "controller": {"actor_id": "c"}, "experiment": "two"}))
        .await;
    let report = json!({"writer": "w", "seq": 1, "reports": [{"step": 1, "metrics": {"loss": 0.1}}]});
    head.say(&live, "reports", report).await;
}

#[tokio::test]
async fn each_order_is_kept_over_pages_and_a_restart() {
    let head = Head::new().await;
    some_runs(&head).await;
    let orders = [
        ("-start_time", ["r3", "r2", "r1", "r0"]),
        ("start_time", ["r0", "r1", "r2", "r3"]),
        ("name", ["r1", "r0", "r3", "r2"]),
        ("-name", ["r2", "r3", "r0", "r1"]),
        ("duration", ["r1", "r2", "r0", "r3"]),
        ("-duration", ["r0", "r2", "r1", "r3"]),
        ("status", ["r3", "r2", "r1", "r0"]),
        ("metric:loss", ["r2", "r3", "r0", "r1"]),
        ("-metric:loss", ["r0", "r3", "r2", "r1"]),
        ("metric:none", ["r3", "r2", "r1", "r0"]),
        ("setting:opt/lr", ["r0", "r1", "r2", "r3"]),
        ("-setting:opt/lr", ["r2", "r1", "r0", "r3"]),
        ("setting:opt", ["r3", "r2", "r1", "r0"]),
        ("job", ["r2", "r0", "r1", "r3"]),
        ("-id", ["r3", "r2", "r1", "r0"]),
    ];
    let check = async |head: &Head| {
        for (sort, expected) in orders {
            let (mut seen, mut token) = (Vec::new(), String::new());
            loop {
                let page = head.get(&format!("/api/train/runs?sort={sort}&page_size=1{token}")).await.body;
                seen.extend(
                    page["train_runs"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|r| r["id"].as_str().unwrap().to_owned()),
                );
                match page["next_page_token"].as_str() {
                    Some(next) => token = format!("&page_token={next}"),
                    None => break,
                }
            }
            assert_eq!(seen, expected, "{sort}");
        }
    };
    check(&head).await;
    let head = head.restart().await;
    check(&head).await;
    let page = head.get("/api/train/runs?sort=name&page_size=1").await.body;
    let token = page["next_page_token"].as_str().unwrap();
    let answer = head.get(&format!("/api/train/runs?sort=-name&page_token={token}")).await;
    assert_problem(&answer, 400, "malformed");
}

#[tokio::test]
async fn filters_narrow_each_other_and_last_values_come_when_asked_for() {
    let head = Head::new().await;
    some_runs(&head).await;
    let ids = async |query: &str| -> Vec<String> {
        let list = head.get(&format!("/api/train/runs?{query}")).await.body;
        let runs = list["train_runs"].as_array().unwrap_or_else(|| panic!("{query}: {list}"));
        assert_eq!(list["total_size"], runs.len(), "{query}");
        runs.iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect()
    };
    let start = crate::harness::START;
    for (query, expected) in [
        ("experiment=two".to_owned(), vec!["r3", "r2", "r1"]),
        ("experiment=two&status=FINISHED".to_owned(), vec!["r2", "r1"]),
        ("experiment=none".to_owned(), vec![]),
        ("job_id=job0".to_owned(), vec!["r2", "r0"]),
        ("tag=lr:0.1&tag=i:2".to_owned(), vec!["r2"]),
        ("tag=lr:0.1&experiment=one".to_owned(), vec!["r0"]),
        (format!("started_after_ms={}", start + 30_000), vec!["r3", "r2", "r1"]),
        (format!("started_before_ms={}", start + 30_000), vec!["r0"]),
        (
            format!("started_after_ms={}&started_before_ms={}", start + 30_000, start + 40_001),
            vec!["r2", "r1"],
        ),
        (format!("started_after_ms={start}&started_before_ms={start}"), vec![]),
        ("q=LPH&sort=name".to_owned(), vec!["r1"]),
        ("q=job1".to_owned(), vec!["r1"]),
    ] {
        assert_eq!(ids(&query).await, expected, "{query}");
    }
    let list = head.get("/api/train/runs?metrics=loss,none&include=workers").await.body;
    let losses: Vec<_> =
        list["train_runs"].as_array().unwrap().iter().map(|r| r["last_metrics"].clone()).collect();
    assert_eq!(json!(losses), json!([{"loss": 0.1}, {"loss": -1.5}, {"loss": "NaN"}, {"loss": 0.5}]));
    let list = head.get("/api/train/runs?metrics=*&q=gamma").await.body;
    assert_eq!(list["train_runs"][0]["last_metrics"], json!({"loss": -1.5, "other": 1.0}));
}

#[tokio::test]
async fn what_is_included_is_what_was_asked_for() {
    let head = Head::new().await;
    let run = head.running("r", 1).await;
    head.say(&run, "attempts/r-a0/end", json!({"status": "ERRORED", "end_reason": "worker_failed"})).await;
    head.attempt(&run, "r-a1", 2).await;
    let one =
        async |query: &str| head.get(&format!("/api/train/runs?{query}")).await.body["train_runs"][0].clone();
    let bare = one("include=evidence").await;
    assert!(bare.get("workers").is_none() && bare["evidence"]["contact"].is_object());
    let attempts = one("include=attempts").await;
    assert_eq!(attempts["attempts"], head.show("r").await["attempts"]);
    assert_eq!(attempts["attempts"][1]["workers"].as_array().unwrap().len(), 2);
    assert_eq!(
        one("").await["workers"].as_array().unwrap().len(),
        2,
        "workers unless something else is asked for"
    );
}

#[tokio::test]
async fn long_members_are_left_out_of_lists_by_name_and_shown_by_the_run() {
    let head = Head::new().await;
    let body = json!({"id": "r", "controller": {"actor_id": "c"}, "settings": {"text": "x".repeat(5000)}});
    head.register(body.clone()).await;
    let listed = head.get("/api/train/runs").await.body["train_runs"][0].clone();
    assert_eq!((&listed["settings"], &listed["omitted"]), (&serde_json::Value::Null, &json!(["settings"])));
    let shown = head.show("r").await;
    assert_eq!((&shown["settings"], &shown["omitted"]), (&body["settings"], &json!([])));
}

/// What a run is ordered by, as it is shown; none for no value.
fn ordered_by(run: &Value, key: &str) -> Option<(i64, String)> {
    let number = |n: i64| Some((n, String::new()));
    match key {
        "experiment" => run["experiment"].as_str().map(|name| (0, name.to_lowercase())),
        "attempts" => number(run["num_attempts"].as_i64().unwrap()),
        "failures" => {
            let of = |budget: &str| run["num_failures"][budget].as_i64().unwrap();
            number(of("worker") + of("controller"))
        }
        "workers" => number(run["workers"].as_array().unwrap().len().try_into().unwrap()).filter(|n| n.0 > 0),
        "step" => run["evidence"]["progress"]["last_step"].as_i64().and_then(number),
        "name" => Some((0, run["name"].as_str().unwrap().to_lowercase())),
        "duration" => run["duration_ms"].as_i64().and_then(number),
        "status" => {
            let all = ["STARTED", "FINISHED", "ERRORED", "ABORTED"];
            number(all.iter().position(|s| run["run_status"] == *s).unwrap().try_into().unwrap())
        }
        "metric:loss" => run["last_metrics"]["loss"]
            .as_f64()
            .and_then(|x| number(format!("{:.0}", x * 100.0).parse().unwrap())),
        _ => number(run["start_time_ms"].as_i64().unwrap()),
    }
}

/// Runs of all shapes: how many attempts, failures, workers and steps they have follows from their number.
async fn many_shapes(head: &Head) {
    for i in 0..40_u32 {
        let mut body =
            json!({"id": format!("r{i:02}"), "name": format!("n{}", i % 6), "controller": {"actor_id": "c"}});
        if i % 4 > 0 {
            body["experiment"] = json!(["", "One", "one", "two"][i as usize % 4]);
        }
        let run = head.register(body).await;
        let attempts = i % 4;
        for attempt in 0..attempts {
            let id = format!("r{i:02}-a{attempt}");
            head.attempt(&run, &id, 1 + (i + attempt) % 3).await;
            if i % 5 > 0 {
                let step = i * 7 % 11;
                let report = json!({"writer": "w", "seq": attempt + 1, "attempt": attempt,
                    "reports": [{"step": step, "metrics": {"loss": f64::from(step) / 4.0}}]});
                assert_eq!(head.say(&run, "reports", report).await.status, 200);
            }
            if attempt + 1 < attempts {
                let reason = ["worker_failed", "start_failed", "preempted"][i as usize % 3];
                let end = json!({"status": "ERRORED", "end_reason": reason});
                assert_eq!(head.say(&run, &format!("attempts/{id}/end"), end).await.status, 200);
            }
        }
        head.clock.advance(std::time::Duration::from_millis(u64::from(i % 4)));
        if i % 3 > 0 {
            let status = ["", "FINISHED", "ERRORED"][i as usize % 3];
            assert_eq!(head.say(&run, "end", json!({"run_status": status})).await.status, 200);
        }
    }
}

#[tokio::test]
async fn paging_in_any_order_meets_each_run_once_and_as_it_is_shown() {
    let head = Head::new().await;
    many_shapes(&head).await;
    let keys = [
        "start_time",
        "name",
        "experiment",
        "status",
        "duration",
        "attempts",
        "failures",
        "workers",
        "step",
        "metric:loss",
    ];
    let all = async |head: &Head, sort: &str| {
        let (mut runs, mut token) = (Vec::new(), String::new());
        loop {
            let query = format!("sort={sort}&page_size=7&include=workers,evidence{token}");
            let page = head.get(&format!("/api/train/runs?{query}")).await.body;
            assert_eq!(page["total_size"], 40, "{sort}: {page}");
            runs.extend(page["train_runs"].as_array().unwrap().iter().cloned());
            match page["next_page_token"].as_str() {
                Some(next) => token = format!("&page_token={next}"),
                None => return runs,
            }
        }
    };
    let check = async |head: &Head| {
        let mut orders = Vec::new();
        for key in keys {
            for direction in ["", "-"] {
                let runs = all(head, &format!("{direction}{key}")).await;
                let ids: Vec<String> =
                    runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect();
                let mut each = ids.clone();
                each.sort_unstable();
                each.dedup();
                assert_eq!((ids.len(), each.len()), (40, 40), "{direction}{key}");
                let mut values: Vec<_> = runs.iter().map(|run| ordered_by(run, key)).collect();
                let some = values.iter().take_while(|value| value.is_some()).count();
                assert!(
                    values.split_off(some).iter().all(Option::is_none),
                    "{direction}{key}: no value comes last"
                );
                assert!(values.first() != values.last(), "{key}: there is something to order by");
                if direction == "-" {
                    values.reverse();
                }
                assert!(values.is_sorted(), "{direction}{key}: {values:?}");
                orders.push(ids);
            }
        }
        orders
    };
    let before = check(&head).await;
    let head = head.restart().await;
    assert_eq!(check(&head).await, before, "what is read from the store is what was in memory");
}

#[tokio::test]
async fn experiments_are_counted_by_status_and_paged_by_name() {
    let head = Head::new().await;
    some_runs(&head).await;
    let first = head.get("/api/train/experiments?page_size=1").await.body;
    assert_eq!(
        (&first["experiments"][0]["name"], &first["experiments"][0]["num_runs"]),
        (&json!("one"), &json!(1))
    );
    let token = first["next_page_token"].as_str().unwrap();
    let second = head.get(&format!("/api/train/experiments?page_size=1&page_token={token}")).await.body;
    let two = &second["experiments"][0];
    assert_eq!((&two["name"], &two["newest_run_id"]), (&json!("two"), &json!("r3")));
    assert_eq!(two["newest_run_name"], head.show("r3").await["name"]);
    assert_eq!(two["counts"], json!({"STARTED": 1, "FINISHED": 2, "ERRORED": 0, "ABORTED": 0}));
    assert!(second["next_page_token"].is_null());
    head.delete("/api/train/runs/r0").await;
    assert_eq!(head.get("/api/train/experiments").await.body["experiments"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_long_answer_is_compressed_for_who_takes_gzip_and_says_the_same() {
    let head = Head::new().await;
    for i in 0..30 {
        head.running(&format!("r-{i}"), 2).await;
    }
    let ask = async |path: &str, accepts: &str| {
        let mut request = request("GET", path, None, None);
        request.headers_mut().insert(header::ACCEPT_ENCODING, accepts.parse().unwrap());
        let response = head.raw(request).await;
        let coding = response.headers().get(header::CONTENT_ENCODING).cloned();
        let bytes = to_bytes(response.into_body(), 64 << 20).await.unwrap();
        (coding.map(|c| c.to_str().unwrap().to_owned()), bytes)
    };
    let (plain, whole) = ask("/api/train/runs", "identity").await;
    let (coding, packed) = ask("/api/train/runs", "br;q=0.9, gzip").await;
    assert_eq!((plain, coding.as_deref()), (None, Some("gzip")));
    assert!(packed.len() * 5 < whole.len(), "{} of {}", packed.len(), whole.len());
    let read: Value = serde_json::from_reader(flate2::read::GzDecoder::new(&packed[..])).unwrap();
    assert_eq!(read, serde_json::from_slice::<Value>(&whole).unwrap());
    assert_eq!(ask("/api/train/runs?page_size=1000&q=nothing-has-this", "gzip").await.0, None, "short");
}
