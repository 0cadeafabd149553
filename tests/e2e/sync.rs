//! What a run could not say to its head: it is left in a spool, and `trainhead sync` or the run's next controller delivers
//! it, each point once.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::harness::{Guard, Place, Running, alive, wait_for};

/// Reports 100 steps, waits for a file, reports as many more, and waits for another file; a later life reports three.
const WORKER: &str = r#"
import os, time
from session import ask, report, rank, attempt
root = os.environ["TEST_ROOT"]
def wait(name):
    while not os.path.exists(os.path.join(root, name)):
        time.sleep(0.01)
def left(name):
    open(os.path.join(root, name), "w").close()
if attempt > 0:
    for step in range(1000, 1003):
        report(step)
else:
    for step in range(100):
        report(step)
    with open(os.path.join(root, "pid"), "w") as file:
        file.write(str(os.getpid()))
    left("half")
    wait("go")
    for step in range(100, 200):
        report(step)
    left("whole")
    wait("end")
"#;

/// A run with a named head that dies when half of the metrics are there.
fn run_without_head(place: &Place, head: &mut Running, name: &str) -> Guard {
    let script = place.python("train.py", WORKER);
    let args = ["--head", &head.url, "--name", name, "--", "python3", &script];
    let run = place.start_with(&args, &[("TEST_ROOT", &place.root())]);
    place.await_files(&["half"]);
    wait_for("half of the metrics at the head", || {
        let run = head.runs().into_iter().find(|run| run["name"] == name)?;
        (steps(head, run["id"].as_str()?, "merged").len() == 100).then_some(())
    });
    head.kill();
    place.file("go", "");
    place.await_files(&["whole"]);
    run
}

fn steps(head: &Running, id: &str, attempt: &str) -> Vec<u64> {
    let path = format!("/api/train/runs/{id}/metrics/series?key=x&max_points=1000000&attempt={attempt}");
    let series = head.get(&path);
    let steps = series["series"][0]["step"].as_array().cloned().unwrap_or_default();
    steps.iter().map(|step| step.as_u64().unwrap()).collect()
}

fn id(head: &Running, name: &str) -> String {
    let runs = head.runs();
    runs.iter().find(|run| run["name"] == name).unwrap()["id"].as_str().unwrap().to_owned()
}

fn spools(place: &Place) -> Vec<PathBuf> {
    let runs = fs::read_dir(place.data().join("runs")).unwrap();
    runs.map(|run| run.unwrap().path().join("spool")).filter(|dir| dir.exists()).collect()
}

/// The text of all segments of a spool.
fn spooled(dir: &Path) -> String {
    let mut segments: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().map(|e| e.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
    segments.sort();
    segments.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

fn sync(place: &Place, args: &[&str]) -> (Option<i32>, String, String) {
    let out = place.output(&[&["sync"], args].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

/// Kills a controller when all that its worker reported is on disk.
fn kill_when_spooled(place: &Place, mut run: Guard) -> PathBuf {
    let dir = wait_for("the last metrics on disk", || {
        let dir = spools(place).pop()?;
        spooled(&dir).contains("199.0]").then_some(dir)
    });
    run.kill().unwrap();
    run.wait().unwrap();
    let worker = place.left("pid").parse().unwrap();
    wait_for("its worker to be gone", || (!alive(worker)).then_some(()));
    dir
}

#[test]
fn a_controller_whose_head_is_dead_at_its_end_leaves_a_spool_that_is_delivered() {
    let place = Place::new();
    let mut head = place.serve(&[]);
    let dead = head.url.clone();
    let run = run_without_head(&place, &mut head, "r");
    place.file("end", "");
    let (code, told) = run.end();
    let [dir] = &spools(&place)[..] else { panic!() };
    assert_eq!(code, 0);
    assert!(told.contains(&format!("trainhead sync {}", dir.display())), "{told}");

    let (code, out, told) = sync(&place, &[]);
    assert_eq!((code, out.trim()), (Some(1), "0 spools: 1 spool left"));
    assert!(told.contains("no head serves") && told.contains("trainhead serve"), "{told}");
    let (code, _, told) = sync(&place, &["--head", &dead]);
    assert_eq!(code, Some(1));
    assert!(told.contains(&dead), "{told}");

    // Its address is another one now; what was concluded meanwhile is put right.
    let head = place.serve(&[]);
    let id = id(&head, "r");
    assert_eq!(head.get(&format!("/api/train/runs/{id}"))["run_status"], "ABORTED");
    let (code, out, _) = sync(&place, &[]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("1 spool: ") && out.contains("100 points delivered"), "{out}");
    assert_eq!(steps(&head, &id, "all"), (0..200).collect::<Vec<_>>());
    let shown = head.get(&format!("/api/train/runs/{id}"));
    assert_eq!((&shown["run_status"], &shown["ended_by"]), (&json!("FINISHED"), &json!("controller")));
    assert_eq!(shown["attempts"][0]["status"], "FINISHED");
    assert_eq!(shown["last_metrics"]["x"], 199.0);
    assert!(!dir.exists());

    let again = sync(&place, &[]);
    assert_eq!((again.0, again.1.trim()), (Some(0), "there is nothing to deliver"));
    assert_eq!(sync(&place, &[&dir.display().to_string()]).0, Some(0));
    assert_eq!(sync(&place, &[&format!("{}/no/such", place.root())]).0, Some(1));
}

#[test]
fn what_a_killed_controller_had_on_disk_is_delivered_by_two_at_once() {
    let place = Place::new();
    let mut head = place.serve(&[]);
    let run = run_without_head(&place, &mut head, "r");
    wait_for("a spool", || (!spools(&place).is_empty()).then_some(()));
    let (code, out, _) = sync(&place, &[]);
    assert_eq!((code, out.trim()), (Some(0), "0 spools: 1 spool in use"), "it lives");
    let dir = kill_when_spooled(&place, run);
    let last = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
    let last = last.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).max().unwrap();
    File::options().append(true).open(last).unwrap().write_all(b"{\"report\": {\"wri").unwrap();

    let head = place.serve(&[]);
    let id = id(&head, "r");
    let copies: Vec<Guard> = (0..2)
        .map(|_| place.command(&["sync", "--json"]).stdout(Stdio::piped()).spawn().map(Guard).unwrap())
        .collect();
    for copy in copies {
        assert_eq!(copy.end().0, 0);
    }
    assert_eq!(steps(&head, &id, "all"), (0..200).collect::<Vec<_>>());
    assert!(!dir.exists());
    // Late words do not bring it back to life.
    wait_for("its end", || {
        (head.get(&format!("/api/train/runs/{id}"))["run_status"] == "ABORTED").then_some(())
    });
}

#[test]
fn a_run_that_goes_on_delivers_what_its_first_controller_had_on_disk() {
    let place = Place::new();
    let mut head = place.serve(&[]);
    let run = run_without_head(&place, &mut head, "r");
    let dir = kill_when_spooled(&place, run);
    let head = place.serve(&[]);
    let id = id(&head, "r");
    let again = place.start_with(&["--head", &head.url, "--resume", "r"], &[("TEST_ROOT", &place.root())]);
    assert_eq!(again.end().0, 0);
    assert_eq!(steps(&head, &id, "0"), (0..200).collect::<Vec<_>>());
    assert_eq!(steps(&head, &id, "1"), [1000, 1001, 1002]);
    assert_eq!(head.get(&format!("/api/train/runs/{id}"))["run_status"], "FINISHED");
    assert!(!dir.exists());
}

/// A spool as a Python program leaves it, with these steps in segments of ten batches.
fn spool(
    place: &Place,
    name: &str,
    run: &str,
    writer: &str,
    steps: std::ops::Range<u64>,
    end: Option<&str>,
) -> PathBuf {
    let dir = place.data().join("spool").join(name);
    fs::create_dir_all(&dir).unwrap();
    let register =
        json!({"id": run, "name": run, "controller": {"actor_id": writer}, "settings": {"of": writer}});
    let about =
        json!({"version": 1, "run_id": run, "head": null, "register": register, "controller_token": null});
    fs::write(dir.join("spool.json"), about.to_string()).unwrap();
    let mut lines: Vec<Value> = steps
        .enumerate()
        .map(|(i, step)| {
            json!({"report": {"writer": writer, "seq": i + 1, "attempt": 0, "rank": 0,
                "reports": [{"step": step, "time_ms": 1_700_000_000_000_u64 + step, "metrics": {"x": step}}]}})
        })
        .collect();
    lines.extend(end.map(|status| json!({"say": {"verb": "end", "body": {"run_status": status}}})));
    for (i, lines) in lines.chunks(10).enumerate() {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(dir.join(format!("{:012}.jsonl", i + 1)), text).unwrap();
    }
    dir
}

#[test]
fn two_spools_of_one_run_are_merged_whatever_the_order_and_a_copy_changes_nothing() {
    let place = Place::new();
    let head = place.serve(&[]);
    let a = |name: &str| spool(&place, name, "r", "a", 0..100, Some("FINISHED"));
    let b = |name: &str| spool(&place, name, "r", "b", 90..200, Some("ERRORED"));
    for name in ["a", "b", "a-again", "b-again"] {
        let dir = if name.starts_with('a') { a(name) } else { b(name) };
        let (code, out, _) = sync(&place, &["--json", &dir.display().to_string()]);
        let told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (code, &told["left"], &told["spools"][0]["state"]),
            (Some(0), &json!(0), &json!("delivered"))
        );
        assert!(!dir.exists());
    }
    a("a");
    b("b");
    let copies: Vec<Guard> = ["a", "b"]
        .iter()
        .map(|name| {
            let dir = place.data().join("spool").join(name);
            place.command(&["sync", &dir.display().to_string()]).spawn().map(Guard).unwrap()
        })
        .collect();
    for copy in copies {
        assert_eq!(copy.end().0, 0);
    }
    assert_eq!(steps(&head, "r", "all"), (0..200).collect::<Vec<_>>());
    let shown = head.get("/api/train/runs/r");
    assert_eq!(
        (&shown["run_status"], &shown["epoch"]),
        (&json!("FINISHED"), &json!(1)),
        "the first one's word"
    );
}

#[test]
fn a_sync_that_is_killed_is_finished_by_the_next_one_and_what_lives_is_left_alone() {
    let place = Place::new();
    let head = place.serve(&[]);
    let held = spool(&place, "held", "h", "h", 0..10, None);
    let lock = File::create(held.join("lock")).unwrap();
    lock.try_lock().unwrap();
    let dir = spool(&place, "r", "r", "r", 0..5000, Some("ERRORED"));
    let begun = fs::read_dir(&dir).unwrap().count();
    let mut first = place.command(&["sync"]).spawn().map(Guard).unwrap();
    wait_for("the first segments to be delivered", || {
        (fs::read_dir(&dir).map_or(0, Iterator::count) < begun - 10).then_some(())
    });
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(dir.exists(), "killed in the middle");
    let (code, out, _) = sync(&place, &[]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("1 spool: ") && out.contains("1 spool in use"), "{out}");
    assert_eq!(steps(&head, "r", "all"), (0..5000).collect::<Vec<_>>());
    assert_eq!(head.get("/api/train/runs/r")["run_status"], "ERRORED");
    assert_eq!(sync(&place, &[&held.display().to_string()]).0, Some(1), "it was asked for");
    assert!(spooled(&held).contains("\"step\":9"));
    drop(lock);
    assert_eq!(sync(&place, &[]).0, Some(0));
    assert_eq!(steps(&head, "h", "all"), (0..10).collect::<Vec<_>>());
}
