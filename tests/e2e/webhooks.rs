//! Webhooks of the real program: a run that is its own head tells its end, and a killed head goes on where it was.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::{
    harness::{Place, http, http_with, wait_for},
    receiver::Receiver,
};

#[test]
fn a_run_that_is_its_own_head_tells_its_end_before_it_exits_and_never_its_secrets() {
    let place = Place::new();
    let receiver = Receiver::new();
    let secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0";
    let hook = ["--webhook", receiver.url.as_str(), "--webhook-secret", secret];
    let output = place.run(&[&hook[..], &["--name", "w", "--", "true"]].concat());
    assert!(output.status.success());
    let types = receiver.types();
    assert_eq!(types.first().map(String::as_str), Some("run.initializing"), "{types:?}");
    assert_eq!(types.last().map(String::as_str), Some("run.finished"), "{types:?}");
    assert_eq!(receiver.taken().last().unwrap().body["run"]["name"], "w");
    let config = place.output(&[&["config"], &hook[..]].concat());
    let shown = String::from_utf8(config.stdout).unwrap();
    assert!(shown.contains("webhook-secret") && shown.contains("/***"), "{shown}");
    assert!(!shown.contains(secret) && !shown.contains("s3cret-path"), "{shown}");
    let help = place.command(&["serve", "--help"]).env("TRAINHEAD_WEBHOOK_SECRET", secret).output().unwrap();
    assert!(!String::from_utf8_lossy(&help.stdout).contains(secret));
    for (wrong, says) in [
        (["--webhook", "example.com/x"], "begins with http:// or https://"),
        (["--webhook-secret", "not base64!"], "a webhook's secret is base64"),
    ] {
        let output = place.output(&[&["serve", "--port", "0"], &wrong[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says), "{said}");
        assert!(!said.contains("not base64!"), "{said}");
    }
}

#[test]
fn a_killed_head_goes_on_telling_where_it_was() {
    let place = Place::new();
    let receiver = Receiver::new();
    let hook = ["--webhook", receiver.url.as_str()];
    let mut head = place.serve(&hook);
    receiver.status.store(503, Ordering::SeqCst);
    let body = json!({"id": "r", "controller": {"actor_id": "c"}});
    let run = http(&head.url, "POST", "/api/train/runs", Some(&body)).unwrap();
    let token = run["controller_token"].as_str().unwrap().to_owned();
    wait_for("a refused delivery", || (receiver.refused.load(Ordering::SeqCst) > 0).then_some(()));
    head.kill();
    receiver.status.store(200, Ordering::SeqCst);
    let head = place.serve(&hook);
    let end = json!({"run_status": "FINISHED"});
    let ended = http_with(&head.url, "POST", "/api/train/runs/r/end", Some(&token), Some(&end)).unwrap();
    assert_eq!(ended.0, 200);
    let told = wait_for("both events", || Some(receiver.types()).filter(|types| types.len() >= 2));
    assert_eq!(told, ["run.initializing", "run.finished"]);
}
