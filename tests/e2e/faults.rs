//! Random processes of a run are killed at random moments. Whatever was hit: the record comes to an end that makes sense,
//! and no process is left. `FAULTS=200` is the number of runs, `FAULTS_SEED` repeats what failed.

use std::{
    collections::BTreeMap,
    fs,
    process::Stdio,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fastrand::Rng;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    harness::{Guard, Place, Running, alive, http, processes_with, wait_for},
    procfs::children,
};

const MARK: &str = "TRAINHEAD_TEST_MARK";
const AT_ONCE: usize = 8;

/// Where the run has its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// In its controller.
    Embedded,
    /// In a process of its own, with the data directory of the run, which may become its own head.
    Serving,
    /// There, but named: the run waits for it.
    Named,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Controller,
    Agent,
    Head,
    Worker(Signal),
    /// Stopped, and continued later.
    Frozen,
}

/// A run, and what is done to it.
struct Sequence {
    seed: u64,
    rng: Rng,
    place: Place,
    mark: String,
    at: Where,
    head: Option<Running>,
    run: Guard,
    /// Failures of workers that are made good.
    allowed: u64,
    hit: Vec<(Target, Duration)>,
}

impl Sequence {
    fn begin(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let place = Place::new();
        let mark = format!("th-faults-{seed}-{}.", std::process::id());
        let at = [Where::Embedded, Where::Serving, Where::Named][rng.usize(..3)];
        let head = (at != Where::Embedded).then(|| place.serve_logging(&[], Stdio::null()));
        let allowed = rng.u64(..3);
        let (workers, failures) = (rng.u32(1..=3).to_string(), allowed.to_string());
        let mut args = vec!["run", "--port", "0", "--name", "r", "--grace-period", "1"];
        args.extend(["--workers", &workers, "--max-failures", &failures]);
        if let (Where::Named, Some(head)) = (at, &head) {
            args.extend(["--head", &head.url]);
        }
        // With a daemon, and an end of its own after a while.
        let script = format!(
            "(setsid sleep 30 &); i=0; while [ $i -lt {} ]; do sleep 0.1; i=$((i+1)); done",
            rng.u32(3..20)
        );
        args.extend(["--", "sh", "-c", &script]);
        let run = place
            .command(&args)
            .env(MARK, &mark)
            .stdout(Stdio::null())
            .stderr(fs::File::create(place.path("said")).unwrap())
            .spawn()
            .map(Guard)
            .unwrap();
        Self { seed, rng, place, mark, at, head, run, allowed, hit: Vec::new() }
    }

    /// Hits something up to three times, with pauses between.
    fn play(&mut self) {
        if self.rng.bool() {
            // Half of them when there are workers soon, or already.
            wait_for("the agent", || self.agent());
        }
        let begun = Instant::now();
        for _ in 0..self.rng.u32(1..=3) {
            self.pause(900);
            // Who kills the controller and the agent has killed all who could tidy up after the workers: no sequence
            // does both. Whose controller is gone has nothing left to hit.
            let is_hit = |target| self.hit.iter().any(|(hit, _)| *hit == target);
            if is_hit(Target::Controller) || (is_hit(Target::Head) && self.at == Where::Embedded) {
                return;
            }
            let target = match self.rng.u32(..6) {
                0 if !is_hit(Target::Agent) => Target::Controller,
                0 | 1 => Target::Agent,
                2 => Target::Head,
                3 => Target::Worker(Signal::KILL),
                4 => Target::Worker(Signal::TERM),
                _ => Target::Frozen,
            };
            let target = if (target, self.at) == (Target::Head, Where::Embedded) && is_hit(Target::Agent) {
                Target::Frozen
            } else {
                target
            };
            self.hit.push((target, begun.elapsed()));
            self.strike(target);
        }
    }

    /// The moment of the hit is what is tried here; nothing waits for it.
    fn pause(&mut self, most_ms: u64) {
        let until = Instant::now() + Duration::from_millis(self.rng.u64(..most_ms));
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            std::thread::park_timeout(left);
        }
    }

    fn strike(&mut self, target: Target) {
        match target {
            Target::Controller => hit(self.run.id(), Signal::KILL),
            Target::Head if self.at == Where::Embedded => hit(self.run.id(), Signal::KILL),
            Target::Head => self.kill_head(),
            Target::Agent => self.agent().into_iter().for_each(|agent| hit(agent, Signal::KILL)),
            Target::Worker(signal) => self.worker().into_iter().for_each(|worker| hit(worker, signal)),
            Target::Frozen => {
                if let Some(worker) = self.worker() {
                    hit(worker, Signal::STOP);
                    self.pause(300);
                    hit(worker, Signal::CONT);
                }
            }
        }
    }

    fn agent(&self) -> Option<u32> {
        children(self.run.id()).pop()
    }

    fn worker(&mut self) -> Option<u32> {
        let workers = children(self.agent()?);
        (!workers.is_empty()).then(|| workers[self.rng.usize(..workers.len())])
    }

    /// Kills the head and starts it again, unless the run is to become its own.
    fn kill_head(&mut self) {
        let Some(head) = &mut self.head else { return };
        let port = head.port();
        head.kill();
        self.head = None;
        if self.at == Where::Named {
            self.pause(500);
            let mut child =
                self.place.command(&["serve", "--port", &port]).stderr(Stdio::null()).spawn().unwrap();
            drop(child.stdout.take());
            let url = format!("http://127.0.0.1:{port}");
            wait_for("the head", || http(&url, "GET", "/healthz", None));
            self.head = Some(Running { child, url });
        }
    }

    /// Everything comes to its end, and what is on record makes sense. The answer is how it ended.
    fn check(mut self) -> String {
        let what = format!("seed {} ({:?}): {:?}", self.seed, self.at, self.hit);
        let exit = wait_for(&format!("{what}: the controller to end"), || self.run.try_wait().unwrap());
        wait_for(&format!("{what}: nothing to be left"), || {
            let left: Vec<u32> = processes_with(&self.mark).into_iter().filter(|pid| alive(*pid)).collect();
            left.is_empty().then_some(())
        });
        let head = match self.head.take() {
            Some(head) => head,
            None => self.place.serve_logging(&[], Stdio::null()),
        };
        let said = fs::read_to_string(self.place.path("said")).unwrap();
        let was_killed = |target| self.hit.iter().any(|(hit, _)| *hit == target);
        let controller_killed =
            was_killed(Target::Controller) || (self.at == Where::Embedded && was_killed(Target::Head));
        let Some(listed) = head.runs().pop() else {
            assert!(controller_killed, "{what}: nothing on record\n{said}");
            return "not on record".to_owned();
        };
        let path = format!("/api/train/runs/{}", listed["id"].as_str().unwrap());
        // At once, but for a lease that has to be found due.
        let run = wait_for(&format!("{what}: the end on record\n{said}"), || {
            Some(head.get(&path)).filter(|run| run["run_status"] != "STARTED")
        });
        let told = controller_killed || exit.success() == (run["run_status"] == "FINISHED");
        assert!(told, "{what}: {exit}\n{said}\n{run:#}");
        if let Err(wrong) = consistent(&run, controller_killed, self.allowed) {
            panic!("{what}: {wrong}\n{said}\n{run:#}");
        }
        let nodes = head.get("/api/train/nodes");
        assert_eq!(nodes["nodes"][0]["reservations"].as_array().map(Vec::len), Some(0), "{what}: {nodes}");
        run["run_status"].as_str().unwrap().to_owned()
    }
}

fn hit(pid: u32, signal: Signal) {
    // It may have ended by itself.
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

/// Whether a record of a run that has ended makes sense.
fn consistent(run: &Value, controller_killed: bool, allowed: u64) -> Result<(), String> {
    let ensure = |is: bool, what: &str| if is { Ok(()) } else { Err(what.to_owned()) };
    let status = run["run_status"].as_str().unwrap_or_default();
    let ended = |of: &Value| of["end_time_ms"].as_i64() >= of["start_time_ms"].as_i64();
    ensure(["FINISHED", "ERRORED", "ABORTED"].contains(&status), "no end")?;
    ensure(run["phase"] == status, "the phase is another")?;
    ensure(run["end_time_ms"].is_i64() && ended(run), "it ends before it begins")?;
    ensure(run["controller_actor_status"] == "DEAD", "its controller lives")?;
    ensure(status != "ABORTED" || controller_killed, "aborted, but nobody killed its controller")?;
    let attempts = run["attempts"].as_array().unwrap();
    let mut failed = 0;
    for (n, attempt) in attempts.iter().enumerate() {
        let (status, reason) = (attempt["status"].as_str().unwrap(), attempt["end_reason"].as_str());
        ensure(["FINISHED", "ERRORED", "ABORTED"].contains(&status), "a live attempt")?;
        ensure(reason.is_some() && ended(attempt), "an attempt without an end")?;
        ensure(attempt["ordinal"] == n, "attempts out of order")?;
        ensure(n + 1 == attempts.len() || status != "FINISHED", "an attempt after one that finished")?;
        for worker in attempt["workers"].as_array().unwrap() {
            ensure(worker["status"] == "DEAD" && !worker["exit"].is_null(), "a worker without an end")?;
        }
        failed += u64::from(matches!(reason, Some("worker_failed" | "hung")));
    }
    ensure(run["num_failures"]["worker"] == failed, "failures that are no attempt's")?;
    ensure(failed <= allowed + 1, "more failures than are allowed")?;
    ensure(status != "ERRORED" || failed == allowed + 1, "errored with failures left")?;
    ensure(status != "FINISHED" || failed <= allowed, "finished after too many failures")?;
    let last = attempts.last().map(|attempt| attempt["status"].as_str().unwrap());
    ensure(status != "FINISHED" || last == Some("FINISHED"), "finished without an attempt that has")
}

#[test]
fn whatever_is_killed_a_run_comes_to_an_end_that_makes_sense_and_leaves_nothing() {
    let count: u64 = std::env::var("FAULTS").map_or(40, |n| n.parse().unwrap());
    let first =
        std::env::var("FAULTS_SEED").map_or_else(|_| Rng::new().u64(..1 << 40), |n| n.parse().unwrap());
    eprintln!("seeds {first} to {}", first + count - 1);
    let next = AtomicU64::new(first);
    let ends: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let hits = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let mut sequence = Sequence::begin(seed);
                    sequence.play();
                    hits.fetch_add(sequence.hit.len(), Ordering::Relaxed);
                    let end = sequence.check();
                    *ends.lock().unwrap().entry(end).or_default() += 1;
                }
            });
        }
    });
    eprintln!("{} hits: {:?}", hits.load(Ordering::Relaxed), ends.lock().unwrap());
}
