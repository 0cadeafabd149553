//! Random sequences of commands, with restarts between any two: every answer is the same before and after, and every run
//! is consistent.

use std::{sync::Arc, time::Duration};

use proptest::{prelude::*, test_runner::TestCaseError};
use serde_json::{Value, json};
use tempfile::TempDir;
use trainhead::{
    base::{ActorId, AttemptId, ManualClock, RunId, Secret, Timestamp},
    model::{
        commands::{Heartbeat, RegisterRun, StopRun},
        series::{AttemptChoice, Axis, Mode, SeriesRequest, Span},
        verbs::RunVerb,
    },
    state::{DataDir, Include, ListQuery, Shelf, StateHandle, StateOptions, StateTask, start},
};

#[derive(Clone, Debug)]
enum Op {
    Register(usize, bool),
    Resume(usize),
    State(usize, &'static str),
    Begin(usize, u32),
    Running(usize, u32),
    Exit(usize, u32),
    EndAttempt(usize, &'static str, &'static str),
    Report(usize, u64, u64),
    Heartbeat(usize),
    Stop(usize),
    End(usize, &'static str),
    Annotate(usize, u8),
    Trash(usize),
    Restore(usize),
    Clear,
    Pass(u64),
    Restart,
}

const RUNS: usize = 3;

fn ops() -> impl Strategy<Value = Op> {
    let run = 0..RUNS;
    let state =
        prop::sample::select(vec!["INITIALIZING", "SCHEDULING", "RUNNING", "RESTARTING", "SHUTTING_DOWN"]);
    let end = prop::sample::select(vec!["FINISHED", "ERRORED", "ABORTED"]);
    let reason = prop::sample::select(vec!["completed", "worker_failed", "preempted", "start_failed"]);
    prop_oneof![
        3 => (run.clone(), any::<bool>()).prop_map(|(r, t)| Op::Register(r, t)),
        1 => run.clone().prop_map(Op::Resume),
        2 => (run.clone(), state).prop_map(|(r, s)| Op::State(r, s)),
        3 => (run.clone(), 1..3u32).prop_map(|(r, n)| Op::Begin(r, n)),
        3 => (run.clone(), 1..3u32).prop_map(|(r, n)| Op::Running(r, n)),
        2 => (run.clone(), 0..3u32).prop_map(|(r, n)| Op::Exit(r, n)),
        2 => (run.clone(), end.clone(), reason).prop_map(|(r, s, e)| Op::EndAttempt(r, s, e)),
        3 => (run.clone(), 1..6u64, 0..20u64).prop_map(|(r, q, s)| Op::Report(r, q, s)),
        2 => run.clone().prop_map(Op::Heartbeat),
        1 => run.clone().prop_map(Op::Stop),
        1 => (run.clone(), end).prop_map(|(r, s)| Op::End(r, s)),
        1 => (run.clone(), any::<u8>()).prop_map(|(r, n)| Op::Annotate(r, n)),
        2 => run.clone().prop_map(Op::Trash),
        1 => run.clone().prop_map(Op::Restore),
        1 => Just(Op::Clear),
        3 => (1..20u64).prop_map(Op::Pass),
        1 => Just(Op::Restart),
    ]
}

struct World {
    clock: Arc<ManualClock>,
    dir: TempDir,
    state: StateHandle,
    task: StateTask,
    tokens: [Option<Secret>; RUNS],
    attempts: [u32; RUNS],
}

impl World {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_ms(1_800_000_000_000)));
        // In memory where there is such a place: this is about what is written, not about when the disk has it.
        let shm = std::path::Path::new("/dev/shm");
        let dir = if shm.is_dir() { TempDir::new_in(shm) } else { TempDir::new() }.unwrap();
        let (state, task) = open(&dir, &clock).await;
        Self { clock, dir, state, task, tokens: Default::default(), attempts: [0; RUNS] }
    }

    /// Everything that anybody can see.
    async fn seen(&self) -> Value {
        let mut shelves = Vec::new();
        for (shelf, sort) in
            [(Shelf::Runs, "-start_time"), (Shelf::Runs, "-duration"), (Shelf::Trash, "name")]
        {
            let query = ListQuery { shelf, sort: sort.parse().unwrap(), ..ListQuery::default() };
            let include = Include { metrics: vec!["*".into()], ..Include::default() };
            let json = self.state.list(&query, &include).await.unwrap();
            let mut list: Value = serde_json::from_slice(&json).unwrap();
            list["server_time_ms"] = Value::Null;
            shelves.push(list);
        }
        let mut runs = Vec::new();
        for run in [&shelves[0], &shelves[2]].iter().flat_map(|list| list["train_runs"].as_array().unwrap()) {
            let id = RunId::parse(run["id"].as_str().unwrap()).unwrap();
            let mut one: Value = serde_json::from_slice(&self.state.run(&id).await.unwrap()).unwrap();
            // The lease starts anew with the head.
            one["evidence"]["contact"]["lease_expires_ms"] = Value::Null;
            let events = self.state.events(&id, 0, 1000).await.unwrap();
            let request = SeriesRequest {
                keys: vec!["loss".into()],
                rank: None,
                attempt: AttemptChoice::All,
                span: Span::ALL,
                max_points: 1000,
                mode: Mode::Minmax,
                axis: Axis::Step,
                since: None,
            };
            let series = self.state.series(&id, &request).await.unwrap().series;
            for (field, listed) in run.as_object().unwrap() {
                assert_eq!(listed, &one[field], "the list and the run disagree about {field}");
            }
            runs.push(json!({"run": one, "events": events, "series": series}));
        }
        let records = self.state.record_page(1000, None).await.unwrap().records;
        records.iter().for_each(|record| record.check_invariants().unwrap());
        let mut nodes = serde_json::to_value(self.state.nodes().await.unwrap()).unwrap();
        nodes.as_array_mut().unwrap().iter_mut().for_each(|node| node["devices"] = Value::Null);
        self.check_ledger(&nodes, &runs);
        json!({"shelves": shelves, "runs": runs, "nodes": nodes})
    }

    /// What is reserved is what the live attempts have, to the last slot.
    fn check_ledger(&self, nodes: &Value, runs: &[Value]) {
        let live = |attempt: &&Value| attempt["end_time_ms"].is_null();
        let attempts = runs.iter().flat_map(|run| run["run"]["attempts"].as_array().unwrap());
        let slots: usize = attempts.filter(live).map(|a| a["reservation"].as_array().unwrap().len()).sum();
        let own = nodes.as_array().unwrap().iter().find(|node| node["is_head"] == true).unwrap();
        let reserved = own["reserved"].get("CPU").and_then(Value::as_f64).unwrap_or(0.0);
        assert_eq!(reserved as usize, slots, "{own}");
    }

    async fn say(&self, run: usize, verb: RunVerb) {
        if let Some(token) = &self.tokens[run] {
            // Refused or not: both are answers.
            let _ = self.state.say(&id(run), token, verb).await;
        }
    }

    async fn apply(mut self, op: Op) -> Result<Self, TestCaseError> {
        let attempt = |world: &Self, run: usize| {
            AttemptId::parse(&format!("{}-a{}", id(run), world.attempts[run].saturating_sub(1))).unwrap()
        };
        match op {
            Op::Register(run, takeover) => {
                let actor = if takeover { "another" } else { "first" };
                let mut body = RegisterRun::by(ActorId::parse(actor).unwrap());
                (body.id, body.takeover) = (Some(id(run)), takeover);
                if let Ok((registration, _)) = self.state.register(body).await {
                    self.tokens[run] = Some(registration.token);
                }
            }
            Op::Resume(run) => {
                let mut body = RegisterRun::by(ActorId::parse("another").unwrap());
                (body.id, body.resume) = (Some(id(run)), true);
                body.settings = from(json!({"life": self.attempts[run]}));
                if let Ok((registration, _)) = self.state.register(body).await {
                    self.tokens[run] = Some(registration.token);
                }
            }
            Op::State(run, state) => self.say(run, RunVerb::SetState(from(json!({"state": state})))).await,
            Op::Begin(run, n) => {
                self.attempts[run] += 1;
                // Two runs with two workers each do not fit; but one of them begins with one.
                let min = if run == 0 { 1 } else { n };
                let body = json!({"attempt_id": attempt(&self, run), "num_workers": n, "min_workers": min,
                    "resources_per_worker": {"CPU": 1}});
                self.say(run, RunVerb::BeginAttempt(from(body))).await;
            }
            Op::Running(run, n) => {
                let worker =
                    |r| json!({"actor_id": format!("w{r}"), "world_rank": r, "node_id": "h", "node_ip": "i"});
                let workers: Vec<Value> = (0..n).map(worker).collect();
                let body = json!({"workers": workers, "master_address": format!("127.0.0.1:{n}")});
                let verb = RunVerb::AttemptRunning(attempt(&self, run), from(body));
                self.say(run, verb).await;
            }
            Op::Exit(run, rank) => {
                let workers = json!({"workers": [{"world_rank": rank, "status": "DEAD"}]});
                self.say(run, RunVerb::ChangeWorkers(attempt(&self, run), from(workers))).await;
            }
            Op::EndAttempt(run, status, reason) => {
                let report = json!({"processes_ended": [run], "forced": status == "ABORTED", "left": []});
                let body = json!({"status": status, "end_reason": reason, "stop_report": report});
                self.say(run, RunVerb::EndAttempt(attempt(&self, run), from(body))).await;
            }
            Op::Report(run, seq, step) => {
                if let Some(token) = &self.tokens[run] {
                    let batch = json!({"writer": "w", "seq": seq, "reports": [{"step": step, "metrics": {"loss": seq}}]});
                    let _ = self.state.report(&id(run), token, from(batch)).await;
                }
            }
            Op::Heartbeat(run) => {
                if let Some(token) = self.tokens[run].clone() {
                    let beat = Heartbeat {
                        run_id: id(run),
                        controller_token: token,
                        time_ms: None,
                        progress: None,
                        demand: None,
                    };
                    self.state.heartbeats(vec![beat]).await.unwrap();
                }
            }
            Op::Stop(run) => drop(self.state.request_stop(&id(run), StopRun::default()).await),
            Op::End(run, status) => self.say(run, RunVerb::End(from(json!({"run_status": status})))).await,
            Op::Annotate(run, n) => {
                let body = json!({"name": format!("name {n}"), "tags": {format!("k{}", n % 3): (n > 99).then_some("v")}});
                drop(self.state.annotate(&id(run), from(body)).await);
            }
            Op::Trash(run) => drop(self.state.trash(&id(run)).await),
            Op::Restore(run) => drop(self.state.restore(&id(run)).await),
            Op::Clear => {
                let rule = from(json!({"purge": true, "trash_for_ms": 0}));
                self.state.collect_garbage(rule).await.unwrap();
            }
            Op::Pass(seconds) => {
                for _ in 0..seconds {
                    self.clock.advance(Duration::from_secs(2));
                    self.state.reconcile().await.unwrap();
                }
            }
            Op::Restart => return self.restart().await,
        }
        Ok(self)
    }

    async fn restart(self) -> Result<Self, TestCaseError> {
        let before = self.seen().await;
        let Self { clock, dir, state, task, tokens, attempts } = self;
        drop(state);
        prop_assert!(task.shutdown(Duration::from_secs(10)).await);
        let (state, task) = open(&dir, &clock).await;
        let world = Self { clock, dir, state, task, tokens, attempts };
        let after = world.seen().await;
        prop_assert_eq!(before, after, "what is on disk is not what was in memory");
        Ok(world)
    }
}

fn id(run: usize) -> RunId {
    RunId::parse(&format!("r{run}")).unwrap()
}

fn from<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

async fn open(dir: &TempDir, clock: &Arc<ManualClock>) -> (StateHandle, StateTask) {
    let data_dir = DataDir::open(dir.path()).unwrap();
    let lock = data_dir.try_lock().unwrap().unwrap();
    let node = from(json!({"node_id": "head", "node_ip": "127.0.0.1", "resources": {"CPU": 3}}));
    start(StateOptions { clock: clock.clone(), node, ..StateOptions::new(data_dir, lock) }).await.unwrap()
}

/// 200 in each run of the tests; `SEQUENCES=3000` for a long one.
fn cases() -> u32 {
    std::env::var("SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn disk_and_memory_agree_over_any_sequence(sequence in prop::collection::vec(ops(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for op in sequence {
                world = world.apply(op).await?;
            }
            world.restart().await.map(drop)
        })?;
    }
}
