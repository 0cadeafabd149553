//! Stopping: gracefully, by force, and with nothing left behind.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Guard, Place, alive, exists, pids, processes_with, send, wait_for};

/// A worker that says it is there and then sleeps.
fn sleeper(place: &Place, there: &str) -> String {
    let there = place.path(there);
    place.file("sleeper.sh", &format!("touch {}.$RANK\nexec sleep 1000\n", there.display()))
}

#[test]
fn ctrl_c_stops_gracefully_and_is_the_user_s() {
    let place = Place::new();
    let there = place.path("there");
    let script = place.file("t.sh", &format!(
        "trap 'sleep 0.3; touch {0}.saved.$RANK; exit 0' TERM\ntouch {0}.$RANK\nwhile :; do sleep 0.05; done\n", there.display()));
    let mut run = place
        .command(&["run", "--port", "0", "--workers", "2", "--name", "c", "--", "sh", &script])
        .spawn()
        .map(Guard)
        .unwrap();
    wait_for("both workers", || exists(&place.path("there.0")).and(exists(&place.path("there.1"))));
    send(run.id(), Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(
        place.path("there.saved.0").exists() && place.path("there.saved.1").exists(),
        "their handlers completed"
    );
    let shown = place.show("c");
    assert_eq!((shown["run_status"].as_str(), shown["ended_by"].as_str()), (Some("ABORTED"), Some("user")));
    assert!(shown["status_detail"].as_str().unwrap().contains("SIGINT"), "{shown}");
    assert_eq!(shown["attempts"][0]["end_reason"], "stopped");
}

#[test]
fn what_ignores_the_stop_signal_is_killed_after_the_grace_and_at_once_by_a_second_ctrl_c() {
    let place = Place::new();
    for (name, grace, twice) in [("slow", "0.3", false), ("now", "1000", true)] {
        let marker = format!("th-stubborn-{}-{name}", std::process::id());
        let there = place.path(name);
        let script = place.file(&format!("{name}.sh"), &format!(
            "trap '' TERM\n(trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done # {marker}' &)\ntouch {}\nwhile :; do sleep 1; done # {marker}\n",
            there.display()));
        let mut run = place
            .command(&[
                "run",
                "--port",
                "0",
                "--grace-period",
                grace,
                "--name",
                name,
                "--",
                "sh",
                &script,
                &marker,
            ])
            .spawn()
            .map(Guard)
            .unwrap();
        wait_for("the worker", || exists(&there));
        wait_for("its daemon", || (processes_with(&marker).len() >= 3).then_some(()));
        send(run.id(), Signal::INT);
        if twice {
            // Two signals at once are one: the second counts once the first was heard.
            wait_for("the stop", || (place.show(name)["controller_state"] == "SHUTTING_DOWN").then_some(()));
            send(run.id(), Signal::INT);
        }
        assert_eq!(run.wait().unwrap().code(), Some(130));
        assert_eq!(processes_with(&marker), [0u32; 0], "nothing is left");
        let shown = place.show(name);
        assert!(
            shown["attempts"][0]["status_detail"].as_str().unwrap_or_default().contains("by force"),
            "{shown}"
        );
    }
}

#[test]
fn a_stop_by_the_api_reaches_the_workers() {
    let place = Place::new();
    let head = place.serve(&[]);
    let script = sleeper(&place, "there");
    let mut run = place
        .command(&["run", "--name", "api", "--workers", "2", "--", "sh", &script])
        .spawn()
        .map(Guard)
        .unwrap();
    wait_for("both workers", || exists(&place.path("there.0")).and(exists(&place.path("there.1"))));
    let shown = wait_for("the run", || head.runs().into_iter().find(|r| r["phase"] == "RUNNING"));
    let out = place.output(&["abort", "api", "--reason", "enough", "--wait"]);
    assert!(out.status.success());
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let ended = place.show("api");
    assert_eq!((ended["run_status"].as_str(), ended["ended_by"].as_str()), (Some("ABORTED"), Some("user")));
    assert!(ended["status_detail"].as_str().unwrap().contains("enough"), "{ended}");
    assert!(pids(&shown).into_iter().all(|pid| !alive(pid)));
    let again = place.output(&["abort", "api"]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("has ended"));
}

#[test]
fn a_killed_agent_is_a_failure_and_leaves_nothing() {
    let place = Place::new();
    let marker = format!("th-orphan-{}", std::process::id());
    let there = place.path("there");
    let script = place.file(
        "t.sh",
        &format!(
            "(setsid sh -c 'while :; do sleep 1; done # {marker}' &)\ntouch {}\nwhile :; do sleep 1; done\n",
            there.display()
        ),
    );
    let mut run = place
        .command(&["run", "--port", "0", "--name", "agent", "--", "sh", &script, &marker])
        .spawn()
        .map(Guard)
        .unwrap();
    wait_for("the worker", || exists(&there));
    let agent = wait_for("the agent", || child_of(run.id()));
    send(agent, Signal::KILL);
    assert_eq!(run.wait().unwrap().code(), Some(1));
    assert_eq!(processes_with(&marker), [0u32; 0], "nothing is left");
    let shown = place.show("agent");
    assert_eq!(shown["run_status"], "ERRORED");
    assert!(shown["status_detail"].as_str().unwrap().contains("agent"), "{shown}");
}

fn child_of(parent: u32) -> Option<u32> {
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        if fields.get(1).and_then(|p| p.parse().ok()) == Some(parent) {
            return Some(pid);
        }
    }
    None
}

#[test]
fn a_worker_may_leave_by_itself_when_told_to_stop() {
    let place = Place::new();
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    let script = place.file(
        "t.py",
        "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nimport trainhead\n\
        step = 0\nwhile True:\n    trainhead.report({'x': step}, step=step)\n    step += 1\n",
    );
    let mut run = place
        .command(&[
            "run",
            "--port",
            "0",
            "--name",
            "stop",
            "--env",
            &format!("PYTHONPATH={python}"),
            "--",
            "python3",
            &script,
        ])
        .spawn()
        .map(Guard)
        .unwrap();
    wait_for("progress", || {
        let out = place.output(&["show", "stop", "--json"]);
        let shown: Value = serde_json::from_slice(&out.stdout).ok()?;
        shown["evidence"]["progress"]["last_step"].as_i64().filter(|s| *s > 10)
    });
    send(run.id(), Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let shown = place.show("stop");
    assert_eq!(shown["workers"][0]["exit"]["code"], 0, "it left by Stop: {shown}");
}

#[test]
fn the_signals_that_schedulers_send_for_programs_are_passed_on() {
    let place = Place::new();
    let there = place.path("there");
    let script = place.file("t.sh", &format!(
        "trap 'touch {0}.usr1.$RANK' USR1\ntrap 'touch {0}.usr2.$RANK; exit 0' USR2\ntouch {0}.$RANK\nwhile :; do sleep 0.05; done\n", there.display()));
    let mut run = place
        .command(&["run", "--port", "0", "--workers", "2", "--", "sh", &script])
        .spawn()
        .map(Guard)
        .unwrap();
    let both = |what: &str| {
        let of = |rank: u32| exists(&place.path(&format!("there{what}.{rank}")));
        wait_for(what, || of(0).and(of(1)));
    };
    both("");
    send(run.id(), Signal::USR1);
    both(".usr1");
    send(run.id(), Signal::USR2);
    assert_eq!(run.wait().unwrap().code(), Some(0), "the workers ended by themselves");
}
