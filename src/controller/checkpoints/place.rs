//! Where a run's checkpoints lie: a directory or a prefix of an object store, spoken to in the same way.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::{StreamExt, stream};
use tokio::task::spawn_blocking;

use super::{
    connect::{self, Target},
    local::{self, Local, Looked},
    remote::Remote,
    written::{Manifest, dir_name},
};
use crate::base::RunId;

/// Files or checkpoints that are asked for at a time.
const AT_ONCE: usize = 8;

/// Where a run's checkpoints lie.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Local(Local),
    Remote(Remote),
}

/// Runs what blocks on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    spawn_blocking(f).await.unwrap_or_else(|e| Err(e.to_string()))
}

impl Place {
    /// The place of a run in this storage; the run's own directory if there is none.
    pub(super) fn of_run(
        storage: Option<&str>,
        experiment: Option<&str>,
        run: &RunId,
        run_dir: &Path,
    ) -> Result<Self, String> {
        let Some(storage) = storage else { return Ok(Self::Local(Local { root: run_dir.to_owned() })) };
        let below = format!("{}/{run}", as_a_name(experiment.unwrap_or("default")));
        match connect::target(storage)? {
            Target::Directory(dir) => {
                let dir = std::path::absolute(dir).map_err(|e| format!("{dir:?}: {e}"))?;
                Ok(Self::Local(Local { root: dir.join(below) }))
            }
            Target::Bucket(kind, rest) => {
                let rest = format!("{}/{below}", rest.trim_end_matches('/'));
                let bucket = connect::connect(kind, &rest, &|key| std::env::var(key).ok())?;
                let uri = format!("{}/{below}", storage.trim_end_matches('/'));
                Ok(Self::Remote(Remote { bucket, uri }))
            }
        }
    }

    /// Where a checkpoint lies.
    pub(super) fn uri(&self, number: u64) -> String {
        match self {
            Self::Local(local) => local.dir(number).display().to_string(),
            Self::Remote(remote) => format!("{}/{}", remote.uri, dir_name(number)),
        }
    }

    /// Makes it ready, and says in it what it is.
    pub(super) async fn prepare(&self, card: Vec<u8>) -> Result<(), String> {
        match self.clone() {
            Self::Local(local) => blocking(move || local.prepare(&card)).await,
            Self::Remote(remote) => remote.prepare(card).await,
        }
    }

    /// One of its own files, if it is there.
    pub(super) async fn read(&self, name: &'static str) -> Result<Option<Vec<u8>>, String> {
        match self.clone() {
            Self::Local(local) => blocking(move || local.read(name)).await,
            Self::Remote(remote) => remote.read(name).await,
        }
    }

    /// Puts one of its own files in place of what was there.
    pub(super) async fn write(&self, name: &'static str, bytes: Vec<u8>) -> Result<(), String> {
        match self.clone() {
            Self::Local(local) => blocking(move || local.write(name, &bytes)).await,
            Self::Remote(remote) => remote.write(name, bytes).await,
        }
    }

    /// The numbers of checkpoints that seem to be there, and those of shards on their way.
    pub(super) async fn numbers(&self) -> Result<(BTreeSet<u64>, BTreeSet<u64>), String> {
        match self.clone() {
            Self::Local(local) => blocking(move || local.numbers()).await,
            Self::Remote(remote) => Ok((remote.numbers().await?, BTreeSet::new())),
        }
    }

    /// Clears away what never became a checkpoint, but for what is on its way in these attempts and to these numbers.
    pub(super) async fn sweep(&self, attempts: BTreeSet<u32>, stay: BTreeSet<u64>) -> Result<(), String> {
        match self.clone() {
            Self::Local(local) => blocking(move || local.sweep(&attempts)).await,
            Self::Remote(remote) => remote.sweep(&stay).await,
        }
    }

    /// Clears away what was on its way to one that will not be.
    pub(super) async fn clear(&self, attempt: u32, number: u64) {
        let cleared = match self.clone() {
            Self::Local(local) => blocking(move || {
                local.drop_staged(attempt, number);
                Ok(())
            }),
            Self::Remote(remote) => return warn_if(remote.remove(number).await),
        };
        warn_if(cleared.await);
    }

    /// The manifest of a checkpoint; none if it is none.
    pub(super) async fn manifest(&self, number: u64) -> Result<Option<Result<Manifest, String>>, String> {
        match self.clone() {
            Self::Local(local) => {
                let name = format!("{}/{}", dir_name(number), super::written::MANIFEST);
                let read = blocking(move || local.read(&name)).await?;
                Ok(read.map(|bytes| Manifest::parse(&bytes)))
            }
            Self::Remote(remote) => remote.manifest(number).await,
        }
    }

    /// Which of these are there.
    pub(super) async fn present(&self, numbers: Vec<u64>) -> Result<BTreeSet<u64>, String> {
        match self.clone() {
            Self::Local(local) => {
                blocking(move || Ok(numbers.into_iter().filter(|number| local.has(*number)).collect())).await
            }
            Self::Remote(remote) => {
                let there = remote.numbers().await?;
                Ok(numbers.into_iter().filter(|number| there.contains(number)).collect())
            }
        }
    }

    /// Makes a checkpoint of what is staged.
    pub(super) async fn commit(&self, manifest: Arc<Manifest>) -> Result<(), String> {
        match self.clone() {
            Self::Local(local) => blocking(move || local.commit(&manifest)).await,
            Self::Remote(remote) => remote.commit(&manifest).await,
        }
    }

    /// Removes checkpoints.
    pub(super) async fn remove(&self, numbers: Vec<u64>) {
        match self.clone() {
            Self::Local(local) => {
                let removed = blocking(move || {
                    numbers.into_iter().for_each(|number| warn_if(local.remove(number)));
                    Ok(())
                });
                warn_if(removed.await);
            }
            Self::Remote(remote) => {
                let remote = &remote;
                let removed = stream::iter(numbers);
                removed
                    .for_each_concurrent(
                        AT_ONCE,
                        |number| async move { warn_if(remote.remove(number).await) },
                    )
                    .await;
            }
        }
    }

    /// Reads the manifest of a checkpoint and compares the sizes.
    pub(super) async fn look(&self, number: u64) -> Result<Looked, String> {
        match self.clone() {
            Self::Local(local) => blocking(move || Ok(local::look(&local.dir(number)))).await,
            Self::Remote(remote) => remote.look(number).await,
        }
    }

    /// Returns when all that was written is there to stay.
    pub(super) async fn sync(&self) -> Result<(), String> {
        match self.clone() {
            Self::Local(local) => blocking(move || local.sync()).await,
            Self::Remote(_) => Ok(()),
        }
    }

    /// The directory of a checkpoint, if it is on this node.
    pub(super) fn directory(&self, number: u64) -> Option<PathBuf> {
        match self {
            Self::Local(local) => Some(local.dir(number)),
            Self::Remote(_) => None,
        }
    }
}

fn warn_if(result: Result<(), String>) {
    if let Err(e) = result {
        tracing::warn!("cannot be cleared away: {e}");
    }
}

/// An experiment's name as that of one directory.
fn as_a_name(experiment: &str) -> String {
    let kept = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ' ') { c } else { '_' };
    let name: String = experiment.chars().map(kept).collect();
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_place_of_its_own_whatever_its_experiment_is_called() {
        let run = RunId::parse("r1").unwrap();
        let root = |storage, experiment| match Place::of_run(storage, experiment, &run, Path::new("/runs/r1"))
        {
            Ok(Place::Local(local)) => local.root.display().to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(root(None, Some("e")), "/runs/r1");
        assert_eq!(root(Some("/data"), None), "/data/default/r1");
        assert_eq!(root(Some("file:///data/"), Some("../x/é")), "/data/_.._x_é/r1");
    }
}
