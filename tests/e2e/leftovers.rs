//! Nothing is left: no process, no thread, no descriptor, no port, whatever ends a run and however often.

use std::{
    process::Stdio,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    harness::{Guard, Place, Running, exists, processes_with, send, wait_for},
    procfs::{Holdings, children, zombies},
};

/// A variable that a controller hands on to all that it starts.
const MARK: &str = "TRAINHEAD_TEST_MARK";

fn mark(name: &str) -> String {
    format!("th-{name}-{}", std::process::id())
}

/// A worker that ignores every polite signal, with a daemon of the same mind: forked twice, in a session of its own.
const STUBBORN: &str = "
import os, signal, sys, time
for polite in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(polite, signal.SIG_IGN)
def stay(who):
    open(sys.argv[1] + who + os.environ['RANK'], 'w').close()
    while True:
        time.sleep(1)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stay('.daemon.')
    os._exit(0)
os.wait()
stay('.worker.')
";

#[test]
fn what_forks_twice_and_ignores_the_stop_signal_outlives_neither_a_stop_nor_its_controller() {
    let place = Place::new();
    let head = place.serve(&[]);
    let script = place.file("t.py", STUBBORN);
    for how in ["stopped", "killed"] {
        let mark = mark(how);
        let there = place.path(how);
        let args =
            ["run", "--workers", "2", "--grace-period", "0.3", "--name", how, "--", "python3", &script];
        let mut run = place
            .command(&args)
            .arg(&there)
            .env(MARK, &mark)
            .stdout(Stdio::null())
            .spawn()
            .map(Guard)
            .unwrap();
        for who in ["worker.0", "worker.1", "daemon.0", "daemon.1"] {
            wait_for(who, || exists(&place.path(&format!("{how}.{who}"))));
        }
        // Controller, agent, and two of each rank.
        assert_eq!(processes_with(&mark).len(), 6);
        // It is registered beside the start of its workers.
        wait_for("the record", || head.runs().into_iter().find(|run| run["name"] == how));
        if how == "stopped" {
            assert!(place.output(&["abort", how, "--wait"]).status.success());
            assert_eq!(run.wait().unwrap().code(), Some(130));
            assert_eq!(processes_with(&mark), [0u32; 0], "not when the run has ended");
        } else {
            run.kill().unwrap();
            let killed = Instant::now();
            run.wait().unwrap();
            wait_for("everything to be gone", || processes_with(&mark).is_empty().then_some(()));
            eprintln!("all gone {:?} after the controller was killed", killed.elapsed());
        }
    }
    assert!(head.runs().iter().all(|run| run["run_status"] == "ABORTED"));
}

#[test]
fn a_controller_killed_within_50_ms_of_starting_its_workers_leaves_nothing_100_times() {
    let place = Place::new();
    let head = place.serve(&[]);
    let slowest = Mutex::new(Duration::ZERO);
    each(100, 6, |round| {
        let gone_after = kill_while_starting(&place, round);
        let mut slowest = slowest.lock().unwrap();
        *slowest = gone_after.max(*slowest);
    });
    eprintln!("slowest end after the controller was killed: {:?}", slowest.lock().unwrap());
    let runs = head.get("/api/train/runs?page_size=1000")["train_runs"].as_array().unwrap().clone();
    assert!(!runs.is_empty());
    assert!(runs.iter().all(|run| run["run_status"] == "ABORTED"), "{runs:?}");
}

fn kill_while_starting(place: &Place, round: u64) -> Duration {
    let mark = mark(&format!("early-{round}."));
    let mut run = place
        .command(&["run", "--workers", "4", "--", "sh", "-c", "(setsid sleep 1000 &); exec sleep 1000"])
        .env(MARK, &mark)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Guard)
        .unwrap();
    // Half of them from the moment at which the agent is there, half from that of the first worker.
    let agent = wait_for("the agent", || children(run.id()).pop());
    if round % 2 == 1 {
        wait_for("a worker", || children(agent).pop());
    }
    let moment = Instant::now() + Duration::from_millis(round / 2);
    // The moment of the kill is what is tried here; nothing waits for it.
    while let Some(left) = moment.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
    send(run.id(), Signal::KILL);
    let killed = Instant::now();
    run.wait().unwrap();
    wait_for("everything to be gone", || processes_with(&mark).is_empty().then_some(()));
    killed.elapsed()
}

/// Calls `work` with 0 to `count` - 1, `at_once` at a time.
fn each(count: u64, at_once: usize, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    work(n);
                }
            });
        }
    });
}

/// 200 with `LEFTOVERS=200`.
#[test]
fn many_short_runs_leave_a_head_as_it_was() {
    let count = std::env::var("LEFTOVERS").map_or(64, |n| n.parse().unwrap());
    let place = Place::new();
    let head = place.serve(&[]);
    let mark = mark("many");
    // The head opens its connections to the store when they are needed: all 16 at once do that.
    short_runs(&place, &mark, 16);
    let before = settled(&head, |_| true);
    let begun = Instant::now();
    short_runs(&place, &mark, count);
    let took = begun.elapsed();
    assert_eq!(processes_with(&mark), [0u32; 0], "no process of any of them");
    assert_eq!((zombies(head.child.id()), children(head.child.id())), (vec![], vec![]));
    // Threads that block come and go: the runtime keeps an idle one for 10 s. Two of them, with what they have open, may
    // be at work at any moment: the sampler, and the look at the trail of events.
    let after = settled(&head, |now| {
        now.threads <= before.threads + 2
            && now.descriptors <= before.descriptors + 2
            && now.listening == before.listening
    });
    eprintln!("{count} runs of 1 s in {took:?}: before {before:?}, after {after:?}");
    let listed = head.get("/api/train/runs?page_size=1000");
    assert_eq!(listed["total_size"], count + 16);
    assert!(listed["train_runs"].as_array().unwrap().iter().all(|run| run["run_status"] == "FINISHED"));
}

fn short_runs(place: &Place, mark: &str, count: u64) {
    each(count, 16, |_| {
        let mut run = place
            .command(&["run", "--quiet", "--", "sleep", "1"])
            .env(MARK, mark)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map(Guard)
            .unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(0));
    });
}

/// What the head holds, once it is as wanted and its idle threads are gone.
fn settled(head: &Running, wanted: impl Fn(Holdings) -> bool) -> Holdings {
    let mut last = (Holdings::of(head.child.id()), Instant::now());
    wait_for("the head to hold no more than before", || {
        let now = Holdings::of(head.child.id());
        if now.threads != last.0.threads {
            last = (now, Instant::now());
        }
        (last.1.elapsed() > Duration::from_secs(2) && wanted(now)).then_some(now)
    })
}
