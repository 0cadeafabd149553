//! The main job: train with two workers, record it, see it.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use crate::harness::{Guard, Place, wait_for};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_digits_example_trains_with_two_workers_and_leaves_its_record() {
    let place = Place::new();
    let digits = format!("{REPOSITORY}/examples/digits.py");
    let out = place.run(&["--workers", "2", "--name", "digits", "--", "python3", &digits, "--epochs", "4"]);
    assert!(out.status.success());
    assert!(String::from_utf8_lossy(&out.stdout).contains("epoch"), "rank 0's log is shown");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("TrainHead is at http://127.0.0.1:") && told.contains("FINISHED"), "{told}");
    let run = place.show("digits");
    assert_eq!(run["run_status"], "FINISHED");
    assert!(run["last_metrics"]["test/accuracy"].as_f64().unwrap() > 0.9, "{run}");
    assert_eq!(run["workers"].as_array().unwrap().len(), 2);
    let logs = place.output(&["logs", "digits", "--tail", "1", "--rank", "1"]);
    assert!(logs.status.success());
    let list = place.output(&["runs"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains("digits"));
}

#[test]
fn a_rank_that_fails_once_is_made_good_by_another_attempt() {
    let place = Place::new();
    let script =
        place.file("t.sh", "[ \"$TRAINHEAD_ATTEMPT\" = 0 ] && [ \"$RANK\" = 1 ] && exit 3\nexit 0\n");
    let out = place.run(&["--workers", "2", "--max-failures", "1", "--name", "once", "--", "sh", &script]);
    assert_eq!(out.status.code(), Some(0));
    let run = place.show("once");
    let attempt = |i: usize, field: &str| run["attempts"][i][field].as_str().unwrap_or_default().to_owned();
    assert_eq!(run["run_status"], "FINISHED");
    assert_eq!((attempt(0, "status"), attempt(0, "end_reason")), ("ERRORED".into(), "worker_failed".into()));
    assert_eq!((attempt(1, "status"), attempt(1, "end_reason")), ("FINISHED".into(), "completed".into()));
    assert_eq!(run["num_failures"]["worker"], 1);
}

#[test]
fn without_a_budget_the_first_failure_is_named_and_its_code_is_ours() {
    let place = Place::new();
    let script = place
        .file("t.sh", "if [ \"$RANK\" = 1 ]; then echo no such layer >&2; exit 3; fi\nexec sleep 1000\n");
    let out = place.run(&["--workers", "2", "--max-failures", "0", "--name", "fails", "--", "sh", &script]);
    assert_eq!(out.status.code(), Some(3));
    let run = place.show("fails");
    assert_eq!((run["run_status"].as_str(), run["ended_by"].as_str()), (Some("ERRORED"), Some("controller")));
    let detail = run["status_detail"].as_str().unwrap();
    assert!(detail.contains("rank 1 exited with code 3") && detail.contains("no such layer"), "{detail}");
    let failure = &run["first_failure"];
    assert_eq!((&failure["rank"], &failure["exit_code"]), (&1.into(), &3.into()));
    assert_eq!(failure["log_tail"], serde_json::json!(["no such layer"]));
    assert_eq!(run["workers"][0]["exit"]["signal"], "SIGTERM");
}

#[test]
fn a_killed_rank_is_named_by_its_signal() {
    let place = Place::new();
    let out = place.run(&["--name", "killed", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(out.status.code(), Some(137));
    assert!(place.show("killed")["status_detail"].as_str().unwrap().contains("killed by SIGKILL"));
}

#[test]
fn a_program_that_does_not_exist_fails_at_once_whatever_the_budget() {
    let place = Place::new();
    let out = place.run(&["--max-failures", "-1", "--name", "none", "--", "/nonexistent/program"]);
    assert_eq!(out.status.code(), Some(1));
    let run = place.show("none");
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(run["attempts"][0]["end_reason"], "start_failed");
    assert!(run["status_detail"].as_str().unwrap().contains("/nonexistent/program"), "{run}");
}

#[test]
fn bad_usage_is_exit_code_2() {
    let place = Place::new();
    for args in [
        &["run"][..],
        &["run", "--workers", "0", "--", "true"],
        &["nonsense"],
        &["run", "--name", "a\nb", "--", "true"],
    ] {
        assert_eq!(place.output(args).status.code(), Some(2), "{args:?}");
    }
    let config = place.file("c.toml", "wrkers = 3\n");
    let out = place.output(&["runs", "--config", &config]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("wrkers"));
}

#[test]
fn options_come_from_flags_then_the_environment_then_the_file() {
    let place = Place::new();
    let config = place.file("c.toml", "port = 1111\nhost = \"::1\"\n[run]\nworkers = 3\n");
    let effective = |flags: &[&str], port: Option<&str>| {
        let mut command = place.command(&[&["config", "--json", "--config", &config], flags].concat());
        command.envs(port.map(|p| ("TRAINHEAD_PORT", p)));
        let out = command.output().unwrap();
        let all: Value = serde_json::from_slice(&out.stdout).unwrap();
        let one = |name: &str| {
            let found = all.as_array().unwrap().iter().find(|o| o["name"] == name).unwrap().clone();
            (found["value"].as_str().unwrap().to_owned(), found["source"].as_str().unwrap().to_owned())
        };
        (one("port"), one("host"))
    };
    let ((port, source), (host, _)) = effective(&[], None);
    assert_eq!((port.as_str(), source.as_str(), host.as_str()), ("1111", config.as_str(), "::1"));
    assert_eq!(effective(&[], Some("2222")).0, ("2222".into(), "TRAINHEAD_PORT".into()));
    assert_eq!(effective(&["--port", "3333"], Some("2222")).0, ("3333".into(), "command line".into()));
    let out = place.run(&["--config", &config, "--name", "three", "--", "true"]);
    assert!(out.status.success());
    assert_eq!(place.show("three")["workers"].as_array().unwrap().len(), 3);
}

#[test]
fn a_run_uses_the_head_of_its_data_directory_and_the_dashboard_shows_it_live() {
    let place = Place::new();
    let head = place.serve(&[]);
    let go = place.path("go");
    let script = place.file("t.sh", &format!("while [ ! -e {} ]; do sleep 0.02; done\n", go.display()));
    let mut run = place
        .command(&["run", "--workers", "2", "--name", "shared", "--", "sh", &script])
        .spawn()
        .map(Guard)
        .unwrap();
    let live =
        wait_for("the run to show as running", || head.runs().into_iter().find(|r| r["phase"] == "RUNNING"));
    assert_eq!(live["workers"].as_array().unwrap().len(), 2);
    let one = head.get(&format!("/api/train/runs/{}", live["id"].as_str().unwrap()));
    assert_eq!(one["evidence"]["process"]["state"], "running");
    std::fs::write(&go, "").unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!(head.runs()[0]["run_status"], "FINISHED");
}

#[test]
fn an_embedded_head_stays_while_another_controller_uses_it() {
    let place = Place::new();
    let go = place.path("go");
    let wait = place.file("w.sh", &format!("while [ ! -e {} ]; do sleep 0.02; done\n", go.display()));
    let first_go = place.path("first");
    let first = place.file("f.sh", &format!("while [ ! -e {} ]; do sleep 0.02; done\n", first_go.display()));
    let mut embedding = place
        .command(&["run", "--port", "0", "--name", "first", "--", "sh", &first])
        .spawn()
        .map(Guard)
        .unwrap();
    wait_for("the first run", || (place.data().join("head.json").exists()).then_some(()));
    let mut second =
        place.command(&["run", "--name", "second", "--", "sh", &wait]).spawn().map(Guard).unwrap();
    wait_for("both runs", || {
        let out = place.output(&["runs", "--json", "--status", "STARTED"]);
        let list: Value = serde_json::from_slice(&out.stdout).ok()?;
        (list["total_size"] == 2).then_some(())
    });
    std::fs::write(&first_go, "").unwrap();
    wait_for("the first run to end", || (place.show("first")["run_status"] == "FINISHED").then_some(()));
    // It says so before the second may end.
    let mut told = String::new();
    let mut lines = BufReader::new(embedding.stderr.take().unwrap());
    while !told.contains("other runs") {
        assert!(lines.read_line(&mut told).unwrap() > 0, "it does not stay for the second: {told}");
    }
    std::fs::write(&go, "").unwrap();
    assert!(second.wait().unwrap().success());
    lines.read_to_string(&mut told).unwrap();
    assert!(embedding.wait().unwrap().success(), "{told}");
    assert_eq!(place.show("second")["run_status"], "FINISHED");
}

#[test]
fn what_the_host_has_for_workers_can_be_said_and_is_shown() {
    let place = Place::new();
    let head = place.serve(&["--resource", "licence=2", "--resource", "CPU=1.5"]);
    let nodes = head.get("/api/train/nodes");
    let own = &nodes["nodes"][0];
    assert_eq!(own["is_head"], true);
    assert_eq!(
        (&own["free"]["licence"], &own["capacity"]["CPU"]),
        (&serde_json::json!(2.0), &serde_json::json!(1.5))
    );
    for (bad, word) in [("GPU=1", "GPUs are found"), ("CPU=many", "no number"), ("CPU=-1", "0 to 1,000,000")]
    {
        let out = Place::new().output(&["serve", "--port", "0", "--resource", bad]);
        assert_eq!(out.status.code(), Some(1), "{bad}");
        assert!(
            String::from_utf8_lossy(&out.stderr).contains(word),
            "{bad}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

#[test]
fn a_head_logs_each_request_with_its_id_when_it_is_asked_to() {
    let place = Place::new();
    let logged = |args: &[&str]| {
        let path = place.path("head.log");
        let head = place.serve_logging(args, std::fs::File::create(&path).unwrap().into());
        head.get("/api/train/experiments");
        drop(head);
        std::fs::read_to_string(path).unwrap()
    };
    let log = logged(&["-v"]);
    let line =
        log.lines().find(|l| l.contains("GET /api/train/experiments 200")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("request.id=") && line.contains("duration_ms="), "{line}");
    assert!(!logged(&[]).contains("GET "), "and not otherwise");
}
