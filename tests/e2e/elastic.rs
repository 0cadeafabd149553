//! A run that takes as many workers as there is room for, and waits when there is none.

use std::{
    fs,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Guard, Place, Running, exists, processes_with, send, wait_for};

/// Ctrl-C ends a controller that waits: within 200 ms on a machine that has nothing else to do.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Makes steps, and writes the last one into the run's storage; each rank 0 says from which step it goes on.
const TRAINING: &str = "
import os, sys, time, trainhead
context = trainhead.get_context()
at = os.path.join(context.storage_path, 'step')
step = int(open(at).read()) if os.path.exists(at) else 0
if context.rank == 0:
    with open(sys.argv[1], 'a') as began:
        began.write(f'{context.attempt} {context.world_size} {step}\\n')
while not os.path.exists(sys.argv[2]):
    step += 1
    trainhead.log({'x': step}, step=step)
    if context.rank == 0:
        with open(at + '.new', 'w') as new:
            new.write(str(step))
        os.replace(at + '.new', at)
    time.sleep(0.01)
";

struct Stage {
    place: Place,
    head: Running,
}

impl Stage {
    fn new() -> Self {
        let place = Place::new();
        let head = place.serve(&["--resource", "CPU=3"]);
        Self { place, head }
    }

    /// A run of a fixed size that ends when its file is there.
    fn blocker(&self, name: &str, workers: &str) -> Guard {
        let go = self.place.path(name).display().to_string();
        let script = format!("while [ ! -e {go} ]; do sleep 0.02; done");
        self.start(&[
            "--name",
            name,
            "--workers",
            workers,
            "--cpus-per-worker",
            "1",
            "--",
            "sh",
            "-c",
            &script,
        ])
    }

    fn start(&self, args: &[&str]) -> Guard {
        let mut all = vec!["run"];
        all.extend(args);
        self.place.command(&all).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Guard).unwrap()
    }

    fn end_blocker(&self, name: &str, mut run: Guard) {
        fs::write(self.place.path(name), "").unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(0), "{name}");
    }

    /// A run in full, once it is there.
    fn run(&self, name: &str) -> Option<Value> {
        let listed = self.head.runs().into_iter().find(|run| run["name"] == name)?;
        Some(self.head.get(&format!("/api/train/runs/{}", listed["id"].as_str().unwrap())))
    }

    fn await_run(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("{name}: {what}"), || self.run(name).filter(&is))
    }

    fn await_phase(&self, name: &str, phase: &str) -> Value {
        self.await_run(name, phase, |run| run["phase"] == phase)
    }

    fn await_waiting(&self, name: &str) -> Value {
        self.await_run(name, "waiting", |run| detail(run).starts_with("waiting for resources"))
    }

    /// What of the node's processors is taken.
    fn reserved(&self) -> f64 {
        let nodes = self.head.get("/api/train/nodes");
        nodes["nodes"][0]["reserved"]["CPU"].as_f64().unwrap_or(0.0)
    }
}

fn detail(run: &Value) -> &str {
    run["status_detail"].as_str().unwrap_or_default()
}

fn sizes(run: &Value) -> Vec<u64> {
    run["attempts"].as_array().unwrap().iter().map(|a| a["num_workers"].as_u64().unwrap()).collect()
}

/// Attempt, size and first step of each attempt that has begun to train.
fn beginnings(path: &PathBuf) -> Vec<[u64; 3]> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let numbers = |line: &str| line.split(' ').map(|n| n.parse().unwrap()).collect::<Vec<_>>();
    text.lines().map(|line| numbers(line).try_into().unwrap()).collect()
}

#[test]
fn an_elastic_run_takes_the_room_that_others_leave_and_makes_room_for_them() {
    let stage = Stage::new();
    let python = concat!("PYTHONPATH=", env!("CARGO_MANIFEST_DIR"), "/python");
    let script = stage.place.file("train.py", TRAINING);
    let (began, done) = (stage.place.path("began"), stage.place.path("done"));
    let trains = |attempts: usize| {
        wait_for("training", || (beginnings(&began).len() == attempts).then_some(()));
        let run = stage.await_phase("elastic", "RUNNING");
        // The checkpoint is ahead of where the attempt began, so that the next one has something to go on from.
        let at = stage.place.data().join("runs").join(run["id"].as_str().unwrap()).join("step");
        let from = beginnings(&began)[attempts - 1][2];
        wait_for("steps", || {
            fs::read_to_string(&at).ok()?.parse::<u64>().ok().filter(|step| *step > from + 20)
        });
        assert_eq!(sizes(&run), [1, 3, 1, 3][..attempts], "{run}");
    };

    let first = stage.blocker("first", "2");
    stage.await_phase("first", "RUNNING");
    let (began_at, done_at) = (began.display().to_string(), done.display().to_string());
    let mut elastic = stage.start(&[
        "--name",
        "elastic",
        "--workers",
        "1:3",
        "--env",
        python,
        "--",
        "python3",
        &script,
        &began_at,
        &done_at,
    ]);
    trains(1);
    stage.end_blocker("first", first);
    trains(2);
    let second = stage.blocker("second", "2");
    let waiting = stage.await_waiting("second");
    assert!(detail(&waiting).contains("CPU"), "{}", detail(&waiting));
    stage.await_phase("second", "RUNNING");
    trains(3);
    stage.end_blocker("second", second);
    trains(4);
    fs::write(&done, "").unwrap();
    assert_eq!(elastic.wait().unwrap().code(), Some(0));

    let run = stage.run("elastic").unwrap();
    let reasons: Vec<&Value> = run["attempts"].as_array().unwrap().iter().map(|a| &a["end_reason"]).collect();
    assert_eq!(json!(reasons), json!(["resized", "resized", "resized", "completed"]));
    assert_eq!((&run["run_status"], sizes(&run)), (&json!("FINISHED"), vec![1, 3, 1, 3]));
    assert_eq!(run["num_failures"], json!({"worker": 0, "controller": 0, "preemption": 0}));
    let began = beginnings(&began);
    assert!(began.windows(2).all(|pair| pair[1][2] > pair[0][2] + 20), "each goes on: {began:?}");
    assert_eq!(began.iter().map(|b| [b[0], b[1]]).collect::<Vec<_>>(), [[0, 1], [1, 3], [2, 1], [3, 3]]);
    assert_eq!(stage.reserved(), 0.0);
}

#[test]
fn a_run_that_waits_for_room_says_what_is_missing_and_can_be_stopped_at_once() {
    let stage = Stage::new();
    let blocker = stage.blocker("blocker", "3");
    stage.await_phase("blocker", "RUNNING");
    let wait = |name| {
        let run = stage.start(&["--name", name, "--workers", "1:3", "--", "sleep", "1000"]);
        let waiting = stage.await_waiting(name);
        assert!(detail(&waiting).contains("CPU"), "{}", detail(&waiting));
        assert_eq!((&waiting["run_status"], sizes(&waiting)), (&json!("STARTED"), vec![]));
        run
    };

    let mut run = wait("ctrl-c");
    let asked = Instant::now();
    send(run.id(), Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let took = asked.elapsed();
    eprintln!("Ctrl-C ended the controller within {took:?}");
    assert!(took < AT_ONCE, "{took:?}");

    let mut run = wait("api");
    let asked = Instant::now();
    assert!(stage.place.output(&["abort", "api", "--reason", "enough"]).status.success());
    assert_eq!(run.wait().unwrap().code(), Some(130));
    eprintln!("a stop by the API ended it within {:?}", asked.elapsed());
    assert!(asked.elapsed() < 2 * AT_ONCE);
    let ended = stage.run("api").unwrap();
    assert_eq!((&ended["run_status"], &ended["ended_by"]), (&json!("ABORTED"), &json!("user")));
    assert!(detail(&ended).contains("enough"), "{ended}");

    let mark = format!("th-waits-{}", std::process::id());
    let mut run = wait(&mark);
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(processes_with(&mark), [0u32; 0]);
    assert_eq!(stage.run(&mark).unwrap()["run_status"], "ABORTED");
    assert_eq!(stage.reserved(), 3.0, "the blocker's alone");

    // Nobody who waited has left anything reserved, or wanted.
    stage.end_blocker("blocker", blocker);
    assert_eq!(stage.reserved(), 0.0);
    let there = stage.place.path("there");
    let touch = format!("touch {}", there.display());
    let mut next = stage.start(&["--workers", "3", "--cpus-per-worker", "1", "--", "sh", "-c", &touch]);
    assert_eq!(next.wait().unwrap().code(), Some(0));
    assert!(exists(&there).is_some());
}
