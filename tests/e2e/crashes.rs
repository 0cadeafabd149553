//! What is killed on purpose: controllers, heads, and what must be there afterwards.

use std::{
    process::Stdio,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Guard, Place, Running, alive, exists, http, http_with, pids, send, wait_for};

#[test]
fn a_killed_controller_is_aborted_in_the_next_answer_and_its_workers_are_gone() {
    let place = Place::new();
    let head = place.serve(&[]);
    let there = place.path("there");
    let script = place.file("t.sh", &format!("touch {}.$RANK\nexec sleep 1000\n", there.display()));
    let mut run = place
        .command(&["run", "--workers", "2", "--name", "k", "--", "sh", &script])
        .spawn()
        .map(Guard)
        .unwrap();
    wait_for("both workers", || exists(&place.path("there.0")).and(exists(&place.path("there.1"))));
    let before = wait_for("the run", || head.runs().into_iter().find(|r| r["phase"] == "RUNNING"));
    run.kill().unwrap();
    run.wait().unwrap();
    let killed = Instant::now();
    let after = head.runs().remove(0);
    assert!(killed.elapsed() < Duration::from_secs(1));
    assert_eq!(
        (after["run_status"].as_str(), after["ended_by"].as_str()),
        (Some("ABORTED"), Some("reconciler"))
    );
    assert_eq!(after["controller_actor_status"], "DEAD");
    assert!(
        after["status_detail"].as_str().unwrap().contains(&format!("controller process {}", run.id())),
        "{after}"
    );
    let one = head.get(&format!("/api/train/runs/{}", after["id"].as_str().unwrap()));
    assert_eq!(
        (&one["attempts"][0]["status"], &one["attempts"][0]["end_reason"]),
        (&json!("ABORTED"), &json!("controller_lost"))
    );
    for worker in one["workers"].as_array().unwrap() {
        assert_eq!(
            (&worker["status"], &worker["exit"]["cause"]),
            (&json!("DEAD"), &json!("controller lost"))
        );
    }
    assert!(one["end_time_ms"].as_i64() >= one["start_time_ms"].as_i64());
    wait_for("the workers to be gone", || pids(&before).into_iter().all(|pid| !alive(pid)).then_some(()));
}

#[test]
fn a_remote_controller_that_falls_silent_is_aborted_a_lease_later_and_comes_back() {
    let place = Place::new();
    let head = place.serve(&[]);
    let body = json!({"id": "remote", "controller": {"actor_id": "c", "lease_ttl_ms": 5000}});
    let registered = http(&head.url, "POST", "/api/train/runs", Some(&body)).unwrap();
    let registered_at = Instant::now();
    let status = || head.get("/api/train/runs/remote")["run_status"].as_str().unwrap().to_owned();
    wait_for("the lease to end", || (status() == "ABORTED").then_some(()));
    assert!(registered_at.elapsed() >= Duration::from_secs(4), "not before the lease's end");
    let beat = json!({"runs": [{"run_id": "remote", "controller_token": registered["controller_token"]}]});
    http(&head.url, "POST", "/api/train/heartbeats", Some(&beat)).unwrap();
    assert_eq!(status(), "STARTED");
}

#[test]
fn a_killed_head_has_every_acknowledged_registration_and_end() {
    let place = Place::new();
    let acknowledged: Mutex<Vec<(String, bool)>> = Mutex::default();
    for round in 0..3 {
        let mut head = place.serve(&[]);
        let url = head.url.clone();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..16 {
                let (url, stop, acknowledged) = (&url, &stop, &acknowledged);
                scope.spawn(move || {
                    for i in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let id = format!("r{round}-w{writer}-{i}");
                        let body = json!({"id": id, "name": id, "controller": {"actor_id": "c"}});
                        let Some((201, answer)) =
                            http_with(url, "POST", "/api/train/runs", None, Some(&body))
                        else {
                            return;
                        };
                        acknowledged.lock().unwrap().push((id.clone(), false));
                        let token = answer["controller_token"].as_str().unwrap();
                        let end = json!({"run_status": "FINISHED"});
                        let path = format!("/api/train/runs/{id}/end");
                        let Some((200, _)) = http_with(url, "POST", &path, Some(token), Some(&end)) else {
                            return;
                        };
                        acknowledged.lock().unwrap().push((id, true));
                    }
                });
            }
            let enough = 150 * (round + 1);
            wait_for("writes", || (acknowledged.lock().unwrap().len() > enough).then_some(()));
            head.kill();
            stop.store(true, Ordering::Relaxed);
        });
    }
    let head = place.serve(&[]);
    let mut stored: std::collections::HashMap<String, String> = std::collections::HashMap::new();
    let mut token = String::new();
    loop {
        let page = head.get(&format!("/api/train/runs?page_size=1000{token}"));
        for run in page["train_runs"].as_array().unwrap() {
            let id = run["id"].as_str().unwrap().to_owned();
            let known = stored.insert(id, run["run_status"].as_str().unwrap().to_owned());
            assert!(known.is_none(), "none twice");
        }
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    for (id, ended) in acknowledged.lock().unwrap().iter() {
        let status = stored.get(id).unwrap_or_else(|| panic!("{id} was acknowledged and is lost"));
        assert!(!ended || status == "FINISHED", "{id} was acknowledged as ended and is {status}");
    }
}

#[test]
fn restarting_the_head_in_mid_run_does_not_disturb_the_run_and_loses_no_point() {
    let place = Place::new();
    let mut head = place.serve(&[]);
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    // Steps at a pace of its own, which it writes down: it must not stop while the head is away.
    let pace = place.path("pace");
    let script = place.file("t.py", &format!(
        "import time, trainhead\nfor step in range(400):\n    trainhead.report({{'x': step}}, step=step)\n    \
         open({:?}, 'w').write(str(step))\n    time.sleep(0.01)\n", pace.display().to_string()));
    let mut run = place
        .command(&[
            "run",
            "--name",
            "through",
            "--head",
            &head.url,
            "--env",
            &format!("PYTHONPATH={python}"),
            "--",
            "python3",
            &script,
        ])
        .stdout(Stdio::null())
        .spawn()
        .map(Guard)
        .unwrap();
    let step = || std::fs::read_to_string(&pace).ok().and_then(|s| s.parse::<u32>().ok());
    wait_for("some steps", || step().filter(|s| *s > 50));
    let port = head.port();
    head.kill();
    let at_kill = wait_for("the step at the kill", step);
    wait_for("steps without a head", || step().filter(|s| *s > at_kill + 50));
    let head = serve_again(&place, &port);
    assert_eq!(run.wait().unwrap().code(), Some(0));
    let shown = place.show("through");
    assert_eq!(shown["run_status"], "FINISHED");
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1, "one attempt, undisturbed");
    let id = shown["id"].as_str().unwrap();
    let series = head.get(&format!("/api/train/runs/{id}/metrics/series?key=x&max_points=10000"));
    let steps: Vec<Value> = series["series"][0]["step"].as_array().unwrap().clone();
    assert_eq!(steps, (0..400).map(Value::from).collect::<Vec<_>>(), "each point, once");
}

#[test]
fn a_run_whose_head_dies_becomes_the_head_of_the_data_directory_itself() {
    let place = Place::new();
    let mut head = place.serve(&[]);
    let go = place.path("go");
    let script = place.file("t.sh", &format!("while [ ! -e {} ]; do sleep 0.02; done\n", go.display()));
    let mut run = place
        .command(&["run", "--port", "0", "--name", "heir", "--", "sh", &script])
        .spawn()
        .map(Guard)
        .unwrap();
    wait_for("the run", || head.runs().into_iter().find(|r| r["phase"] == "RUNNING"));
    let dead = head.url.clone();
    head.kill();
    let heir = wait_for("another head", || {
        let info: Value =
            serde_json::from_slice(&std::fs::read(place.data().join("head.json")).ok()?).ok()?;
        let url = info["url"].as_str()?.to_owned();
        (url != dead).then_some(url)
    });
    let list = http(&heir, "GET", "/api/train/runs", None).unwrap();
    assert_eq!(list["train_runs"][0]["run_status"], "STARTED");
    std::fs::write(&go, "").unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(place.show("heir")["run_status"], "FINISHED");
}

fn serve_again(place: &Place, port: &str) -> Running {
    let mut child = place.command(&["serve", "--port", port]).stderr(Stdio::inherit()).spawn().unwrap();
    drop(child.stdout.take());
    let url = format!("http://127.0.0.1:{port}");
    wait_for("the head", || http(&url, "GET", "/healthz", None));
    Running { child, url }
}

#[test]
fn sigterm_ends_a_head_in_order_and_its_lock_is_free() {
    let place = Place::new();
    let mut head = place.serve(&[]);
    let second = place.output(&["serve", "--port", "0"]);
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains(&head.url), "it says who serves");
    http(&head.url, "POST", "/api/train/runs", Some(&json!({"id": "r", "controller": {"actor_id": "c"}})))
        .unwrap();
    head.signal(Signal::TERM);
    let begun = Instant::now();
    assert_eq!(head.child.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(!place.data().join("head.json").exists());
    assert_eq!(place.serve(&[]).runs().len(), 1);
}

#[test]
fn a_controller_killed_while_it_starts_leaves_nothing() {
    let place = Place::new();
    let marker = format!("th-early-{}", std::process::id());
    for i in 0..20 {
        let mut run = place
            .command(&["run", "--port", "0", "--workers", "4", "--", "sh", "-c", "exec sleep 1000", &marker])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Guard)
            .unwrap();
        // A different moment of the start each time.
        let until = Instant::now() + Duration::from_millis(i * 4);
        while Instant::now() < until {
            std::thread::yield_now();
        }
        send(run.id(), Signal::KILL);
        run.wait().unwrap();
    }
    wait_for("everything to be gone", || crate::harness::processes_with(&marker).is_empty().then_some(()));
}
