//! Stores that are made once and copied for each head: in a temporary directory, or in one that later calls find again.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::ensure;
use tempfile::TempDir;
use trainhead::base::number;

use crate::{
    compare,
    seed::{self, Plan},
    server::{Server, cpu_ticks},
};

/// Counted up when seeds change, so that a directory with others is not taken for one with these.
const SEED: u32 = 1;

/// A head that has used no processor for so long has sealed what there is to seal.
pub(crate) const REST: Duration = Duration::from_secs(2);

/// Where seeded stores lie.
pub(crate) struct Stores {
    root: PathBuf,
    _temporary: Option<TempDir>,
}

impl Stores {
    /// Stores in this directory, or in one that goes with this value.
    pub(crate) fn new(dir: Option<&Path>) -> anyhow::Result<Self> {
        match dir {
            Some(dir) => {
                fs::create_dir_all(dir)?;
                Ok(Self { root: dir.to_owned(), _temporary: None })
            }
            None => {
                let temporary = tempfile::tempdir()?;
                Ok(Self { root: temporary.path().to_owned(), _temporary: Some(temporary) })
            }
        }
    }

    /// A store of so many runs, made now if it was not made before. To be copied, not to be served.
    pub(crate) async fn seeded(&self, runs: usize) -> anyhow::Result<PathBuf> {
        let fill = async |head: &Server| {
            let requests = seed::fill(head, Plan::mixed(runs)?).await? + seed::make_one(head).await?;
            Ok(Made { requests, points: 0 })
        };
        self.kept(&format!("runs-{runs}"), fill).await
    }

    /// A store of this name, filled now if it was not filled before. To be copied, not to be served.
    pub(crate) async fn kept(
        &self,
        name: &str,
        fill: impl AsyncFnOnce(&Server) -> anyhow::Result<Made>,
    ) -> anyhow::Result<PathBuf> {
        let dir = self.root.join(format!("{name}-seed-{SEED}"));
        if dir.exists() {
            return Ok(dir);
        }
        // It gets its name when it is whole.
        let unfinished = self.root.join("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        let head = Server::head_at(&unfinished).await?;
        let pid = head.pid.to_string();
        let (begun, before) = (Instant::now(), cpu_ticks(&pid));
        let Made { requests, points } = fill(&head).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let cpu_us = compare::seconds(before, cpu_ticks(&pid)) * 1e6 / f64::from(u32::try_from(requests)?);
        let rss = head.rss_mib()?;
        head.quiet(REST).await?;
        let rested = begun.elapsed().as_secs_f64() - seconds;
        head.end().await?;
        fs::rename(&unfinished, &dir)?;
        println!(
            "(the store `{name}` was made in {seconds:.1} s by {requests} requests through the API, {cpu_us:.0} µs of CPU \
             each; the head that wrote it had {rss:.0} MiB resident and was at rest {rested:.1} s later)"
        );
        let Size { file, used } = Size::of(&dir)?;
        println!("(its database has {:.1} MiB, of which {:.1} are used)", mib(file), mib(used));
        if points > 0 {
            let points = float(points);
            println!(
                "(it took {:.0} points/s; a point has {:.2} bytes of what is used)",
                points / seconds,
                float(used) / points
            );
        }
        println!();
        Ok(dir)
    }
}

/// What filled a store.
pub(crate) struct Made {
    pub(crate) requests: u64,
    pub(crate) points: u64,
}

/// Size of a database whose head has ended, bytes.
pub(crate) struct Size {
    /// The file.
    pub(crate) file: u64,
    /// Without the pages that are free.
    pub(crate) used: u64,
}

impl Size {
    pub(crate) fn of(store: &Path) -> anyhow::Result<Self> {
        let path = store.join("trainhead.db");
        let log = fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
        ensure!(log == 0, "a head has left its log behind");
        // SQLite's file format: the page size stands at 16 (1 means 65,536), the number of free pages at 36.
        let mut head = [0; 40];
        fs::File::open(&path)?.read_exact(&mut head)?;
        let page = match u16::from_be_bytes([head[16], head[17]]) {
            1 => 65_536,
            page => u64::from(page),
        };
        let free = u64::from(u32::from_be_bytes([head[36], head[37], head[38], head[39]]));
        let file = fs::metadata(path)?.len();
        Ok(Self { file, used: file - free * page })
    }
}

pub(crate) fn mib(bytes: u64) -> f64 {
    float(bytes) / 1024.0 / 1024.0
}

/// The nearest float.
pub(crate) fn float(count: u64) -> f64 {
    i64::try_from(count).map_or(f64::INFINITY, number::float)
}
