//! What the head can carry, beside what the machine allows: a load program that starts the release binary and, in a
//! second process of its own, peers that do only the part that cannot be left out (`peer.rs`). Every figure is a ratio
//! of windows that stand next to each other in one run. It asserts nothing: figures are read by people.
//!
//! `cargo bench --bench head [-- --only SECTION] [--rounds N] [--window-ms N] [--runs N]`

mod compare;
mod leases;
mod load;
mod peer;
mod seed;
mod server;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, bail};

use compare::{Side, compare};
use server::Server;
use tokio::signal::unix::{SignalKind, signal};

/// What to measure, and how long.
struct Options {
    /// Names of sections; all if empty.
    only: Vec<String>,
    /// Rounds whose median counts.
    rounds: usize,
    /// Length of one window.
    window: Duration,
    /// Runs that the lists are made of.
    runs: usize,
}

impl Options {
    fn wants(&self, section: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|s| s == section)
    }
}

/// What the command line asks for.
enum Task {
    /// Measure.
    Bench(Options),
    /// Be the peer, with the answers in this directory.
    Peer(PathBuf),
    /// `cargo test --all-targets` starts benches without `--bench`: then there is nothing to do.
    Nothing,
}

fn parse(mut args: impl Iterator<Item = String>) -> anyhow::Result<Task> {
    let mut options =
        Options { only: Vec::new(), rounds: 5, window: Duration::from_millis(1500), runs: 10_000 };
    let mut bench = false;
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--bench" => bench = true,
            "--peer" => return Ok(Task::Peer(value()?.into())),
            "--only" => options.only.push(value()?),
            "--rounds" => options.rounds = value()?.parse::<usize>()?.clamp(1, 100),
            "--window-ms" => {
                options.window = Duration::from_millis(value()?.parse::<u64>()?.clamp(100, 60_000))
            }
            "--runs" => options.runs = value()?.parse::<usize>()?.clamp(3000, 1_000_000),
            _ if bench => bail!("{arg}: unknown; there are --only, --rounds, --window-ms and --runs"),
            // What a test runner says to its tests.
            _ => return Ok(Task::Nothing),
        }
    }
    Ok(if bench { Task::Bench(options) } else { Task::Nothing })
}

fn main() -> anyhow::Result<()> {
    let options = match parse(std::env::args().skip(1))? {
        Task::Bench(options) => options,
        Task::Peer(dir) => return peer::serve(&dir),
        Task::Nothing => return Ok(()),
    };
    // One thread, like other load programs: the other core is the server's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            result = run(&options) => result,
            // Dropping what runs kills the servers and removes their directories.
            _ = terminate.recv() => bail!("terminated"),
            _ = interrupt.recv() => bail!("interrupted"),
        }
    })
}

async fn run(options: &Options) -> anyhow::Result<()> {
    println!("{}\n", compare::machine());
    println!(
        "{} rounds, windows of {} ms after a warm-up of {} ms; median (min–max)\n",
        options.rounds,
        options.window.as_millis(),
        compare::WARM_UP.as_millis()
    );
    if options.wants("registrations") {
        registrations(options).await?;
    }
    if options.wants("lists") || options.wants("reconcile") {
        reads(options).await?;
    }
    if options.wants("leases") {
        leases::measure(options.rounds).await?;
    }
    Ok(())
}

/// Registrations, beside a bare file and beside a table of documents.
async fn registrations(options: &Options) -> anyhow::Result<()> {
    println!("## Registrations, acknowledged durable\n");
    let body = seed::registration("bench", None, Duration::from_secs(3600));
    let answer = {
        let head = Server::head().await?;
        head.connect().await?.post("/api/train/runs", None, &body).await?.body
    };
    println!("a request of {} bytes of JSON, an answer of {}\n", body.len(), answer.len());
    compare::print_head(&["head", "file", "SQLite"]);
    for clients in [1, 16, 64, 256] {
        // New servers for each number of clients, so that each begins with an empty store.
        let head = Server::head().await?;
        let peer = Server::peer(&[("answer", &answer)]).await?;
        let sides = [
            Side::post("head", &head, "/api/train/runs", &body, 201),
            Side::post("file", &peer, "/file", &body, 201),
            Side::post("SQLite", &peer, "/sqlite", &body, 201),
        ];
        compare(&format!("clients: {clients}"), &sides, clients, options).await?;
        head.stop().await;
        peer.stop().await;
    }
    println!();
    Ok(())
}

/// Pages of the list, beside the same bytes fixed; with few and with many live runs.
async fn reads(options: &Options) -> anyhow::Result<()> {
    let few = Server::head().await?;
    let seeding = seed::fill(&few, options.runs, 10).await?;
    println!("## Lists of {} runs with 4 workers each\n", options.runs);
    println!("made in {:.1} s through the API (4 writes a run, 64 clients)\n", seeding.as_secs_f64());
    if options.wants("lists") {
        let queries = [
            ("page of 100", "/api/train/runs?page_size=100"),
            ("10 live among them", "/api/train/runs?page_size=100&status=STARTED"),
            ("text without a hit", "/api/train/runs?page_size=100&q=no-such-run"),
        ];
        let mut bodies = Vec::new();
        for (_, path) in queries {
            bodies.push(few.connect().await?.get(path).await?.body);
        }
        let named: Vec<(&str, &[u8])> =
            ["0", "1", "2"].into_iter().zip(bodies.iter().map(Vec::as_slice)).collect();
        let peer = Server::peer(&named).await?;
        compare::print_head(&["head", "fixed"]);
        for ((what, path), (name, body)) in queries.into_iter().zip(named) {
            for clients in [16, 64] {
                let sides =
                    [Side::get("head", &few, path), Side::get("fixed", &peer, &format!("/fixed/{name}"))];
                let label = format!("{what} ({} bytes), {clients} clients", body.len());
                compare(&label, &sides, clients, options).await?;
            }
        }
        peer.stop().await;
        println!();
    }
    if options.wants("reconcile") {
        println!("## The same with 2,000 live runs, none newly dead, beside 10\n");
        let many = Server::head().await?;
        seed::fill(&many, options.runs, 2000).await?;
        compare::print_head(&["2,000 live", "10 live"]);
        for (what, path, clients) in [
            ("page of 1, 1 client", "/api/train/runs?page_size=1", 1),
            ("page of 100, 1 client", "/api/train/runs?page_size=100", 1),
            ("page of 100, 16 clients", "/api/train/runs?page_size=100", 16),
        ] {
            let sides = [Side::get("2,000 live", &many, path), Side::get("10 live", &few, path)];
            compare(what, &sides, clients, options).await?;
        }
        many.stop().await;
        println!();
    }
    few.stop().await;
    Ok(())
}
