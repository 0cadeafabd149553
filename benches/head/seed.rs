//! Filling a head through its API, with runs that look like real ones.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use trainhead::model::ProcessIdentity;

use crate::{
    load::Connection,
    points::{Reports, Shape, Values},
    server::Server,
};

const CLIENTS: usize = 128;
/// Runs of a mixed store that still run, its oldest.
pub(crate) const LIVE: usize = 10;
/// Between the starts of two runs.
const APART_MS: u64 = 60_000;
const MODELS: [&str; 5] = ["resnet50", "vit-b16", "bert-base", "gpt2-small", "unet"];
const TEAMS: [&str; 5] = ["vision", "text", "speech", "robots", "maps"];
/// In the name of one run.
pub(crate) const RARE: &str = "quokka";
/// In the names of all.
pub(crate) const COMMON: &str = "sweep";
/// In no run.
pub(crate) const ABSENT: &str = "no-such-run";
/// The run with two attempts of eight workers.
pub(crate) const ONE: &str = "bench-one";

/// What is needed of the answer to a registration.
#[derive(Deserialize)]
pub(crate) struct Registered {
    pub(crate) run: RegisteredRun,
    pub(crate) controller_token: String,
}

#[derive(Deserialize)]
pub(crate) struct RegisteredRun {
    pub(crate) id: String,
}

/// The body of a registration, of the size that real ones have.
pub(crate) fn registration(name: &str, lease: Duration) -> Value {
    json!({
        "name": name,
        "job_id": "slurm-4711",
        "experiment": "imagenet-baselines",
        "controller": {"actor_id": "controller-0190b8c2", "lease_ttl_ms": lease.as_millis()},
        "start_time_ms": null,
        "settings": {
            "entrypoint": ["python3", "train.py", "--config", "configs/resnet50.yaml", "--seed", "17"],
            "cwd": "/home/someone/projects/imagenet",
            "num_workers": 4,
            "scaling": {"min_workers": 2, "max_workers": 8, "elastic": true},
            "failure_policy": {"max_failures": 3, "max_controller_failures": 1, "backoff_ms": 2000},
            "checkpoints": {"num_to_keep": 2, "score": "eval/accuracy", "order": "max",
                "uri": "file:///data/checkpoints/imagenet-baselines"},
            "model": {"name": "resnet50", "width": 1.0, "dropout": 0.1, "pretrained": false},
            "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.0001,
                "schedule": {"name": "cosine", "warmup_steps": 5000, "total_steps": 450_000}},
            "data": {"batch_size": 256, "loader_workers": 8, "shuffle": true, "augment": ["crop", "flip", "mixup"]},
            "environment": ["CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "OMP_NUM_THREADS", "WANDB_MODE"],
        },
        "datasets": [
            {"name": "train", "dataset_name": "imagenet-1k", "dataset_uuid": "ds-5f0c2d1a9b7e"},
            {"name": "eval", "dataset_name": "imagenet-1k-val", "dataset_uuid": "ds-91ab33c04d12"},
        ],
        "framework_versions": {"torch": "2.6.0", "python": "3.12.4", "cuda": "12.4"},
        "tags": {"team": "vision", "git": "0b55076", "purpose": "baseline"},
    })
}

/// The time of the machine, ms.
pub(crate) fn now_ms() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis().try_into()?)
}

/// Which runs to make.
pub(crate) struct Plan {
    /// How many.
    pub(crate) runs: usize,
    /// How many of them, the oldest, still run: the page of newest runs then is the same however many live, and the
    /// live ones stand behind all others.
    pub(crate) live: usize,
    /// When the newest started; each other one a minute before the next.
    pub(crate) newest_ms: u64,
    /// The process of all their controllers.
    pub(crate) process: Option<ProcessIdentity>,
}

impl Plan {
    /// What stores are made of unless a section says otherwise: of twenty runs sixteen FINISHED, three ERRORED, one
    /// ABORTED; ten runs, the oldest, are STARTED. One in five has a metric.
    pub(crate) fn mixed(runs: usize) -> anyhow::Result<Self> {
        Ok(Self { runs, live: LIVE, newest_ms: now_ms()? - 1000, process: None })
    }

    /// When run `i` of the plan started.
    fn start_ms(&self, i: usize) -> anyhow::Result<u64> {
        Ok(self.newest_ms - u64::try_from(self.runs - 1 - i)? * APART_MS)
    }

    fn body(&self, i: usize, chance: usize) -> anyhow::Result<Value> {
        let model = MODELS[chance % MODELS.len()];
        let word = if i == self.runs / 2 { RARE } else { "base" };
        let mut body = registration(&format!("{model}-{COMMON}-{word}-{i:06}"), Duration::from_secs(3600));
        body["start_time_ms"] = self.start_ms(i)?.into();
        body["job_id"] = format!("slurm-{}", i / 4).into();
        body["experiment"] = format!("{model}-{:02}", chance / 64 % 4).into();
        body["settings"]["model"]["name"] = model.into();
        body["tags"]["team"] = TEAMS[chance / 8 % TEAMS.len()].into();
        body["tags"]["git"] = format!("{:07x}", chance % 0x0fff_ffff).into();
        body["controller"]["process"] = serde_json::to_value(&self.process)?;
        Ok(body)
    }

    /// Makes run `i`; by how many requests.
    async fn make(&self, connection: &mut Connection, i: usize) -> anyhow::Result<u64> {
        let chance = scattered(i);
        let mut run = Run::register(connection, &self.body(i, chance)?).await?;
        run.attempt("a0", 2).await?;
        if i < self.live {
            return Ok(run.requests);
        }
        if chance.is_multiple_of(5) {
            let loss = json!(format!("{}.{:04}", chance % 3, chance % 10_000).parse::<f64>()?);
            let metrics = json!({"loss": loss, "eval/accuracy": 0.5, "lr": 0.1});
            let report = json!({"step": 1000, "metrics": metrics});
            run.say("/reports", &json!({"writer": "w", "seq": 1, "reports": [report]})).await?;
        }
        let (status, detail) = match i % 20 {
            0..16 => ("FINISHED", None),
            16..19 => {
                ("ERRORED", Some("rank 1 on node-17 was ended by SIGKILL; nothing else failed before it"))
            }
            _ => ("ABORTED", Some("stopped by a user")),
        };
        let minutes = u64::try_from(chance % 360)?;
        let end_ms = (self.start_ms(i)? + minutes * 60_000).min(now_ms()?);
        run.say("/end", &json!({"run_status": status, "status_detail": detail, "end_time_ms": end_ms}))
            .await?;
        Ok(run.requests)
    }
}

/// Makes the runs of a plan, many at a time. Returns how many requests that took.
pub(crate) async fn fill(head: &Server, plan: Plan) -> anyhow::Result<u64> {
    let (plan, next, requests) = (Arc::new(plan), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut connection = head.connect().await?;
        let (plan, next, requests) = (Arc::clone(&plan), Arc::clone(&next), Arc::clone(&requests));
        clients.spawn(async move {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= plan.runs {
                    return anyhow::Ok(());
                }
                requests.fetch_add(plan.make(&mut connection, i).await?, Ordering::Relaxed);
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(requests.load(Ordering::Relaxed))
}

/// Makes the run with two attempts of eight workers; by how many requests.
pub(crate) async fn make_one(head: &Server) -> anyhow::Result<u64> {
    let mut connection = head.connect().await?;
    let mut body = registration(ONE, Duration::from_secs(3600));
    body["id"] = ONE.into();
    // Older than all others, so that it is on no page that is measured.
    body["start_time_ms"] = 1_000_000_000_000_u64.into();
    let mut run = Run::register(&mut connection, &body).await?;
    run.attempt("a0", 8).await?;
    let failed = json!({"status": "ERRORED", "end_reason": "worker_failed", "status_detail": "rank 3 ended with code 1"});
    run.say("/attempts/a0/end", &failed).await?;
    run.attempt("a1", 8).await?;
    run.say("/end", &json!({"run_status": "FINISHED"})).await?;
    Ok(run.requests)
}

/// A run, seen from its controller.
pub(crate) struct Run<'a> {
    connection: &'a mut Connection,
    path: String,
    token: String,
    requests: u64,
}

impl<'a> Run<'a> {
    pub(crate) async fn register(connection: &'a mut Connection, body: &Value) -> anyhow::Result<Self> {
        let answer = connection.post("/api/train/runs", None, body.to_string().as_bytes()).await?;
        let Registered { run, controller_token } = serde_json::from_slice(&answer.body)?;
        let path = format!("/api/train/runs/{}", run.id);
        Ok(Self { connection, path, token: controller_token, requests: 1 })
    }

    /// A run of this id with one worker, to report metrics of.
    pub(crate) async fn begin(connection: &'a mut Connection, id: &str) -> anyhow::Result<Self> {
        let mut body = registration(id, Duration::from_secs(3600));
        body["id"] = id.into();
        let mut run = Self::register(connection, &body).await?;
        run.attempt("a0", 1).await?;
        Ok(run)
    }

    /// Its reports.
    pub(crate) fn reports(&self, shape: Shape, values: &Arc<Values>, chance: u64) -> anyhow::Result<Reports> {
        let path = format!("{}/reports", self.path);
        Reports::new(self.connection.address, &path, &self.token, shape, values, chance)
    }

    /// The good answer to a request.
    pub(crate) async fn send(&mut self, request: &[u8]) -> anyhow::Result<Vec<u8>> {
        self.requests += 1;
        Ok(self.connection.answer(request).await?.body)
    }

    /// Sends as many requests of reports.
    pub(crate) async fn report(&mut self, reports: &mut Reports, times: usize) -> anyhow::Result<()> {
        for _ in 0..times {
            self.send(reports.next()?).await?;
        }
        Ok(())
    }

    /// Ends it well; by how many requests it was made.
    pub(crate) async fn finish(mut self) -> anyhow::Result<u64> {
        self.say("/end", &json!({"run_status": "FINISHED"})).await?;
        Ok(self.requests)
    }

    async fn say(&mut self, verb: &str, body: &Value) -> anyhow::Result<()> {
        let path = format!("{}{verb}", self.path);
        self.connection.post(&path, Some(&self.token), body.to_string().as_bytes()).await?;
        self.requests += 1;
        Ok(())
    }

    /// Begins an attempt and has its workers run.
    async fn attempt(&mut self, id: &str, workers: u32) -> anyhow::Result<()> {
        self.say("/attempts", &json!({"attempt_id": id, "num_workers": workers})).await?;
        let workers: Vec<Value> = (0..workers)
            .map(|rank| {
                json!({"actor_id": format!("w-{id}-{rank}"), "world_rank": rank, "local_rank": rank, "node_rank": 0,
                    "node_id": "node-17", "node_ip": "10.0.3.17", "pid": 40_000 + rank,
                    "gpu_ids": [rank.to_string()], "resources": {"CPU": 8, "GPU": 1}})
            })
            .collect();
        self.say(&format!("/attempts/{id}/running"), &json!({"workers": workers})).await
    }
}

/// A number that seems to have nothing to do with `i`, the same each time.
fn scattered(i: usize) -> usize {
    let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}
