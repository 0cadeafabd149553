//! What a run tells others about itself: notes to addresses, and a file with its result.

use std::{
    fs,
    net::TcpListener,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{harness::Place, receiver::Receiver};

fn result(place: &Place) -> Value {
    serde_json::from_slice(&fs::read(place.path("result.json")).unwrap()).unwrap()
}

#[test]
fn a_receiver_hears_of_a_failure_and_the_end_in_order_and_the_result_is_a_file() {
    let place = Place::new();
    let receiver = Receiver::new();
    let secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0";
    let script = place.python(
        "t.py",
        "import sys
from session import ask, report, rank, attempt
if attempt == 0: sys.exit('no such layer')
report(3)
ask('POST', '/finish', {'rank': rank, 'value': {'acc': 1 + rank}})
",
    );
    let file = place.path("result.json").display().to_string();
    let notify = ["--notify", &receiver.url, "--notify-secret", secret, "--result-file", &file];
    let args = ["--max-failures", "1", "--name", "n", "--workers", "2", "--", "python3", &script];
    assert_eq!(place.start(&[&notify[..], &args].concat()).end().0, 0);
    assert_eq!(receiver.types(), ["run.failure", "run.restarting", "run.ended"]);
    let taken = receiver.taken();
    assert!(taken.iter().all(|delivery| delivery.is_signed(secret)), "{taken:?}");
    let failure = &taken[0].body["data"]["failure"];
    assert!(failure["message"].as_str().unwrap().ends_with("no such layer"), "{failure}");
    let result = result(&place);
    assert_eq!(taken[2].body["data"]["result"]["attempts"], result["attempts"]);
    assert_eq!((&result["run_status"], &result["exit_code"]), (&json!("FINISHED"), &json!(0)));
    assert_eq!((&result["error"], &result["return_value"]), (&Value::Null, &json!({"acc": 1})));
    let reasons: Vec<_> =
        result["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["end_reason"]).collect();
    assert_eq!(reasons, ["worker_failed", "completed"]);
    assert_eq!(result["num_failures"], json!({"worker": 1, "preemption": 0, "controller": 0}));
    assert_eq!((&result["num_attempts"], &result["last_metrics"]), (&json!(2), &json!({"x": 3.0})));
}

#[test]
fn receivers_that_hang_delay_the_end_of_a_run_by_ten_seconds_at_most() {
    let place = Place::new();
    // They take connections, in the kernel, and nobody answers.
    let hanging = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let urls = hanging.each_ref().map(|listener| format!("http://{}", listener.local_addr().unwrap()));
    let file = place.path("result.json").display().to_string();
    let begun = Instant::now();
    let args = ["--notify", &urls[0], "--notify", &urls[1], "--result-file", &file, "--name", "n"];
    let (code, told) = place.start(&[&args[..], &["--", "sh", "-c", "exit 3"]].concat()).end();
    let took = begun.elapsed();
    assert_eq!(code, 3, "{told}");
    assert!(took < Duration::from_secs(14), "{took:?}");
    let result = result(&place);
    assert_eq!((&result["error"]["rank"], &result["error"]["exit_code"]), (&json!(0), &json!(3)));
    assert_eq!(result["attempts"][0]["end_reason"], "worker_failed");
}
