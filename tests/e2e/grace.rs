//! Grace: whatever a group is stopped for, its handlers may complete within the grace period, and not beyond.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Guard, Place, of_attempts, send};

/// A worker whose TERM handler takes its time; `then` is what it does meanwhile.
fn slow(place: &Place, then: &str) -> String {
    let text = format!(
        "cd {}
        trap 'sleep 1.5; touch saved.'$TRAINHEAD_ATTEMPT.$RANK'; exit 0' TERM
        echo $TRAINHEAD_GRACE_PERIOD > grace; touch there.$TRAINHEAD_ATTEMPT.$RANK
        {then}
        while :; do sleep 0.02; done\n",
        place.root()
    );
    place.file("slow.sh", &text)
}

/// A run with a grace that suffices, or not.
fn start(place: &Place, grace: &str, more: &[&str], script: &str) -> Guard {
    place.start(&[&["--name", "g", "--grace-period", grace], more, &["--", "sh", script]].concat())
}

#[test]
fn a_handler_completes_when_the_user_stops_the_run() {
    let runs = ["ctrl-c", "term", "api"].map(|way| {
        let place = Place::new();
        let run = start(&place, "4", &[], &slow(&place, ""));
        (way, place, run)
    });
    for (way, place, run) in &runs {
        place.await_files(&["there.0.0"]);
        match *way {
            "ctrl-c" => send(run.id(), Signal::INT),
            // Nobody said that SIGTERM is a scheduler's notice.
            "term" => send(run.id(), Signal::TERM),
            _ => {
                // It is registered beside the start of its workers.
                place.await_workers("g", 1);
                assert!(place.output(&["abort", "g"]).status.success());
            }
        }
    }
    for (way, place, run) in runs {
        assert_eq!(run.end().0, 130, "{way}");
        assert!(place.path("saved.0.0").exists(), "{way}");
        let shown = place.show("g");
        assert_eq!((&shown["run_status"], &shown["ended_by"]), (&json!("ABORTED"), &json!("user")));
        assert_eq!(shown["workers"][0]["exit"]["code"], 0);
        assert_eq!(shown["attempts"][0]["stop_report"]["forced"], false);
        assert_eq!(place.left("grace"), "4", "workers know how long they have");
    }
}

#[test]
fn a_handler_completes_when_a_peer_fails() {
    let place = Place::new();
    let script =
        slow(&place, "if [ $RANK = 1 ]; then while [ ! -e there.0.0 ]; do sleep 0.01; done; exit 3; fi");
    let run = start(&place, "4", &["--workers", "2"], &script);
    assert_eq!(run.end().0, 3);
    assert!(place.path("saved.0.0").exists());
    let shown = place.show("g");
    assert_eq!(shown["first_failure"]["rank"], 1);
    assert_eq!(shown["attempts"][0]["stop_report"]["forced"], false);
}

#[test]
fn a_handler_completes_when_the_group_is_resized() {
    let place = Place::new();
    let head = place.serve(&["--resource", "CPU=2"]);
    let blocker = place.file(
        "blocker.sh",
        &format!("cd {}; touch blocks; while [ ! -e go ]; do sleep 0.02; done\n", place.root()),
    );
    let blocks = place.start(&["--name", "b", "--cpus-per-worker", "1", "--", "sh", &blocker]);
    place.await_files(&["blocks"]);
    let script = slow(&place, "[ $WORLD_SIZE = 2 ] && exit 0");
    let run = start(&place, "4", &["--workers", "1:2"], &script);
    place.await_files(&["there.0.0"]);
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(blocks.end().0, 0);
    assert_eq!(run.end().0, 0);
    assert!(place.path("saved.0.0").exists());
    let shown = place.show("g");
    assert_eq!(of_attempts(&shown, "end_reason"), ["resized", "completed"]);
    assert_eq!(shown["attempts"][0]["stop_report"]["forced"], false);
    assert_eq!(shown["workers"].as_array().unwrap().len(), 2);
    assert_eq!(shown["num_failures"], json!({"worker": 0, "preemption": 0, "controller": 0}));
    drop(head);
}

#[test]
fn what_takes_longer_than_the_grace_is_killed_and_that_is_said() {
    let place = Place::new();
    let script = slow(&place, "");
    let run = start(&place, "0.7", &[], &script);
    place.await_files(&["there.0.0"]);
    send(run.id(), Signal::INT);
    assert_eq!(run.end().0, 130);
    assert!(!place.path("saved.0.0").exists());
    let shown = place.show("g");
    let report = &shown["attempts"][0]["stop_report"];
    assert_eq!((&report["forced"], &report["left"]), (&json!(true), &json!([])));
    assert!(!report["processes_ended"].as_array().unwrap().is_empty());
    assert_eq!(shown["workers"][0]["exit"]["signal"], "SIGKILL");
    assert_eq!(place.left("grace"), "0.7");
}

#[test]
fn the_rank_behind_a_shell_is_waited_for_and_ends_as_its_program_does() {
    let place = Place::new();
    place.file(
        "trap.py",
        "import os, signal, sys, time
def handler(*_):
    time.sleep(1)
    open('saved', 'w')
    sys.exit(7)
signal.signal(signal.SIGTERM, handler)
open('there', 'w')
while True: time.sleep(0.05)
",
    );
    let run =
        place.start(&["--name", "w", "--cwd", &place.root(), "--", "sh", "-c", "python3 trap.py; true"]);
    place.await_files(&["there"]);
    send(run.id(), Signal::INT);
    assert_eq!(run.end().0, 130);
    assert!(place.path("saved").exists());
    let shown = place.show("w");
    assert_eq!(shown["workers"][0]["exit"]["code"], 7, "{shown}");
    assert_eq!(shown["attempts"][0]["stop_report"]["forced"], false);
}
