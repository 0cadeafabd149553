//! A checkpoint as a directory on this node. One that lies elsewhere is fetched once, with its hashes checked on the way.

use std::{fs, path::PathBuf};

use tracing::warn;

use super::{
    Usable,
    desk::Inner,
    local::{self, Looked},
    place::{Place, blocking},
    remote::Remote,
    storage,
    written::dir_name,
};

impl Inner {
    /// The latest usable checkpoint as a directory. One that turns out to be broken is marked, and the one before taken.
    pub(super) async fn fetch_latest(&self) -> Result<Option<Usable>, String> {
        let place = self.place()?;
        loop {
            let newest = self.ledger.lock().usable().first().copied();
            let Some(number) = newest else { return Ok(None) };
            match self.bring(&place, number).await? {
                Ok(dir) => {
                    if let Some(usable) = self.usable(number, Some(dir)) {
                        self.told.lock().insert(number);
                        return Ok(Some(usable));
                    }
                }
                Err(bad) => {
                    self.mark(number, &bad);
                }
            }
        }
    }

    /// What is known of a usable checkpoint.
    pub(super) fn usable(&self, number: u64, path: Option<PathBuf>) -> Option<Usable> {
        let ledger = self.ledger.lock();
        let checkpoint = ledger.get(number).filter(|c| c.record.state.is_usable())?;
        Some(Usable {
            number,
            step: checkpoint.record.step,
            attempt: checkpoint.record.attempt,
            path,
            metrics: checkpoint.record.metrics.clone(),
        })
    }

    /// The directory of a checkpoint, or what is wrong with it.
    pub(super) async fn bring(&self, place: &Place, number: u64) -> Result<Result<PathBuf, Looked>, String> {
        let remote = match place {
            Place::Local(local) => {
                let dir = local.dir(number);
                let there = local.has(number);
                return Ok(if there {
                    Ok(dir)
                } else {
                    Err(Looked::Missing("somebody removed it".to_owned()))
                });
            }
            Place::Remote(remote) => remote,
        };
        let _fetching = self.fetching.lock().await;
        let to = self.cache().join(dir_name(number));
        let cached = to.clone();
        if let Looked::Whole(manifest) = blocking(move || Ok(local::look(&cached))).await?
            && manifest.number == number
            && manifest.run_id == self.run.id
        {
            return Ok(Ok(to));
        }
        self.fetch(remote, number, to).await
    }

    async fn fetch(
        &self,
        remote: &Remote,
        number: u64,
        to: PathBuf,
    ) -> Result<Result<PathBuf, Looked>, String> {
        let manifest = match remote.look(number).await? {
            Looked::Whole(manifest) => manifest,
            bad => return Ok(Err(bad)),
        };
        let progress = self.progress.begin(manifest.size_bytes());
        let work = super::bytes::Work { stop: self.given_up.child_token(), progress: progress.into() };
        let wrong = storage::download(remote, number, &manifest, &to, &self.tasks, &work).await?;
        Ok(if wrong.is_empty() { Ok(to) } else { Err(Looked::Broken(wrong)) })
    }

    fn cache(&self) -> PathBuf {
        self.run.dir.join("cache")
    }

    /// Clears the cache of all but one, when no worker uses any.
    pub(super) async fn clear_cache(&self, stays: Option<u64>) {
        self.told.lock().clear();
        let (cache, stays) = (self.cache(), stays.map(dir_name));
        let cleared = blocking(move || {
            let Ok(entries) = fs::read_dir(&cache) else { return Ok(()) };
            for entry in entries.flatten() {
                let is_it = stays.as_ref().is_some_and(|name| entry.file_name() == name.as_str());
                if !is_it {
                    local::gone(fs::remove_dir_all(entry.path())).map_err(|e| e.to_string())?;
                }
            }
            Ok(())
        });
        if let Err(e) = cleared.await {
            warn!("the cache of checkpoints cannot be cleared: {e}");
        }
    }

    /// Removes one from the cache that no worker was told of.
    pub(super) async fn drop_cached(&self, number: u64) {
        if self.told.lock().contains(&number) || self.place().is_ok_and(|p| p.directory(number).is_some()) {
            return;
        }
        let dir = self.cache().join(dir_name(number));
        let _ = blocking(move || local::gone(fs::remove_dir_all(dir)).map_err(|e| e.to_string())).await;
    }
}
