//! The same requests to stores of three sizes: what grows with the number of runs, and what does not.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{
    Options,
    compare::{Side, compare, print_head, seconds, share_ms, spread},
    seed,
    server::{Server, cpu_ticks},
    store::Stores,
};

/// Registrations of one burst: few, so that the smallest store stays about what it is.
const BURST: usize = 512;
const WRITERS: usize = 16;
/// The largest first: it is the one that is judged.
const SIZES: [&str; 3] = ["100×", "10×", "1×"];

pub(crate) async fn measure(stores: &Stores, options: &Options) -> anyhow::Result<()> {
    let mut heads = Vec::new();
    for runs in [options.runs, options.runs / 10, options.runs / 100] {
        let store = stores.seeded(runs).await?;
        heads.push((runs, Server::head_on_copy(&store).await?));
    }
    println!("## {} runs (100×), beside a tenth and a hundredth of them\n", options.runs);
    print_head(&SIZES);
    let page = "/api/train/runs?page_size=100";
    let requests = [
        ("page of 100", page.to_owned(), 16),
        ("page of 100, `status=ERRORED`", format!("{page}&status=ERRORED"), 16),
        ("page of 100, `status=STARTED`", format!("{page}&status=STARTED"), 16),
        ("search, one hit", format!("{page}&q={}", seed::RARE), 1),
        ("search, no hit", format!("{page}&q={}", seed::ABSENT), 1),
        ("one run in full", format!("/api/train/runs/{}", seed::ONE), 16),
    ];
    for (what, path, clients) in requests {
        let mut sides: Vec<Side<'_>> =
            heads.iter().zip(SIZES).map(|((_, head), name)| Side::get(name, head, &path)).collect();
        compare(&format!("{what}, clients: {clients}"), &mut sides, clients, options).await?;
    }
    println!();
    registrations(&heads, options.rounds).await?;
    for (_, head) in heads {
        head.stop().await;
    }
    Ok(())
}

/// Bursts of registrations: windows of a second would make the smallest store ten times what it was.
async fn registrations(heads: &[(usize, Server)], rounds: usize) -> anyhow::Result<()> {
    let body = seed::registration("bench", Duration::from_secs(3600)).to_string().into_bytes();
    let body: Arc<[u8]> = body.into();
    let mut bursts: Vec<Vec<Burst>> = heads.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for at in (0..heads.len()).map(|i| (i + round) % heads.len()) {
            bursts[at].push(Burst::run(&heads[at].1, &body).await?);
        }
    }
    println!("bursts of {BURST} registrations by {WRITERS} clients\n");
    println!("| runs | 1/s | p50 / p99 ms | CPU µs |\n|---|---|---|---|");
    for ((runs, _), bursts) in heads.iter().zip(&bursts) {
        let mut latencies: Vec<Duration> = bursts.iter().flat_map(|b| &b.latencies).copied().collect();
        latencies.sort_unstable();
        let share = |percent| share_ms(&latencies, percent).unwrap_or(f64::NAN);
        // Ticks are too coarse for one burst.
        let cpu = bursts.iter().map(|b| b.cpu).sum::<f64>() / f64::from(u32::try_from(latencies.len())?);
        let rates = bursts.iter().map(|b| b.per_second).collect();
        println!(
            "| {runs} | {} | {:.3} / {:.3} | {:.0} |",
            spread(rates, 0),
            share(50),
            share(99),
            cpu * 1e6
        );
    }
    println!();
    Ok(())
}

struct Burst {
    per_second: f64,
    /// Processor time of the server, seconds.
    cpu: f64,
    latencies: Vec<Duration>,
}

impl Burst {
    async fn run(head: &Server, body: &Arc<[u8]>) -> anyhow::Result<Self> {
        let mut connections = Vec::with_capacity(WRITERS);
        for _ in 0..WRITERS {
            connections.push(head.connect().await?);
        }
        let pid = head.pid.to_string();
        let (begun, before) = (Instant::now(), cpu_ticks(&pid));
        let mut writers = JoinSet::new();
        for mut connection in connections {
            let body = Arc::clone(body);
            writers.spawn(async move {
                let mut latencies = Vec::with_capacity(BURST / WRITERS);
                for _ in 0..BURST / WRITERS {
                    let sent = Instant::now();
                    connection.post("/api/train/runs", None, &body).await?;
                    latencies.push(sent.elapsed());
                }
                anyhow::Ok(latencies)
            });
        }
        let mut latencies = Vec::with_capacity(BURST);
        while let Some(writer) = writers.join_next().await {
            latencies.extend(writer??);
        }
        let per_second = f64::from(u32::try_from(latencies.len())?) / begun.elapsed().as_secs_f64();
        Ok(Self { per_second, cpu: seconds(before, cpu_ticks(&pid)), latencies })
    }
}
