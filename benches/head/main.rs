//! What the head can carry, beside what the machine allows: a load program that starts the release binary and, in a
//! second process of its own, peers that do only the part that cannot be left out (`peer.rs`). Every figure is a ratio
//! of windows that stand next to each other in one run. It asserts nothing: figures are read by people.
//!
//! `cargo bench --bench head [-- OPTIONS]`; the options are in `README.md`.

mod compare;
mod disk;
mod dying;
mod growth;
mod ingest;
mod leases;
mod load;
mod peer;
mod points;
mod reader;
mod reads;
mod reconcile;
mod scale;
mod seed;
mod series;
mod server;
mod sse;
mod start;
mod store;
mod writes;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, bail, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::Stores;
use tokio::signal::unix::{SignalKind, signal};

const SECTIONS: [&str; 15] = [
    "registrations",
    "lists",
    "search",
    "one",
    "growth",
    "ingest",
    "disk",
    "series",
    "scale",
    "reconcile",
    "leases",
    "dying",
    "sse",
    "start",
    "footprint",
];
/// Files that may be open: 10,000 watched processes, or a connection for each reader of two servers, and some.
const FILES: u64 = 16_384;

/// What to measure, and how long.
#[derive(Clone)]
struct Options {
    /// Names of sections; all if empty.
    only: Vec<String>,
    /// Rounds whose median counts.
    rounds: usize,
    /// Length of one window.
    window: Duration,
    /// Runs of the stores that are read.
    runs: usize,
    /// Points of the longest series.
    points: u32,
    /// nginx, to compare the reads with.
    nginx: Option<PathBuf>,
    /// Readers of events.
    clients: usize,
    /// How long they read in one round, and reports go on without a pause.
    seconds: Duration,
    /// Where seeded stores are kept for the next time.
    data_dir: Option<PathBuf>,
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
    let mut options = Options {
        only: Vec::new(),
        rounds: 5,
        window: Duration::from_millis(1500),
        runs: 10_000,
        points: 1_000_000,
        nginx: None,
        clients: 1000,
        seconds: Duration::from_secs(10),
        data_dir: None,
    };
    let mut bench = false;
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--bench" => bench = true,
            "--peer" => return Ok(Task::Peer(value()?.into())),
            "--only" => {
                let section = value()?;
                ensure!(SECTIONS.contains(&section.as_str()), "there are {}", SECTIONS.join(", "));
                options.only.push(section);
            }
            "--rounds" => options.rounds = value()?.parse::<usize>()?.clamp(1, 100),
            "--window-ms" => {
                options.window = Duration::from_millis(value()?.parse::<u64>()?.clamp(100, 60_000))
            }
            "--runs" => options.runs = value()?.parse::<usize>()?.clamp(1000, 1_000_000),
            "--points" => options.points = value()?.parse::<u32>()?.clamp(10_000, 100_000_000),
            "--nginx" => options.nginx = Some(value()?.into()),
            "--clients" => options.clients = value()?.parse::<usize>()?.clamp(1, 5000),
            "--seconds" => options.seconds = Duration::from_secs(value()?.parse::<u64>()?.clamp(1, 600)),
            "--data-dir" => options.data_dir = Some(value()?.into()),
            _ if bench => bail!("{arg}: unknown; benches/README.md names what there is"),
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
    more_files()?;
    println!("{}\n", compare::machine());
    println!(
        "{} rounds, windows of {} ms after a warm-up of {} ms; median (min–max)\n",
        options.rounds,
        options.window.as_millis(),
        compare::WARM_UP.as_millis()
    );
    let stores = Stores::new(options.data_dir.as_deref())?;
    for section in SECTIONS.into_iter().filter(|section| options.wants(section)) {
        match section {
            "growth" => growth::measure(&stores, options).await?,
            "ingest" => ingest::measure(options).await?,
            "disk" => disk::measure().await?,
            "series" => series::measure(&stores, options).await?,
            "scale" => scale::measure(&stores, options).await?,
            "footprint" => start::footprint(options).await?,
            "leases" => leases::measure(options.rounds).await?,
            "dying" => dying::measure(options.rounds).await?,
            "sse" => sse::measure(options).await?,
            of_a_store => {
                let store = stores.seeded(options.runs).await?;
                match of_a_store {
                    "registrations" => writes::registrations(&store, options).await?,
                    "lists" => reads::lists(&store, options).await?,
                    "search" => reads::search(&store, options).await?,
                    "one" => reads::one(&store, options).await?,
                    "reconcile" => reconcile::measure(&store, options).await?,
                    _ => start::measure(&store, options).await?,
                }
            }
        }
    }
    Ok(())
}

/// Lets this program, and the servers that it starts, have as many files open as they need.
fn more_files() -> anyhow::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < FILES) {
        let wanted = maximum.map_or(FILES, |maximum| maximum.min(FILES));
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    }
    Ok(())
}
