//! What an earlier controller of the run left on this node: its metrics are delivered beside what this one has to say.
//! Its verbs are of another epoch and of no use any more.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tracing::{info, warn};

use super::{
    courier::{self, Address, Tally, deliver_metrics},
    item::Item,
    link::Link,
    spool::{Found, Spool},
};
use crate::{
    base::{RunId, Secret},
    state::StateClient,
};

/// It has as long as the run has.
const PATIENCE: Duration = Duration::MAX;

pub(super) struct Inheritance {
    pub(super) client: Arc<dyn StateClient>,
    pub(super) run: RunId,
    pub(super) link: Arc<Link>,
    pub(super) run_dir: PathBuf,
}

impl Inheritance {
    pub(super) async fn run(self) {
        let run_dir = self.run_dir.clone();
        let dirs = tokio::task::spawn_blocking(move || spools_of_run(&run_dir)).await.unwrap_or_default();
        self.link.inherited.send_replace(Some(dirs.clone()));
        if dirs.is_empty() {
            return;
        }
        let mut told = self.link.tell.subscribe();
        // Attempts from this one on are ours: what another controller says of them is of its own that the head never
        // heard of.
        let num_attempts = match told.wait_for(|told| told.registered.is_some()).await {
            Ok(told) => told.registered.as_ref().map_or(0, |registered| registered.num_attempts).max(1),
            Err(_) => return,
        };
        let Ok(token) =
            self.link.token.subscribe().wait_for(Option::is_some).await.map(|token| token.clone())
        else {
            return;
        };
        for dir in dirs {
            if let Some(token) = &token {
                self.deliver(&dir, token, num_attempts).await;
            }
            self.link
                .inherited
                .send_modify(|left| left.iter_mut().for_each(|left| left.retain(|d| *d != dir)));
        }
    }

    async fn deliver(&self, dir: &Path, token: &Secret, num_attempts: u32) {
        let opened = dir.to_owned();
        let spool = match tokio::task::spawn_blocking(move || Spool::open(&opened)).await {
            Ok(Ok(Found::Here(spool, _))) => Arc::new(spool),
            Ok(Ok(Found::Written | Found::Delivered | Found::Nothing)) | Err(_) => return,
            Ok(Err(e)) => return warn!("what an earlier controller left in {} is left: {e}", dir.display()),
        };
        let to = Address { client: &*self.client, run: &self.run, token, patience: PATIENCE };
        let (mut tally, mut verbs) = (Tally::default(), 0);
        let wants = |item: &mut Item| match item {
            Item::Report(batch) => batch.attempt < num_attempts,
            Item::Say(_) | Item::Begin { .. } => {
                verbs += 1;
                false
            }
        };
        let tell = |_: &Tally| {
            self.link.delivered.fetch_add(1, Ordering::Relaxed);
        };
        if let Err(e) = deliver_metrics(&spool, to, &mut tally, wants, tell).await {
            return warn!("what an earlier controller left in {} is left: {e}", dir.display());
        }
        courier::remove(spool).await;
        let Tally { points, refused_points, .. } = tally;
        info!("{points} points that an earlier controller of the run left are delivered");
        if verbs + refused_points > 0 {
            warn!(
                "of what an earlier controller of the run left, {verbs} changes and {refused_points} points are not taken: \
                 they are of attempts that the head did not hear of, or of no meaning any more"
            );
        }
    }
}

/// The spools in the directory of a run.
#[must_use]
pub fn spools_of_run(run_dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(run_dir).into_iter().flatten().flatten();
    let is_spool = |entry: &std::fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name == "spool" || name.starts_with("spool-"))
    };
    let mut spools: Vec<PathBuf> =
        entries.filter(is_spool).map(|entry| entry.path()).filter(|dir| is_spool_dir(dir)).collect();
    spools.sort();
    spools
}

/// Whether there is a spool in this directory.
#[must_use]
pub fn is_spool_dir(dir: &Path) -> bool {
    dir.join("spool.json").is_file()
}
