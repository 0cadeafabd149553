//! Checkpoints of real workers, through the Python client: handed over, committed, kept, lost, broken, gone on from.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::harness::{Guard, Place, of_attempts, wait_for};

const CLIENT: &str = concat!("PYTHONPATH=", env!("CARGO_MANIFEST_DIR"), "/python");

/// What the programs below have at hand: `hand(step, text, **metrics)` reports a directory with one file of this rank.
const HEAD: &str = r#"
import os, pathlib, sys, tempfile, time, trainhead
root = pathlib.Path(__file__).parent
context = trainhead.get_context()
rank, attempt = context.rank, context.attempt
def hand(step, text, **metrics):
    with tempfile.TemporaryDirectory() as d:
        (pathlib.Path(d) / f"rank_{rank}.txt").write_text(text)
        trainhead.report({"step": step, **metrics}, step=step, checkpoint=trainhead.Checkpoint.from_directory(d))
def wait(name):
    while not (root / name).exists():
        time.sleep(0.01)
"#;

fn program(place: &Place, text: &str) -> String {
    place.file("train.py", &format!("{HEAD}\n{text}"))
}

fn args<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["--name", "c", "--env", CLIENT], options, &["--", "python3", script]].concat()
}

fn run(place: &Place, options: &[&str], script: &str) -> (Option<i32>, String) {
    let out = place.run(&args(options, script));
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

fn start(place: &Place, options: &[&str], script: &str) -> Guard {
    place.start(&args(options, script))
}

fn ls(place: &Place, more: &[&str]) -> Vec<Value> {
    let out = place.output(&[&["checkpoints", "ls", "c", "--json"], more].concat());
    assert!(out.status.success());
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Directories below the run's that hold a manifest.
fn whole(place: &Place) -> Vec<PathBuf> {
    let id = place.show("c")["id"].as_str().unwrap().to_owned();
    let run = place.data().join("runs").join(id);
    let mut found: Vec<PathBuf> = walk(&run).into_iter().filter(|p| p.ends_with("MANIFEST.json")).collect();
    found.sort();
    found.iter().map(|p| p.parent().unwrap().to_owned()).collect()
}

fn walk(dir: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).map(|all| all.flatten().map(|e| e.path()).collect::<Vec<_>>());
    entries
        .unwrap_or_default()
        .into_iter()
        .flat_map(|p| if p.is_dir() { walk(&p) } else { vec![p] })
        .collect()
}

fn staged(place: &Place) -> Vec<PathBuf> {
    let id = place.show("c")["id"].as_str().unwrap().to_owned();
    walk(&place.data().join("runs").join(id).join(".staging"))
}

fn manifest(dir: &std::path::Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("MANIFEST.json")).unwrap()).unwrap()
}

#[test]
fn half_a_checkpoint_of_an_attempt_that_died_is_none_and_the_next_attempt_s_is_its_own() {
    let place = Place::new();
    let script = program(
        &place,
        r#"
if attempt == 0 and rank == 0:
    hand(10, "of attempt 0")
    (root / "handed").touch()
    time.sleep(60)
if attempt == 0:
    wait("handed")
    os.kill(os.getpid(), 9)
hand(10, f"of attempt {attempt}, rank {rank}")
"#,
    );
    let (code, _) = run(&place, &["--workers", "2", "--max-failures", "1", "--grace-period", "1"], &script);
    assert_eq!(code, Some(0));
    let dirs = whole(&place);
    assert_eq!(dirs.len(), 1, "{dirs:?}");
    let manifest = manifest(&dirs[0]);
    assert_eq!((&manifest["attempt"], &manifest["step"]), (&json!(1), &json!(10)));
    for rank in 0..2 {
        let text = fs::read_to_string(dirs[0].join(format!("rank_{rank}.txt"))).unwrap();
        assert_eq!(text, format!("of attempt 1, rank {rank}"));
    }
    assert_eq!(staged(&place), Vec::<PathBuf>::new());
    let ledger = ls(&place, &["--all"]);
    assert_eq!((ledger.len(), &ledger[0]["state"], &ledger[0]["step"]), (1, &json!("COMMITTED"), &json!(10)));
}

#[test]
fn the_best_and_the_latest_are_kept_and_one_that_somebody_removed_is_noted() {
    let place = Place::new();
    let script = program(
        &place,
        r#"
hand(1, "good", accuracy=0.9)
hand(2, "less", accuracy=0.8)
(root / "two").touch()
wait("removed")
hand(3, "worse", accuracy=0.7)
hand(4, "worst", accuracy=0.6)
"#,
    );
    let keep = ["--keep-checkpoints", "1", "--checkpoint-score", "accuracy"];
    let run = start(&place, &keep, &script);
    place.await_files(&["two"]);
    let two = wait_for("both in the ledger", || Some(ls(&place, &[])).filter(|all| all.len() == 2));
    let of = |c: &Value| (c["step"].as_u64().unwrap(), c["best"] == true, c["latest"] == true);
    assert_eq!(two.iter().map(of).collect::<Vec<_>>(), [(2, false, true), (1, true, false)]);
    fs::remove_dir_all(two[1]["uri"].as_str().unwrap()).unwrap();
    place.file("removed", "");
    assert_eq!(run.end().0, 0);

    let all = ls(&place, &["--all"]);
    let states: Vec<_> =
        all.iter().map(|c| (c["step"].as_u64().unwrap(), c["state"].as_str().unwrap())).collect();
    assert!(states.contains(&(1, "MISSING")), "{states:?}");
    // With the best gone, the next best is.
    let kept = ls(&place, &[]);
    assert_eq!(kept.iter().filter(|c| c["best"] == true).map(|c| &c["step"]).collect::<Vec<_>>(), [2]);
    assert_eq!(kept.iter().filter(|c| c["latest"] == true).map(|c| &c["step"]).collect::<Vec<_>>(), [4]);
    assert_eq!(whole(&place).len(), kept.len());
}

#[test]
fn a_broken_checkpoint_is_passed_over_at_no_cost() {
    let place = Place::new();
    let script = program(
        &place,
        r#"
if attempt == 0:
    hand(1, "the first")
    hand(2, "the second")
    sys.exit(3)
found = trainhead.get_checkpoint()
with found.as_directory() as d:
    text = (pathlib.Path(d) / "rank_0.txt").read_text()
(root / "went-on-from").write_text(f"{found.step}: {text}")
trainhead.report({"x": 1})
"#,
    );
    assert_eq!(run(&place, &[], &script).0, Some(3));
    let newest = ls(&place, &[])[0]["uri"].as_str().unwrap().to_owned();
    fs::write(PathBuf::from(&newest).join("rank_0.txt"), "the").unwrap();
    let verified = place.output(&["checkpoints", "verify", "c"]);
    assert_eq!(verified.status.code(), Some(1));
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(said.contains("rank_0.txt") && said.contains("step 1: whole"), "{said}");

    let out = place.run(&["--resume", "c", "--max-failures", "0"]);
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(place.left("went-on-from"), "1: the first");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("rank_0.txt") && told.contains("corrupt"), "{told}");
    let shown = place.show("c");
    assert_eq!(shown["num_failures"]["worker"], 1, "only that of the first attempt");
    assert_eq!(of_attempts(&shown, "end_reason"), ["worker_failed", "completed"]);
    let states: Vec<_> = ls(&place, &["--all"]).iter().map(|c| c["state"].clone()).collect();
    assert_eq!(states, [json!("CORRUPT"), json!("COMMITTED")]);
}

#[test]
fn a_controller_that_is_killed_leaves_nothing_that_looks_like_a_checkpoint() {
    let place = Place::new();
    let script = program(
        &place,
        r#"
if attempt == 0:
    d = root / "big"
    d.mkdir()
    for i in range(64):
        with open(d / f"{i}.bin", "wb") as f:
            f.write(os.urandom(1 << 16) * 256)
    (root / "handing").touch()
    trainhead.report({}, step=1, checkpoint=trainhead.Checkpoint.from_directory(d))
    (root / "too-quick").touch()
    time.sleep(60)
hand(5, "small")
"#,
    );
    let mut first = start(&place, &[], &script);
    place.await_files(&["handing"]);
    let id = place.show("c")["id"].as_str().unwrap().to_owned();
    let staging = place.data().join("runs").join(&id).join(".staging");
    wait_for("files on their way", || (!walk(&staging).is_empty()).then_some(()));
    first.kill().unwrap();
    first.wait().unwrap();
    if place.path("too-quick").exists() {
        // The machine was quicker than this test: there is nothing to look at.
        return;
    }
    assert_eq!(whole(&place), Vec::<PathBuf>::new());
    assert_eq!(ls(&place, &["--all"]).len(), 0);
    assert_eq!(place.run(&["--resume", "c"]).status.code(), Some(0));
    let dirs = whole(&place);
    assert_eq!(dirs.iter().map(|d| manifest(d)["step"].clone()).collect::<Vec<_>>(), [json!(5)]);
    assert_eq!(staged(&place), Vec::<PathBuf>::new());
}

#[test]
fn ranks_for_which_a_checkpoint_waits_are_named_and_may_end_the_group() {
    let place = Place::new();
    let script = program(
        &place,
        r#"
if rank == 0:
    hand(7, "alone")
time.sleep(60)
"#,
    );
    let limits = [
        "--workers",
        "2",
        "--collective-warn-interval",
        "0.2",
        "--collective-timeout",
        "1",
        "--grace-period",
        "1",
    ];
    let (code, told) = run(&place, &limits, &script);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("step 7") && told.contains("rank 1"), "{told}");
    let shown = place.show("c");
    assert_eq!(of_attempts(&shown, "end_reason"), ["hung"]);
    assert!(shown["status_detail"].as_str().unwrap().contains("step 7"), "{}", shown["status_detail"]);
}

#[test]
fn one_rank_s_checkpoint_is_whole_where_that_is_said_and_the_rest_is_by_the_book() {
    let place = Place::new();
    let script = program(
        &place,
        r#"
if rank == 0:
    with tempfile.TemporaryDirectory() as d:
        (pathlib.Path(d) / "model").mkdir()
        (pathlib.Path(d) / "model" / "weights").write_text("w")
        made = trainhead.Checkpoint.from_directory(d)
        trainhead.report({"loss": 0.5}, step=3, checkpoint=made, checkpoint_ranks=[0])
    listed = trainhead.get_all_reported_checkpoints()
    assert [c.step for c in listed] == [3], listed
    assert trainhead.get_checkpoint().step == 3
"#,
    );
    let result = place.path("result.json");
    let (code, told) = run(&place, &["--workers", "2", "--result-file", result.to_str().unwrap()], &script);
    assert_eq!(code, Some(0), "{told}");
    let result: Value = serde_json::from_slice(&fs::read(result).unwrap()).unwrap();
    assert_eq!(result["checkpoint"]["step"], 3);
    assert_eq!(result["metrics"]["loss"], 0.5);
    assert_eq!(result["best_checkpoints"][0]["ranks"], json!([0]));

    let out = place.path("copy");
    assert!(place.output(&["checkpoints", "get", "c", "best", out.to_str().unwrap()]).status.success());
    assert_eq!(fs::read_to_string(out.join("model/weights")).unwrap(), "w");
    assert!(place.output(&["checkpoints", "pin", "c", "latest"]).status.success());
    assert_eq!(ls(&place, &[])[0]["pinned"], true);
    let plan = place.output(&["checkpoints", "--plan", "c", "--keep", "1"]);
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(plan.contains("best, latest, pinned"), "{plan}");
    assert!(!place.output(&["checkpoints", "get", "c", "9", "nowhere"]).status.success());
}

#[test]
fn a_validation_ranks_checkpoints_anew_and_survives_its_controller() {
    let place = Place::new();
    let script = program(
        &place,
        r#"
if attempt == 0:
    for step, quality in [(1, 0.2), (2, 0.9), (3, 0.5)]:
        hand(step, str(quality))
    (root / "handed").touch()
    wait("never")
"#,
    );
    let root = place.root();
    // The second one waits until its controller is dead.
    let validate = place.file(
        "validate.sh",
        &format!(
            "q=$(cat $TRAINHEAD_CHECKPOINT/rank_0.txt)\ntouch {root}/validating.$q\n\
             [ $q = 0.2 ] || while [ ! -e {root}/go ]; do sleep 0.02; done\n\
             echo measuring\necho \"{{\\\"quality\\\": $q}}\"\n"
        ),
    );
    let validate = format!("sh {validate}");
    let options = ["--validate", &validate, "--keep-checkpoints", "1", "--checkpoint-score", "quality"];
    let mut first = start(&place, &options, &script);
    place.await_files(&["handed", "validating.0.9"]);
    let states =
        |of: &[Value]| of.iter().map(|c| c["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    wait_for("the first to be validated", || {
        (states(&ls(&place, &[])) == ["VALIDATING", "VALIDATING", "VALIDATED"]).then_some(())
    });
    first.kill().unwrap();
    first.wait().unwrap();
    place.file("go", "");
    assert_eq!(place.run(&["--resume", "c"]).status.code(), Some(0));
    let kept = ls(&place, &[]);
    assert_eq!(states(&kept), ["VALIDATED", "VALIDATED"]);
    let of = |c: &Value| {
        (c["step"].as_u64().unwrap(), c["metrics"]["quality"].as_f64().unwrap(), c["best"] == true)
    };
    assert_eq!(kept.iter().map(of).collect::<Vec<_>>(), [(3, 0.5, false), (2, 0.9, true)]);
}
