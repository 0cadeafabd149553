//! A thousand controllers that fall silent at once: how long until all of their runs are ABORTED, and how long the
//! slowest question of that time waited.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::{
    compare::spread,
    load::Connection,
    seed::{Registered, registration},
    server::Server,
};

const RUNS: usize = 1000;
/// The shortest lease there is.
const LEASE: Duration = Duration::from_secs(5);
/// Asked this often around the end of the leases.
const STEP: Duration = Duration::from_millis(2);
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn measure(rounds: usize) -> anyhow::Result<()> {
    println!("## {RUNS} leases that end at once\n");
    let head = Server::head().await?;
    let mut connection = head.connect().await?;
    let (mut noticed, mut slowest) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let (all, one) = expire(&mut connection, round * RUNS).await?;
        noticed.push(all.as_secs_f64() * 1e3);
        slowest.push(one.as_secs_f64() * 1e3);
    }
    println!(
        "| from the end of the leases until all are ABORTED, ms | slowest answer of that time, ms |\n|---|---|"
    );
    println!("| {} | {} |\n", spread(noticed, 1), spread(slowest, 1));
    head.stop().await;
    Ok(())
}

/// Registers, renews all leases with one heartbeat, falls silent, and asks until `expected` runs are ABORTED. How long
/// that took, and the slowest answer.
async fn expire(connection: &mut Connection, expected: usize) -> anyhow::Result<(Duration, Duration)> {
    let body = registration("silent", LEASE).to_string().into_bytes();
    let mut beats = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let answer = connection.post("/api/train/runs", None, &body).await?;
        let Registered { run, controller_token } = serde_json::from_slice(&answer.body)?;
        beats.push(json!({"run_id": run.id, "controller_token": controller_token}));
    }
    let sent = Instant::now();
    let beats = json!({"runs": beats}).to_string();
    connection.post("/api/train/heartbeats", None, beats.as_bytes()).await?;
    // Not before this, and later only by what the heartbeat took to arrive.
    let due = sent + LEASE;
    sleep_until(due - Duration::from_millis(50)).await;
    let (mut slowest, mut at) = (Duration::ZERO, Instant::now());
    while at < due + LIMIT {
        sleep_until(at).await;
        let asked = Instant::now();
        let answer = connection.get("/api/train/runs?status=ABORTED&page_size=1").await?;
        let list: Value = serde_json::from_slice(&answer.body)?;
        slowest = slowest.max(asked.elapsed());
        let aborted = list.get("total_size").and_then(Value::as_u64).context("no total_size")?;
        if usize::try_from(aborted)? == expected {
            return Ok((due.elapsed(), slowest));
        }
        at += STEP;
    }
    bail!("not all of {RUNS} runs were ABORTED {LIMIT:?} after their leases")
}
