//! The spool of this controller: made when there is something to put in it, gone when all of it is delivered.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tracing::warn;

use super::{
    item::Item,
    spool::{About, Spool, VERSION},
};
use crate::{
    base::{RunId, Secret},
    model::commands::RegisterRun,
};

/// Where what this controller has to say goes when it cannot be said. Clones share it. It blocks.
#[derive(Clone, Debug)]
pub(super) struct Keeper {
    dirs: Arc<[PathBuf]>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    about: About,
    spool: Option<Spool>,
}

impl Keeper {
    /// For a run with this directory. Another controller of the run may have left its spool there, or may be alive: this
    /// one has its own beside it.
    pub(super) fn new(run_dir: &Path, run: &RunId, head: Option<String>, register: &RegisterRun) -> Self {
        let own = format!("spool-{}", register.controller.actor_id.as_str());
        let about = About {
            version: VERSION,
            run_id: run.clone(),
            head,
            register: register.clone(),
            controller_token: None,
        };
        Self {
            dirs: [run_dir.join("spool"), run_dir.join(own)].into(),
            inner: Arc::new(Mutex::new(Inner { about, spool: None })),
        }
    }

    /// Adds items to a segment; how many bytes they have.
    pub(super) fn append(&self, number: u64, items: &[Item]) -> io::Result<u64> {
        let mut inner = self.inner.lock();
        if inner.spool.is_none() {
            inner.spool = Some(Spool::create(&self.dirs, &inner.about)?);
        }
        inner.spool.as_ref().map_or(Err(io::ErrorKind::NotFound.into()), |spool| spool.append(number, items))
    }

    /// What a segment has, and how many of its lines could not be read.
    pub(super) fn read(&self, number: u64) -> io::Result<(Vec<Item>, u64)> {
        let inner = self.inner.lock();
        let spool = inner.spool.as_ref().ok_or(io::ErrorKind::NotFound)?;
        spool.read(number)?.all()
    }

    /// Removes a segment that was delivered, and the spool with the last one.
    pub(super) fn remove(&self, number: u64) {
        let mut inner = self.inner.lock();
        let Some(spool) = inner.spool.take() else { return };
        spool.remove_segment(number);
        if spool.segments().is_ok_and(|segments| segments.is_empty()) {
            spool.remove();
        } else {
            inner.spool = Some(spool);
        }
    }

    /// The run is registered.
    pub(super) fn learn(&self, token: Secret) {
        let mut inner = self.inner.lock();
        inner.about.controller_token = Some(token);
        if let Some(spool) = &inner.spool
            && let Err(e) = spool.write_about(&inner.about)
        {
            // Without it whoever delivers the spool registers again, which gives the same one.
            warn!("the token is not in {}: {e}", spool.dir().display());
        }
    }

    /// What is in it is of no use.
    pub(super) fn clear(&self) {
        if let Some(spool) = self.inner.lock().spool.take() {
            spool.remove();
        }
    }

    /// Lets go of it, for others to deliver; where it is, if there is one.
    pub(super) fn leave(&self) -> Option<PathBuf> {
        self.inner.lock().spool.take().map(|spool| spool.dir().to_owned())
    }
}
