//! What is refused at the door, and that nothing there is ever our own fault.

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};

use crate::harness::{Head, assert_problem, request};

#[tokio::test]
async fn every_operation_that_writes_a_run_wants_its_token() {
    let head = Head::new().await;
    head.running("r", 1).await;
    let document = serde_json::to_value(trainhead::head::openapi()).unwrap();
    let mut walked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let place = path
                .replace("{run_id}", "r")
                .replace("{attempt_id}", "r-a0")
                .replace("{attempt}", "0")
                .replace("{rank}", "0")
                .replace("{number}", "0");
            let controller = operation["tags"][0] == "controller";
            let body = (method == "post").then(|| json!({}));
            let answer = head.raw(request(&method.to_uppercase(), &place, None, body)).await;
            let status = answer.status();
            assert!(!status.is_server_error(), "{method} {path}: {status}");
            let open = path == "/api/train/runs" || path == "/api/train/heartbeats";
            assert_eq!(status == StatusCode::UNAUTHORIZED, controller && !open, "{method} {path}: {status}");
            let documented = operation["responses"].as_object().unwrap();
            assert!(documented.contains_key(status.as_str()), "{method} {path}: {status} is not documented");
            walked += 1;
        }
    }
    assert!(walked > 15);
}

#[tokio::test]
async fn foreign_names_origins_and_content_types_are_refused() {
    let head = Head::new().await;
    let register = |host: &str, origin: Option<&str>, content_type: &str| {
        let mut builder = Request::post("/api/train/runs").header(header::HOST, host);
        if let Some(origin) = origin {
            builder = builder.header(header::ORIGIN, origin);
        }
        let body = r#"{"controller": {"actor_id": "c"}}"#;
        builder.header(header::CONTENT_TYPE, content_type).body(Body::from(body)).unwrap()
    };
    for (host, origin, content_type, status, slug) in [
        ("evil.com", None, "application/json", 403, "forbidden"),
        ("127.0.0.1:8420", Some("http://evil.com"), "application/json", 403, "forbidden"),
        ("127.0.0.1:8420", None, "text/plain", 415, "not-json"),
        ("127.0.0.1:8420", None, "application/x-www-form-urlencoded", 415, "not-json"),
    ] {
        assert_problem(&head.send(register(host, origin, content_type)).await, status, slug);
    }
    let own = register("127.0.0.1:8420", Some("http://127.0.0.1:8420"), "application/json; charset=utf-8");
    assert_eq!(head.send(own).await.status, StatusCode::CREATED);
    assert_eq!(head.get("/api/train/runs").await.body["total_size"], 1);
}

#[tokio::test]
async fn broken_bodies_are_the_caller_s_fault_and_say_so() {
    let head = Head::new().await;
    let nested = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep = format!(r#"{{"controller": {{"actor_id": "c"}}, "settings": {{"a": {nested}}}}}"#);
    for body in ["", "{", "[]", "null", "{\"controller\": 1}", "{} x", "\u{0}", &deep] {
        let mut request = request("POST", "/api/train/runs", None, Some(json!({})));
        *request.body_mut() = body.to_owned().into();
        let answer = head.send(request).await;
        assert!(answer.status.is_client_error(), "{body:.40}: {}", answer.status);
        assert!(answer.body["detail"].is_string());
    }
    let mut large = request("POST", "/api/train/runs", None, Some(json!({})));
    *large.body_mut() = vec![b' '; 17 << 20].into();
    let answer = head.send(large).await;
    assert_problem(&answer, 413, "too-large");
    assert_eq!(answer.body["limit"], 16 << 20);
    assert_problem(&head.get("/nothing/here").await, 404, "no-route");
    assert_problem(&head.send(request("DELETE", "/api/train/runs", None, None)).await, 405, "no-method");
}

#[tokio::test]
async fn no_path_leads_out_of_the_data_directory() {
    let head = Head::new().await;
    head.running("r", 1).await;
    std::fs::write(head.data_dir.root().join("secret"), "secret").unwrap();
    for run in ["..", "%2e%2e", "..%2f..", "r%2f..%2f..", "r;/..", "r%00", ".hidden"] {
        let answer = head.get(&format!("/api/train/runs/{run}/logs/0/0")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{run}");
    }
    for rank in ["../../../../secret", "..%2f..%2f..%2fsecret", "-1", "0x0", "4294967296"] {
        let answer = head.get(&format!("/api/train/runs/r/logs/0/{rank}")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{rank}");
    }
    for file in ["..%2f..%2fCargo.toml", "../Cargo.toml", "%2e%2e/Cargo.toml"] {
        assert_eq!(head.get(&format!("/static/{file}")).await.status, StatusCode::NOT_FOUND, "{file}");
    }
}

#[tokio::test]
async fn the_dashboard_comes_with_a_policy_that_allows_nothing_foreign() {
    let head = Head::new().await;
    for path in ["/", "/runs/some-run", "/compare?runs=a,b", "/experiments", "/nodes"] {
        let response = head.raw(request("GET", path, None, None)).await;
        assert_eq!(response.status(), StatusCode::OK);
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }
    let script = head.raw(request("GET", "/static/js/main.js", None, None)).await;
    assert_eq!(script.status(), StatusCode::OK);
    let tag = script.headers()[header::ETAG].clone();
    let mut again = request("GET", "/static/js/main.js", None, None);
    again.headers_mut().insert(header::IF_NONE_MATCH, tag);
    assert_eq!(head.raw(again).await.status(), StatusCode::NOT_MODIFIED);
    let docs = head.get("/openapi.json").await;
    assert_eq!(docs.body["info"]["title"], "TrainHead");
    assert_eq!(head.raw(request("GET", "/docs/", None, None)).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn logs_are_read_by_range_from_the_end_and_raw() {
    let head = Head::new().await;
    head.running("r", 2).await;
    let log = head.data_dir.root().join("runs/r/logs/0/rank_0.log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, b"one\ntwo\xff\xfe\nthree\n").unwrap();
    let list = head.get("/api/train/runs/r/logs").await.body;
    assert_eq!(
        list["logs"],
        json!([{"attempt": 0, "rank": 0, "size_bytes": 16, "url": "api/train/runs/r/logs/0/0"}])
    );
    let read = async |query: &str, range: Option<&str>| {
        let mut request = request("GET", &format!("/api/train/runs/r/logs/0/0{query}"), None, None);
        if let Some(range) = range {
            request.headers_mut().insert(header::RANGE, range.parse().unwrap());
        }
        let response = head.raw(request).await;
        let (status, offset) = (response.status(), response.headers().get("x-log-offset").cloned());
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status.as_u16(), offset.map(|o| o.to_str().unwrap().to_owned()), body)
    };
    assert_eq!(read("", None).await, (200, Some("0".into()), (&b"one\ntwo\xff\xfe\nthree\n"[..]).into()));
    assert_eq!(read("?tail=1", None).await, (200, Some("10".into()), (&b"three\n"[..]).into()));
    assert_eq!(read("", Some("bytes=4-6")).await, (206, Some("4".into()), (&b"two"[..]).into()));
    assert_eq!(read("", Some("bytes=-6")).await, (206, Some("10".into()), (&b"three\n"[..]).into()));
    assert_eq!(read("", Some("bytes=99-")).await.0, 416);
    assert_problem(&head.get("/api/train/runs/r/logs/0/1").await, 404, "log-not-found");
    assert_problem(&head.get("/api/train/runs/r/logs/1/0").await, 404, "log-not-found");
}

#[tokio::test]
async fn the_head_says_whether_it_can_work() {
    let head = Head::new().await;
    assert_eq!(head.get("/healthz").await.body, json!({"status": "ok"}));
    let ready: Value = head.get("/readyz").await.body;
    assert_eq!(ready["status"], "ready", "{ready}");
}

#[tokio::test]
async fn the_figures_are_what_prometheus_reads_and_are_bounded_in_number() {
    let head = Head::new().await;
    head.running("r", 1).await;
    for i in 0..50 {
        head.get(&format!("/api/train/runs/made-up-{i}")).await;
        head.get(&format!("/made/up/{i}")).await;
    }
    let text = head.get("/metrics").await.body;
    let text = text.as_str().unwrap();
    for line in [
        "trainhead_runs{status=\"STARTED\"} 1",
        "trainhead_http_requests_total{method=\"GET\",route=\"/api/train/runs/{run_id}\",status=\"404\"} 50",
        "trainhead_http_requests_total{method=\"GET\",route=\"unmatched\",status=\"404\"} 50",
        "# UNIT trainhead_http_request_duration_seconds seconds",
        "trainhead_store_writable 1",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("made-up"), "a path is never a label");
    let value = |name: &str| -> f64 {
        let line = text
            .lines()
            .find(|l| l.starts_with(name) && !l.starts_with('#'))
            .unwrap_or_else(|| panic!("{name}\n{text}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert!(value("trainhead_commits_total") >= 2.0 && value("trainhead_database_bytes") > 0.0);
    assert!(value("trainhead_sweep_age_seconds") < 60.0 && value("trainhead_disk_free_bytes") > 0.0);
}

#[tokio::test]
async fn a_heartbeat_s_step_is_one_that_can_be_stored() {
    let head = Head::new().await;
    let beat =
        |step: u64| json!({"runs": [{"run_id": "x", "controller_token": "y", "progress": {"step": step}}]});
    let refused = head.post("/api/train/heartbeats", None, beat(1 << 63)).await;
    assert_eq!(
        (refused.status, &refused.body["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("runs[0].progress.step"))
    );
    assert_eq!(head.post("/api/train/heartbeats", None, beat((1 << 63) - 1)).await.status, StatusCode::OK);
}
