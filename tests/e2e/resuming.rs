//! Resuming: the same run goes on in its own record, with what is left of its budgets.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Place, alive, of_attempts, pids, processes_with, send, wait_for};

/// A worker that fails until a file says that all is well, and leaves a mark for each life.
fn failing(place: &Place) -> String {
    let root = place.root();
    place.file("failing.sh", &format!("cd {root}; touch life.$TRAINHEAD_ATTEMPT; [ -e well ] || exit 3\n"))
}

fn refused(place: &Place, args: &[&str], says: &str) {
    let out = place.run(args);
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success(), "{told}");
    assert!(told.contains(says), "{told}");
}

#[test]
fn a_run_that_errored_goes_on_with_what_is_left_of_its_budget() {
    let place = Place::new();
    let script = failing(&place);
    let first = place.run(&["--max-failures", "1", "--name", "r", "--", "sh", &script]);
    assert_eq!(first.status.code(), Some(3));
    let before = place.show("r");
    assert_eq!((&before["num_failures"]["worker"], &before["num_attempts"]), (&json!(2), &json!(2)));

    assert_eq!(place.run(&["--resume", "r", "--max-failures", "3"]).status.code(), Some(3));
    let shown = place.show("r");
    assert_eq!((&shown["id"], &shown["storage_path"]), (&before["id"], &before["storage_path"]));
    assert_eq!(shown["run_status"], "ERRORED");
    assert_eq!(of_attempts(&shown, "ordinal"), ["0", "1", "2", "3"]);
    assert_eq!(shown["num_failures"]["worker"], 4);
    assert_eq!(shown["first_failure"]["attempt"], 3);
    assert!(place.path("life.2").exists() && place.path("life.3").exists());

    place.file("well", "");
    assert_eq!(place.run(&["--resume", "r"]).status.code(), Some(0));
    let shown = place.show("r");
    assert_eq!((&shown["run_status"], &shown["first_failure"]), (&json!("FINISHED"), &Value::Null));
    assert_eq!(of_attempts(&shown, "ordinal"), ["0", "1", "2", "3", "4"]);
    assert_eq!(shown["settings"]["max_failures"], 3, "as it was resumed with before");

    refused(&place, &["--resume", "r"], "r has finished; there is nothing to resume");
    refused(&place, &["--resume", "nobody"], "nobody");
    assert_eq!(place.show("r")["num_attempts"], 5);
}

/// A worker that waits for a file.
fn waiting(place: &Place) -> String {
    let root = place.root();
    let text = format!("cd {root}; touch there.$TRAINHEAD_ATTEMPT; while [ ! -e go ]; do sleep 0.02; done\n");
    place.file("waiting.sh", &text)
}

fn killed_and_resumed(place: &Place) {
    let script = waiting(place);
    let mut run = place.start(&["--workers", "2", "--name", "k", "--", "sh", &script]);
    place.await_files(&["there.0"]);
    let workers = wait_for("the workers", || Some(pids(&place.show("k"))).filter(|pids| pids.len() == 2));
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for("its workers to be gone", || workers.iter().all(|pid| !alive(*pid)).then_some(()));
    let again = place.start(&["--resume", "k"]);
    place.await_files(&["there.1"]);
    place.file("go", "");
    assert_eq!(again.end().0, 0);
    let shown = place.show("k");
    assert_eq!(shown["run_status"], "FINISHED");
    assert_eq!(of_attempts(&shown, "end_reason"), ["controller_lost", "completed"]);
    assert_eq!(shown["workers"].as_array().unwrap().len(), 2, "its settings were kept");
    assert_eq!(processes_with(&script), [0u32; 0]);
}

#[test]
fn a_run_whose_controller_and_head_were_killed_goes_on() {
    killed_and_resumed(&Place::new());
}

#[test]
fn a_run_whose_controller_was_killed_under_a_head_that_lives_goes_on() {
    let place = Place::new();
    let _head = place.serve(&[]);
    killed_and_resumed(&place);
}

#[test]
fn a_run_that_was_stopped_goes_on_and_one_that_lives_is_left_alone() {
    let place = Place::new();
    let script = waiting(&place);
    let _head = place.serve(&[]);
    let run = place.start(&["--name", "s", "--", "sh", &script]);
    place.await_files(&["there.0"]);
    refused(&place, &["--resume", "s"], "s has not ended; stop it first (trainhead abort s)");
    assert!(!place.path("there.1").exists());
    send(run.id(), Signal::INT);
    assert_eq!(run.end().0, 130);
    place.file("go", "");
    assert_eq!(place.run(&["--resume", "s"]).status.code(), Some(0));
    assert_eq!(of_attempts(&place.show("s"), "end_reason"), ["stopped", "completed"]);
}

#[test]
fn a_command_that_holds_a_secret_is_given_again() {
    let place = Place::new();
    let script = failing(&place);
    let command = ["--", "sh", &script, "--api-key", "sk-0123456789abcdef"];
    assert_eq!(place.run(&[&["--name", "x"], &command[..]].concat()).status.code(), Some(3));
    assert!(!place.show("x").to_string().contains("sk-0123"));
    refused(&place, &["--resume", "x"], "holds a secret, which is not recorded; give the command again");
    place.file("well", "");
    assert_eq!(place.run(&[&["--resume", "x"], &command[..]].concat()).status.code(), Some(0));
    assert_eq!(place.show("x")["num_attempts"], 2);
}
