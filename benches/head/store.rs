//! Stores that are made once and copied for each head: in a temporary directory, or in one that later calls find again.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use tempfile::TempDir;

use crate::{
    compare,
    seed::{self, Plan},
    server::{Server, cpu_ticks},
};

/// Counted up when seeds change, so that a directory with others is not taken for one with these.
const SEED: u32 = 1;

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
        let dir = self.root.join(format!("runs-{runs}-seed-{SEED}"));
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
        let requests = seed::fill(&head, Plan::mixed(runs)?).await? + seed::make_one(&head).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let cpu_us = compare::seconds(before, cpu_ticks(&pid)) * 1e6 / f64::from(u32::try_from(requests)?);
        let rss = head.rss_mib()?;
        head.end().await?;
        fs::rename(&unfinished, &dir)?;
        println!(
            "(a store of {runs} runs was made in {seconds:.1} s by {requests} requests through the API, {cpu_us:.0} µs \
             of CPU each; the head that wrote it had {rss:.0} MiB resident, its database has {:.0} MiB)\n",
            mib(&dir.join("trainhead.db"))?
        );
        Ok(dir)
    }
}

fn mib(file: &Path) -> anyhow::Result<f64> {
    Ok(f64::from(u32::try_from(fs::metadata(file)?.len() / 1024)?) / 1024.0)
}
