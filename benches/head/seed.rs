//! Filling a head through its API, with runs that look like real ones.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::{load::Connection, server::Server};

const CLIENTS: usize = 64;

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
pub(crate) fn registration(name: &str, start_time_ms: Option<u128>, lease: Duration) -> Vec<u8> {
    let body = json!({
        "name": name,
        "job_id": "slurm-4711",
        "experiment": "imagenet-baselines",
        "controller": {"actor_id": "controller-0190b8c2", "lease_ttl_ms": lease.as_millis()},
        "start_time_ms": start_time_ms,
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
    });
    body.to_string().into_bytes()
}

/// Makes `runs` runs of which the `live` oldest still run: the page of newest runs then is the same however many live,
/// and the live ones stand behind all others. Returns how long that took.
pub(crate) async fn fill(head: &Server, runs: usize, live: usize) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut connection, next) = (head.connect().await?, Arc::clone(&next));
        clients.spawn(async move {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= runs {
                    return anyhow::Ok(());
                }
                // A second between starts, the last one a second ago.
                let start = now.saturating_sub(u128::try_from(runs - i)? * 1000);
                make(&mut connection, i, start, i < live).await?;
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(begun.elapsed())
}

async fn make(connection: &mut Connection, i: usize, start: u128, lives: bool) -> anyhow::Result<()> {
    let name = format!("resnet50-sweep-{i:06}");
    let body = registration(&name, Some(start), Duration::from_secs(3600));
    let answer = connection.post("/api/train/runs", None, &body).await?;
    let Registered { run, controller_token } = serde_json::from_slice(&answer.body)?;
    let (path, token) = (format!("/api/train/runs/{}", run.id), Some(controller_token.as_str()));
    let attempt = json!({"attempt_id": "a0", "num_workers": 4});
    connection.post(&format!("{path}/attempts"), token, attempt.to_string().as_bytes()).await?;
    let workers: Vec<_> = (0..4)
        .map(|rank| {
            json!({"actor_id": format!("w-{i}-{rank}"), "world_rank": rank, "local_rank": rank, "node_rank": 0,
                "node_id": "node-17", "node_ip": "10.0.3.17", "pid": 40_000 + rank, "gpu_ids": [rank.to_string()],
                "resources": {"CPU": 8, "GPU": 1}})
        })
        .collect();
    let running = json!({"workers": workers});
    connection.post(&format!("{path}/attempts/a0/running"), token, running.to_string().as_bytes()).await?;
    if !lives {
        let end = json!({"run_status": "FINISHED"});
        connection.post(&format!("{path}/end"), token, end.to_string().as_bytes()).await?;
    }
    Ok(())
}
