//! Preemption is not failure: workers save, the next attempt goes on from there, and the budgets are kept apart.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Place, of_attempts, send};

const SLURM: &[(&str, &str)] = &[("SLURM_JOB_ID", "77")];

/// A worker that counts how often it was saved by its TERM handler, and says where it goes on; `then` is what it does.
fn saving(place: &Place, then: &str) -> String {
    let text = format!(
        "cd {}
        saved=$(cat saved.$RANK || echo 0)
        echo $saved > from.$TRAINHEAD_ATTEMPT.$RANK
        trap 'echo $((saved+1)) > saved.$RANK; exit 0' TERM
        mv from.$TRAINHEAD_ATTEMPT.$RANK there.$TRAINHEAD_ATTEMPT.$RANK
        {then}
        while :; do sleep 0.02; done\n",
        place.root()
    );
    place.file("saving.sh", &text)
}

#[test]
fn preemptions_restart_freely_and_leave_the_budget_of_failures_alone() {
    let place = Place::new();
    let script = saving(&place, "[ $TRAINHEAD_ATTEMPT -ge 3 ] && exit 1");
    let run = place
        .start_with(&["--workers", "2", "--max-failures", "1", "--name", "p", "--", "sh", &script], SLURM);
    for attempt in 0..3 {
        place.await_files(&[&format!("there.{attempt}.0"), &format!("there.{attempt}.1")]);
        send(run.id(), Signal::TERM);
    }
    let (code, told) = run.end();
    assert_eq!(code, 1, "{told}");
    let shown = place.show("p");
    assert_eq!(shown["run_status"], "ERRORED");
    assert_eq!(shown["num_failures"], json!({"worker": 2, "preemption": 3, "controller": 0}));
    assert_eq!(
        of_attempts(&shown, "end_reason"),
        ["preempted", "preempted", "preempted", "worker_failed", "worker_failed"]
    );
    let detail = shown["attempts"][0]["status_detail"].as_str().unwrap();
    assert!(detail.contains("SIGTERM in Slurm job 77"), "{detail}");
    for (attempt, saved) in [(0, "0"), (1, "1"), (2, "2"), (3, "3")] {
        for rank in 0..2 {
            // Of an attempt that fails, only the first rank is sure to come so far.
            let from = place.left(&format!("there.{attempt}.{rank}"));
            assert!(from == saved || (attempt == 3 && from.is_empty()), "{attempt} {rank}: {from:?}");
        }
    }
}

#[test]
fn a_preempted_run_can_be_queued_again_and_goes_on() {
    let place = Place::new();
    let script = saving(&place, "[ $TRAINHEAD_ATTEMPT -ge 1 ] && exit 0");
    let args = ["--on-preemption", "requeue", "--name", "q", "--", "sh", &script];
    let run = place.start_with(&args, SLURM);
    place.await_files(&["there.0.0"]);
    send(run.id(), Signal::TERM);
    let (code, told) = run.end();
    let shown = place.show("q");
    let resume = format!("trainhead run --resume {}", shown["id"].as_str().unwrap());
    assert_eq!((code, &shown["run_status"]), (75, &json!("ABORTED")));
    assert!(shown["status_detail"].as_str().unwrap().contains(&resume), "{shown}");
    assert!(told.trim_end().lines().last().unwrap().contains(&resume), "{told}");
    let again = place.run(&["--resume", shown["id"].as_str().unwrap()]);
    assert_eq!(again.status.code(), Some(0));
    assert_eq!(place.left("there.1.0"), "1", "it goes on from what was saved");
    let shown = place.show("q");
    assert_eq!(of_attempts(&shown, "end_reason"), ["preempted", "completed"]);
    assert_eq!(shown["num_failures"]["preemption"], 1);
}

#[test]
fn a_budget_of_no_preemptions_is_used_up_by_the_first() {
    let place = Place::new();
    let script = saving(&place, "");
    let run = place.start_with(&["--max-preemptions", "0", "--name", "none", "--", "sh", &script], SLURM);
    place.await_files(&["there.0.0"]);
    send(run.id(), Signal::TERM);
    assert_eq!(run.end().0, 75);
    let shown = place.show("none");
    assert_eq!(shown["run_status"], "ERRORED");
    assert!(shown["status_detail"].as_str().unwrap().contains("preempted once, the limit is 0"), "{shown}");
    assert_eq!(place.left("saved.0"), "1", "its handler completed");
}

/// A worker that acts on notices by itself, with what it does in each step; a stop signal would be noted.
fn heeding(place: &Place, each_step: &str) -> String {
    let text = format!(
        r#"
import json, os, signal, sys, time
from session import ask, report, rank, attempt
os.chdir("{}")
def leave(name, text):
    open(name + ".part", "w").write(text)
    os.rename(name + ".part", name)
signal.signal(signal.SIGTERM, lambda *_: (leave(f"signalled.{{rank}}", ""), os._exit(9)))
if attempt > 0:
    sys.exit(0)
ask("GET", f"/context?rank={{rank}}&heeds_notices=true")
leave(f"heeds.{{rank}}", "")
while not os.path.exists(f"heeds.{{1 - rank}}"): time.sleep(0.01)
step = 0
while True:
    notice = report(step)["preemption"]
    if notice:
        leave(f"notice.{{rank}}", json.dumps(notice))
        if step == notice["checkpoint_at_step"]:
            leave(f"saved.{{rank}}", str(step))
            sys.exit(0)
{each_step}
    step += 1
    time.sleep(0.01 + 0.02 * rank)
"#,
        place.root()
    );
    place.python("heeding.py", &text)
}

/// Both ranks heard the same, saved the same step, and nobody was signalled.
fn one_decision(place: &Place, name: &str) -> Value {
    let [notice, other]: [Value; 2] =
        [0, 1].map(|rank| serde_json::from_str(&place.left(&format!("notice.{rank}"))).unwrap());
    assert_eq!(notice, other);
    assert_eq!(notice["reason"], "preemption");
    for rank in 0..2 {
        assert_eq!(place.left(&format!("saved.{rank}")), notice["checkpoint_at_step"].to_string());
        assert!(!place.path(&format!("signalled.{rank}")).exists(), "rank {rank} was signalled");
    }
    let shown = place.show(name);
    assert_eq!(of_attempts(&shown, "end_reason"), ["preempted", "completed"]);
    assert_eq!(shown["num_failures"], json!({"worker": 0, "preemption": 1, "controller": 0}));
    let ended = &shown["attempts"][0];
    assert_eq!(ended["stop_report"]["forced"], false);
    ended.clone()
}

#[test]
fn workers_that_heed_notices_save_at_one_step_and_leave_without_a_signal() {
    let place = Place::new();
    let script = heeding(&place, "    if step == 5: leave(f'there.{rank}', '')");
    let run = place.start_with(&["--workers", "2", "--name", "heed", "--", "python3", &script], SLURM);
    place.await_files(&["there.0", "there.1"]);
    send(run.id(), Signal::TERM);
    assert_eq!(run.end().0, 0);
    one_decision(&place, "heed");
}

#[test]
fn a_notice_that_workers_were_given_is_one_decision_for_all() {
    let place = Place::new();
    // Rank 1 knows first; rank 0 hears of it from the same place, some steps later.
    let script = heeding(
        &place,
        "    if step == (5 if rank else 8):
        ask('POST', '/preemption', {'rank': rank, 'reason': 'spot reclaim'})",
    );
    let run = place.start(&["--workers", "2", "--name", "told", "--", "python3", &script]);
    assert_eq!(run.end().0, 0);
    let ended = one_decision(&place, "told");
    let detail = ended["status_detail"].as_str().unwrap();
    assert!(detail.contains("was given a preemption notice: spot reclaim"), "{detail}");
}
