//! Trials with real threads and real processes: whatever their driver does, nothing is lost and nothing hangs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;
use trainhead::{
    base::SystemClock,
    controller::{
        AgentGroup, Launch, Orphans, Reporting, Reset, Trial, TrialError, TrialOptions, TrialResult,
        TrialWorker, UploadMode, Usable, WorkerSession,
    },
    state::DataDir,
};

use crate::{
    closures::{Failure, Head},
    stage::{LIMIT, TRAINHEAD, kill, state_of},
};

struct Place {
    temp: TempDir,
}

impl Place {
    fn new() -> Self {
        // A unix socket's path has at most 107 bytes.
        Self { temp: tempfile::Builder::new().prefix("th-").tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn options(&self, reporting: Reporting) -> TrialOptions {
        let dir = DataDir::open(self.temp.path()).unwrap();
        TrialOptions {
            reporting,
            reuse_timeout: Duration::from_secs(5),
            grace: Duration::from_secs(2),
            ..TrialOptions::new(dir, Arc::new(SystemClock::new()))
        }
    }

    /// A worker that runs this Python program.
    fn process(&self, trial: Trial, program: &str, options: TrialOptions) -> TrialWorker<AgentGroup> {
        let script = self.path("train.py");
        fs::write(&script, program).unwrap();
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let env = [
            ("PYTHONPATH".to_owned(), python.display().to_string()),
            ("OUT".to_owned(), self.path("out").display().to_string()),
        ];
        let launch = Launch {
            command: vec!["python3".into(), script.display().to_string()],
            env: BTreeMap::from(env),
            cwd: self.temp.path().into(),
            data_dir: options.data_dir.clone(),
            log_max_bytes: None,
            session_socket: self.path("s"),
            agent: TRAINHEAD.into(),
            host: "here".into(),
            orphans: Orphans::Unknown,
        };
        TrialWorker::process(launch, trial, options).unwrap()
    }

    /// What the function has left behind.
    fn out(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("out")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn trial(name: &str, config: Value) -> Trial {
    let Value::Object(config) = config else { panic!("a config is an object") };
    Trial { name: name.into(), config, checkpoint: None }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("it hangs")
}

fn value(result: &TrialResult, key: &str) -> f64 {
    result.metrics[key].0
}

/// A plain script that does nothing but report, and leaves a line for each report before it makes it.
const PLAIN: &str = "
import os, trainhead
with open(os.environ['OUT'], 'a', buffering=1) as out:
    for i in range(100):
        out.write(f'{i}\\n')
        trainhead.report({'i': i})
";

/// One that hosts trials and does what each is configured to.
const HOST: &str = "
import os, time, trainhead

def train(config):
    context, checkpoint = trainhead.get_context(), trainhead.get_checkpoint()
    with open(os.environ['OUT'], 'a', buffering=1) as out:
        out.write(f'{context.trial} {checkpoint.path if checkpoint else None}\\n')
    for i in range(config.get('reports', 100)):
        trainhead.report({'i': i, 'lr': config.get('lr', 0)})
        if config.get('hangs'):
            time.sleep(1000)
    if config.get('fails'):
        raise ValueError('no such layer')
    return {'best': config.get('lr')}

trainhead.run_trials(train)
";

#[tokio::test]
async fn who_asks_for_five_results_of_a_hundred_gets_five_and_the_function_stands_still() {
    let place = Place::new();
    let options = place.options(Reporting::OnDemand);
    let mut worker = place.process(trial("t", json!({})), PLAIN, options);
    for i in 0..5 {
        let result = soon(worker.next_result()).await.unwrap().unwrap();
        assert_eq!((result.training_iteration, result.step, value(&result, "i")), (i + 1, i, i as f64));
        assert_eq!((result.by.rank, result.by.host.as_str(), result.by.pid), (0, "here", worker.pid()));
        assert!(result.time_total_s >= result.time_since_last_s && result.time_ms.as_ms() > 0);
        assert_eq!(place.out().len() as u64, i + 1, "it has not gone on");
    }
    let pid = worker.pid().unwrap();
    let end = soon(worker.close()).await;
    assert_eq!((end.code, end.report.forced), (Some(0), false), "{end:?}");
    assert_eq!(place.out(), ["0", "1", "2", "3", "4"], "and never did");
    assert_eq!(state_of(pid), None);
}

#[tokio::test]
async fn a_process_is_used_for_the_next_trial_at_once() {
    let place = Place::new();
    let checkpoint =
        Usable { number: 3, step: 7, attempt: 0, path: Some(place.path("from")), metrics: BTreeMap::new() };
    fs::create_dir(place.path("from")).unwrap();
    let options = place.options(Reporting::OnDemand);
    let mut worker = place.process(trial("t0", json!({"lr": 0})), HOST, options);
    assert_eq!(soon(worker.next_result()).await.unwrap().unwrap().trial, "t0");
    let pid = worker.pid();
    let mut took = Vec::new();
    for n in 1..10 {
        let mut next = trial(&format!("t{n}"), json!({"lr": n}));
        next.checkpoint = (n == 9).then(|| checkpoint.clone());
        let begun = Instant::now();
        assert_eq!(soon(worker.reset(next)).await.unwrap(), Reset::Reused);
        let result = soon(worker.next_result()).await.unwrap().unwrap();
        took.push(begun.elapsed());
        assert_eq!((result.trial.as_str(), value(&result, "lr")), (format!("t{n}").as_str(), f64::from(n)));
        assert_eq!((result.training_iteration, result.by.pid), (1, pid));
    }
    took.sort();
    println!("a reset up to the next trial's first result: {took:?}");
    assert!(took[4] < Duration::from_millis(50), "{took:?}");
    let end = soon(worker.close()).await;
    assert_eq!((end.code, end.report.forced), (Some(0), false));
    assert_eq!(place.out()[0], "t0 None");
    assert_eq!(place.out()[9], format!("t9 {}", place.path("from").display()));
}

#[tokio::test]
async fn a_function_that_does_not_let_go_costs_its_process() {
    let place = Place::new();
    let options =
        TrialOptions { reuse_timeout: Duration::from_millis(200), ..place.options(Reporting::OnDemand) };
    let mut worker = place.process(trial("t0", json!({"hangs": true})), HOST, options);
    soon(worker.next_result()).await.unwrap().unwrap();
    // Let go on by a driver that then has enough: it sleeps.
    assert!(timeout(Duration::from_millis(100), worker.next_result()).await.is_err());
    let pid = worker.pid().unwrap();
    assert_eq!(soon(worker.reset(trial("t1", json!({"lr": 1})))).await.unwrap(), Reset::Replaced);
    assert_eq!(state_of(pid), None, "nothing of it is left");
    let result = soon(worker.next_result()).await.unwrap().unwrap();
    assert_eq!(value(&result, "lr"), 1.0);
    assert_ne!(result.by.pid, Some(pid));
    assert_eq!(soon(worker.close()).await.code, Some(0));
}

#[tokio::test]
async fn results_come_before_the_error_and_the_process_goes_on() {
    let place = Place::new();
    let options = place.options(Reporting::OnDemand);
    let mut worker = place.process(trial("t0", json!({"reports": 2, "fails": true})), HOST, options);
    for i in 0..2 {
        assert_eq!(soon(worker.next_result()).await.unwrap().unwrap().step, i);
    }
    for _ in 0..2 {
        match soon(worker.next_result()).await {
            Err(TrialError::Raised { message, traceback }) => {
                assert_eq!(message, "ValueError: no such layer");
                assert!(traceback.unwrap().contains("in train"));
            }
            other => panic!("{other:?}"),
        }
    }
    let pid = worker.pid();
    assert_eq!(soon(worker.reset(trial("t1", json!({"reports": 1, "lr": 5})))).await.unwrap(), Reset::Reused);
    assert!(soon(worker.next_result()).await.unwrap().is_some());
    assert!(soon(worker.next_result()).await.unwrap().is_none());
    assert_eq!((worker.returned(), worker.pid()), (Some(json!({"best": 5})), pid));
    assert_eq!(soon(worker.close()).await.code, Some(0));
}

#[tokio::test]
async fn a_process_that_is_killed_is_an_error_of_its_trial_and_is_replaced() {
    let place = Place::new();
    let options = place.options(Reporting::OnDemand);
    let mut worker = place.process(trial("t0", json!({})), HOST, options);
    soon(worker.next_result()).await.unwrap().unwrap();
    kill(worker.pid().unwrap());
    // The one that it stood in may go on just before.
    let end = soon(async {
        loop {
            match worker.next_result().await {
                Ok(Some(_)) => {}
                end => break end,
            }
        }
    });
    assert!(matches!(end.await, Err(TrialError::Died(why)) if why.contains("SIGKILL")));
    assert_eq!(soon(worker.reset(trial("t1", json!({})))).await.unwrap(), Reset::Replaced);
    assert_eq!(soon(worker.next_result()).await.unwrap().unwrap().trial, "t1");
    assert_eq!(soon(worker.close()).await.code, Some(0));
}

#[tokio::test]
async fn a_function_whose_reports_are_ignored_runs_to_its_end() {
    let place = Place::new();
    let options = place.options(Reporting::OnDemand);
    let mut worker = place.process(trial("t0", json!({"lr": 2})), HOST, options);
    soon(worker.next_result()).await.unwrap().unwrap();
    worker.pause_reporting();
    assert!(soon(worker.next_result()).await.unwrap().is_none());
    assert_eq!(worker.returned(), Some(json!({"best": 2})));
    assert_eq!(soon(worker.close()).await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_does_not_let_go_is_left_and_its_reports_are_nobody_s() {
    let place = Place::new();
    let go = Arc::new(AtomicBool::new(false));
    let (late, told) = tokio::sync::mpsc::unbounded_channel();
    let free = Arc::clone(&go);
    let train = move |session: WorkerSession| -> Result<(), Failure> {
        if session.context().trial.as_deref() == Some("t0") {
            session.report(None, [("i", 0.0)])?;
            while !free.load(SeqCst) {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            let _ = late.send(session.report(None, [("i", 1.0)])?.stop);
        } else {
            session.report(None, [("i", 10.0)])?;
        }
        Ok(())
    };
    let options =
        TrialOptions { reuse_timeout: Duration::from_millis(50), ..place.options(Reporting::OnDemand) };
    let mut worker = TrialWorker::closure(train, trial("t0", json!({})), options).unwrap();
    soon(worker.next_result()).await.unwrap().unwrap();
    assert!(timeout(Duration::from_millis(20), worker.next_result()).await.is_err(), "it is let go on");
    assert_eq!(soon(worker.reset(trial("t1", json!({})))).await.unwrap(), Reset::Replaced);
    go.store(true, SeqCst);
    let mut told = told;
    assert_eq!(soon(told.recv()).await, Some(true), "it is told to leave");
    assert_eq!(value(&soon(worker.next_result()).await.unwrap().unwrap(), "i"), 10.0);
    assert!(soon(worker.next_result()).await.unwrap().is_none());
    soon(worker.close()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_goes_on_from_what_another_one_has_kept() {
    let place = Place::new();
    let work = place.path("work");
    fs::create_dir(&work).unwrap();
    let train = move |session: WorkerSession| -> Result<(), Failure> {
        let from = session.checkpoint()?;
        let start = match from.and_then(|c| c.path) {
            Some(path) => fs::read_to_string(path.join("epoch"))?.parse::<u32>()? + 1,
            None => 0,
        };
        for epoch in start.. {
            fs::write(work.join("epoch"), epoch.to_string())?;
            let metrics = [("epoch", f64::from(epoch))];
            if session.report_checkpoint(None, metrics, &work, UploadMode::Sync)?.stop {
                return Ok(());
            }
        }
        Ok(())
    };
    let options = place.options(Reporting::OnDemand);
    let mut worker = TrialWorker::closure(train, trial("t0", json!({})), options).unwrap();
    for epoch in 0..3 {
        let result = soon(worker.next_result()).await.unwrap().unwrap();
        assert_eq!((value(&result, "epoch"), result.has_checkpoint), (f64::from(epoch), true));
    }
    let checkpoint = soon(worker.checkpoint()).await.unwrap();
    assert_eq!(checkpoint.as_ref().map(|c| c.step), Some(2));
    let next = Trial { checkpoint, ..trial("t1", json!({})) };
    assert_eq!(soon(worker.reset(next)).await.unwrap(), Reset::Reused);
    let result = soon(worker.next_result()).await.unwrap().unwrap();
    assert_eq!((value(&result, "epoch"), result.step), (3.0, 3), "behind the checkpoint");
    assert!(soon(worker.close()).await.report.left.is_empty());
}

#[tokio::test]
async fn each_trial_is_a_run_of_its_own() {
    let (place, head) = (Place::new(), Head::new().await);
    let options = TrialOptions {
        recorded_by: Some(Arc::new(head.state.clone())),
        experiment: Some("sweep".into()),
        ..place.options(Reporting::OnDemand)
    };
    let mut worker = place.process(trial("t0", json!({"lr": 7})), HOST, options);
    let mut ids = vec![worker.run_id().clone()];
    for _ in 0..3 {
        soon(worker.next_result()).await.unwrap().unwrap();
    }
    let next = trial("t1", json!({"reports": 1, "fails": true}));
    assert_eq!(soon(worker.reset(next)).await.unwrap(), Reset::Reused);
    ids.push(worker.run_id().clone());
    soon(worker.next_result()).await.unwrap().unwrap();
    soon(worker.next_result()).await.unwrap_err();
    assert_eq!(soon(worker.reset(trial("t2", json!({"hangs": true})))).await.unwrap(), Reset::Reused);
    ids.push(worker.run_id().clone());
    soon(worker.next_result()).await.unwrap().unwrap();
    assert!(timeout(Duration::from_millis(50), worker.next_result()).await.is_err(), "it sleeps");
    assert_eq!(soon(worker.close()).await.code, None);
    let mut runs = Vec::new();
    for id in &ids {
        runs.push(serde_json::from_slice::<Value>(&head.state.run(id).await.unwrap()).unwrap());
    }
    let said = |run: &Value| {
        let end_reason = &run["attempts"][0]["end_reason"];
        json!([run["name"], run["experiment"], run["run_status"], end_reason, run["status_detail"]])
    };
    let hung = "its function did not end when it was stopped: its worker was ended";
    assert_eq!(said(&runs[0]), json!(["t0", "sweep", "FINISHED", "completed", null]));
    assert_eq!(
        said(&runs[1]),
        json!(["t1", "sweep", "ERRORED", "worker_failed", "ValueError: no such layer"])
    );
    assert_eq!(said(&runs[2]), json!(["t2", "sweep", "ABORTED", "stopped", hung]));
    assert_eq!(runs[1]["first_failure"]["message"], "ValueError: no such layer");
    let metrics = head.state.metrics(&ids[0]).await.unwrap();
    assert_eq!(metrics.metrics.iter().find(|m| m.key == "lr").unwrap().count, 3);
}

/// What a function does, and how it ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Well,
    Fails,
    Panics,
}

/// What a driver does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Next,
    /// Asks, and does not wait for the answer.
    Ask,
    Stop,
    Pause,
    Finish,
    Reset,
}

fn scripts() -> impl Strategy<Value = Vec<(u64, End, u64)>> {
    let end = prop_oneof![Just(End::Well), Just(End::Fails), Just(End::Panics)];
    proptest::collection::vec((0..6u64, end, 1..3u64), 8)
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => Just(Act::Next),
        2 => Just(Act::Ask),
        1 => Just(Act::Stop),
        1 => Just(Act::Pause),
        1 => Just(Act::Finish),
        2 => Just(Act::Reset),
    ];
    proptest::collection::vec(act, 0..20)
}

/// What is counted of one trial by its function.
#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    /// Reports whose answer let it go on.
    went_on: AtomicU64,
}

/// One function of a random script: so many reports by each of so many threads.
fn perform(session: &WorkerSession, counts: &Counts, (reports, _, threads): (u64, End, u64)) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..reports {
                    counts.begun.fetch_add(1, SeqCst);
                    if session.report(None, [("i", 1.0)]).unwrap().stop {
                        for _ in 0..3 {
                            assert!(
                                session.report(None, [("i", 1.0)]).unwrap().stop,
                                "nothing more is taken"
                            );
                        }
                        return;
                    }
                    counts.went_on.fetch_add(1, SeqCst);
                }
            });
        }
    });
}

/// What a driver has seen of one trial.
#[derive(Default)]
struct Seen {
    asked: u64,
    given: u64,
    /// It asked without waiting: the next result may be the answer to that.
    asks: bool,
    stopped: bool,
    paused: bool,
    ended: bool,
}

async fn drive(scripts: Vec<(u64, End, u64)>, acts: Vec<Act>, reporting: Reporting) {
    let place = Place::new();
    let counts: Arc<Vec<Counts>> = Arc::new(scripts.iter().map(|_| Counts::default()).collect());
    let (function, plan) = (Arc::clone(&counts), scripts.clone());
    let train = move |session: WorkerSession| -> Result<(), Failure> {
        let n: usize = session.context().trial.as_deref().unwrap().parse().unwrap();
        perform(&session, &function[n], plan[n]);
        match plan[n].1 {
            End::Well => Ok(()),
            End::Fails => Err("boom".into()),
            End::Panics => std::panic::resume_unwind(Box::new("boom")),
        }
    };
    let name = |n: usize| trial(&n.to_string(), json!({}));
    let mut worker = TrialWorker::closure(train, name(0), place.options(reporting)).unwrap();
    let (mut n, mut seen) = (0, Seen::default());
    for act in acts.into_iter().chain([Act::Next; 20]) {
        match act {
            Act::Next => {
                let next = soon(worker.next_result()).await;
                seen.asked += u64::from(!std::mem::take(&mut seen.asks));
                let (reports, end, threads) = scripts[n];
                match next {
                    Ok(Some(result)) => {
                        assert!(!seen.ended, "results come before the end");
                        seen.given += 1;
                        assert_eq!(result.training_iteration, seen.given, "in order, and none is lost");
                    }
                    how => {
                        seen.ended = true;
                        let (begun, went_on) = (&counts[n].begun, &counts[n].went_on);
                        let (begun, went_on) = (begun.load(SeqCst), went_on.load(SeqCst));
                        assert!(how.is_ok() || matches!(end, End::Fails | End::Panics), "{how:?}");
                        if !seen.stopped {
                            assert_eq!(how.is_err(), matches!(end, End::Fails | End::Panics));
                            assert_eq!(begun, reports * threads);
                        }
                        if !seen.paused {
                            assert!(
                                (went_on..=begun).contains(&seen.given),
                                "{went_on} {} {begun}",
                                seen.given
                            );
                        }
                    }
                }
                if reporting == Reporting::OnDemand && threads == 1 && !seen.paused {
                    assert!(counts[n].begun.load(SeqCst) <= seen.asked, "it stands still until it is asked");
                }
            }
            Act::Ask => {
                // Polled once: asked, and then dropped.
                let asked = timeout(Duration::ZERO, worker.next_result()).await;
                if let Ok(Ok(Some(result))) = asked {
                    seen.asked += u64::from(!std::mem::take(&mut seen.asks));
                    seen.given += 1;
                    assert_eq!(result.training_iteration, seen.given);
                } else if !std::mem::replace(&mut seen.asks, true) {
                    seen.asked += 1;
                }
            }
            Act::Stop => {
                worker.stop();
                seen.stopped = true;
            }
            Act::Pause => {
                worker.pause_reporting();
                seen.paused = true;
            }
            Act::Finish => {
                assert!(soon(worker.finish(LIMIT)).await);
                seen.stopped = true;
            }
            Act::Reset if n + 1 < scripts.len() => {
                assert_eq!(soon(worker.reset(name(n + 1))).await.unwrap(), Reset::Reused);
                (n, seen) = (n + 1, Seen::default());
            }
            Act::Reset => {}
        }
    }
    assert!(soon(worker.close()).await.report.left.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_driver_does_nothing_is_lost_and_nothing_hangs(
        scripts in scripts(),
        acts in acts(),
        on_demand in any::<bool>(),
    ) {
        let reporting = if on_demand { Reporting::OnDemand } else { Reporting::Immediate };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(drive(scripts, acts, reporting));
    }
}
