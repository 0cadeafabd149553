//! Failures: the cause is named and not its consequences, what cannot work is not tried again, what hangs is ended.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    harness::{Place, of_attempts},
    small_memory::SmallMemory,
};

#[test]
fn the_first_failure_is_the_cause_and_its_peers_are_consequences() {
    let place = Place::new();
    let script = place.file(
        "t.py",
        &format!(
            "import os, signal, sys, time
os.chdir('{}')
rank = int(os.environ['RANK'])
def peer_gone(*_):
    time.sleep(0.02 * rank)
    raise RuntimeError('peer gone')
signal.signal(signal.SIGTERM, peer_gone)
open(f'there.{{rank}}', 'w')
def show(kind, error, trace):
    sys.__excepthook__(kind, error, trace)
    os._exit(3)
if rank == 2:
    sys.excepthook = show
    while not all(os.path.exists(f'there.{{r}}') for r in range(4)): time.sleep(0.01)
    print('loss', float('nan'))
    raise ValueError('no finite loss at step 17')
while True: time.sleep(0.05)
",
            place.root()
        ),
    );
    let run = place.start(&["--workers", "4", "--name", "f", "--", "python3", &script]);
    let (code, told) = run.end();
    assert_eq!(code, 3, "rank 2's");
    let shown = place.show("f");
    let failure = &shown["first_failure"];
    assert_eq!((&failure["rank"], &failure["exit_code"]), (&json!(2), &json!(3)));
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains("rank 2 exited with code 3"), "{message}");
    assert!(message.ends_with("ValueError: no finite loss at step 17"), "{message}");
    let tail: Vec<&str> = failure["log_tail"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(tail.first(), Some(&"loss nan"));
    assert_eq!(tail.last(), Some(&"ValueError: no finite loss at step 17"));
    let mut others: Vec<_> = failure["consequences"].as_array().unwrap().clone();
    others.sort_by_key(|other| other["rank"].as_u64());
    assert_eq!(others, [0, 1, 3].map(|rank| json!({"rank": rank, "exit_code": 1, "signal": null})));
    let last = told.trim_end().lines().last().unwrap();
    assert!(last.contains("ERRORED") && last.contains(message), "{told}");
    assert!(!last.contains("peer gone"));
}

#[test]
fn a_code_that_stands_for_a_signal_and_a_rank_s_own_word_are_understood() {
    let place = Place::new();
    let cases = [
        ("shell", "sh -c 'kill -9 $$'; exit $?", 137, "exited with code 137, as shells do for SIGKILL"),
        ("signal", "kill -9 $$", 137, "was killed by SIGKILL"),
        ("segv", "ulimit -c 0; kill -SEGV $$", 139, "was killed by SIGSEGV"),
        (
            "word",
            r#"echo '{"message": {"message": "KeyError: lr", "extraInfo": {"timestamp": "1"}}}' > $TORCHELASTIC_ERROR_FILE
               echo cleaning up; exit 4"#,
            4,
            "KeyError: lr",
        ),
    ];
    let runs = cases.map(|(name, script, code, says)| {
        (name, place.start(&["--name", name, "--", "sh", "-c", script]), code, says)
    });
    for (name, run, code, says) in runs {
        let (ended, told) = run.end();
        assert_eq!(ended, code, "{name}");
        let shown = place.show(name);
        let message = shown["first_failure"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{name}: {message}");
        assert!(told.contains(message), "{name}: {told}");
    }
}

#[test]
fn a_rank_that_the_kernel_kills_for_memory_is_reported_with_the_limit() {
    let Some(small) = SmallMemory::make("run", 192 << 20) else { return };
    let place = Place::new();
    let run = place.command(&["run", "--port", "0", "--name", "m", "--", "tail", "/dev/zero"]);
    let enter = "echo $$ > \"$0\" && exec \"$@\"";
    let out = Command::new("sh")
        .args(["-c", enter])
        .arg(small.procs())
        .arg(run.get_program())
        .args(run.get_args())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(137), "{told}");
    let message = place.show("m")["first_failure"]["message"].as_str().unwrap().to_owned();
    let says = format!("out of memory (limit 192 MiB of {})", small.path().display());
    assert!(message.contains("killed by SIGKILL") && message.contains(&says), "{message}");
    assert!(told.contains(&says), "{told}");
}

#[test]
fn what_can_never_start_fails_at_once_with_a_sentence_and_is_not_tried_again() {
    let place = Place::new();
    let plain = place.file("plain.sh", "#!/bin/sh\n");
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let cases: [(&str, &[&str], &str); 4] = [
        ("program", &["--", "no-such-program"], "no-such-program"),
        ("permission", &["--", &plain], "plain.sh may not be executed"),
        ("cwd", &["--cwd", "/no/such/place", "--", "true"], "/no/such/place"),
        ("gpus", &["--gpus-per-worker", "999", "--", "true"], "999"),
    ];
    let begun = Instant::now();
    let runs = cases.map(|(name, args, says)| {
        (name, place.start(&[&["--max-failures", "5", "--name", name], args].concat()), says)
    });
    for (name, run, says) in runs {
        let (code, told) = run.end();
        assert_ne!(code, 0, "{name}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{name}: {:?}", begun.elapsed());
        let shown = place.show(name);
        assert_eq!(shown["run_status"], "ERRORED", "{name}");
        let detail = shown["status_detail"].as_str().unwrap();
        assert!(detail.contains(says) && told.contains(detail), "{name}: {detail}");
        assert!(shown["num_attempts"].as_u64().unwrap() <= 1, "{name}: {shown}");
        assert_eq!(shown["num_failures"]["worker"], 0, "{name}");
    }
}

#[test]
fn a_rank_that_hangs_is_named_and_its_log_says_where_it_stands() {
    let place = Place::new();
    let script = place.python(
        "t.py",
        "import time
from session import report, rank
for step in range(100000):
    report(step)
    if rank == 1 and step == 3: time.sleep(1000)
    time.sleep(0.05)
",
    );
    let args = ["--workers", "2", "--hang-timeout", "2", "--name", "h", "--", "python3", &script];
    let (code, told) = place.start(&args).end();
    assert_eq!(code, 1);
    let shown = place.show("h");
    assert_eq!(shown["run_status"], "ERRORED");
    assert_eq!(of_attempts(&shown, "end_reason"), ["hung"]);
    assert_eq!(shown["first_failure"]["rank"], 1, "{shown}");
    let detail = shown["status_detail"].as_str().unwrap();
    assert!(detail.starts_with("rank 1 reported nothing for 2 s"), "{detail}");
    assert!(told.contains(detail), "{told}");
    let log = place.output(&["logs", "h", "--rank", "1"]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(log.contains("reports nothing; its stacks:") && log.contains("py-spy"), "{log}");
}

#[test]
fn ranks_that_run_on_too_long_after_another_has_ended_are_a_failure() {
    let place = Place::new();
    let args = ["--workers", "2", "--early-exit-timeout", "0.5", "--name", "e", "--", "sh", "-c"];
    let (code, _) = place.start(&[&args[..], &["[ $RANK = 0 ] || exec sleep 1000"]].concat()).end();
    assert_eq!(code, 1);
    let shown = place.show("e");
    assert_eq!(shown["run_status"], "ERRORED");
    let detail = shown["status_detail"].as_str().unwrap();
    assert!(detail.contains("rank 0 finished early") && detail.contains("rank 1 runs on"), "{detail}");
    assert_eq!(shown["workers"][1]["exit"]["signal"], "SIGTERM");
}
