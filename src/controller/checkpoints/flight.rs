//! Shards on their way: each is looked through, its files are moved, and when all of a checkpoint are there it is committed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    CheckpointEvent, Shard, UploadMode,
    bytes::{self, GIVEN_UP, Work},
    desk::Inner,
    ledger::{Handed, Ready},
    local::Local,
    place::{Place, blocking},
    remote::Remote,
    source::{Claims, SourceFile, walk},
    written::{Manifest, ManifestFile, STAGING, number_of},
};
use crate::model::CheckpointState;

/// A checkpoint whose shards are on their way.
#[derive(Debug)]
pub(super) struct Flight {
    number: u64,
    attempt: u32,
    step: u64,
    place: Place,
    stop: CancellationToken,
    claims: Mutex<Claims>,
    files: Mutex<Vec<ManifestFile>>,
    /// Directories that go when it is committed.
    consumed: Mutex<Vec<PathBuf>>,
    movers: Mutex<Movers>,
}

#[derive(Debug, Default)]
struct Movers {
    at_work: usize,
    /// It will not be a checkpoint, and what is there of it goes when nobody is at work any more.
    abandoned: bool,
}

impl Flight {
    pub(super) const fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl Inner {
    /// Takes a shard; tells what came of it at once, or when its bytes are moved.
    pub(super) fn take_in(self: &Arc<Self>, shard: Shard) -> oneshot::Receiver<Result<(), String>> {
        let (tell, told) = oneshot::channel();
        match self.accept(&shard) {
            Err(e) => {
                let _ = tell.send(Err(e));
            }
            Ok(flight) => {
                let tell = if shard.handed.upload_mode == UploadMode::Sync {
                    Some(tell)
                } else {
                    let _ = tell.send(Ok(()));
                    None
                };
                let (moved, is_moved) = oneshot::channel();
                let whose = (shard.attempt, shard.rank);
                let previous = self.last_of_rank.lock().insert(whose, is_moved);
                let inner = self.clone();
                self.tasks.spawn(async move {
                    let result = inner.carry(&flight, &shard, previous).await;
                    drop(moved);
                    inner.carried(&flight, &shard, &result);
                    if let Some(tell) = tell {
                        let _ = tell.send(result);
                    }
                });
            }
        }
        told
    }

    /// Checks a shard and enters it in the ledger.
    fn accept(&self, shard: &Shard) -> Result<Arc<Flight>, String> {
        let place = self.place()?;
        check_path(&place, shard)?;
        let now = self.clock.monotonic();
        let handed = Handed {
            attempt: shard.attempt,
            rank: shard.rank,
            step: shard.step,
            ranks: shard.handed.ranks.as_ref(),
            metrics: shard.metrics.clone(),
        };
        // A flight is there as long as the ledger has its number open.
        let mut ledger = self.ledger.lock();
        let number = ledger.hand_in(handed, now)?;
        let mut flights = self.flights.lock();
        let flight = flights.entry(number).or_insert_with(|| {
            Arc::new(Flight {
                number,
                attempt: shard.attempt,
                step: shard.step,
                place,
                stop: self.given_up.child_token(),
                claims: Mutex::default(),
                files: Mutex::default(),
                consumed: Mutex::default(),
                movers: Mutex::default(),
            })
        });
        flight.movers.lock().at_work += 1;
        Ok(flight.clone())
    }

    /// Moves the files of a shard, after those of the rank's shard before.
    async fn carry(
        &self,
        flight: &Arc<Flight>,
        shard: &Shard,
        previous: Option<oneshot::Receiver<()>>,
    ) -> Result<(), String> {
        if let Some(previous) = previous {
            tokio::select! {
                _ = previous => {}
                () = flight.stop.cancelled() => return Err(GIVEN_UP.to_owned()),
            }
        }
        let (rank, path) = (shard.rank, shard.handed.path.clone());
        let claiming = flight.clone();
        let claimed = blocking(move || {
            let files = walk(&path)?.into_iter();
            Ok(files
                .filter_map(|file| Claims::claim(&claiming.claims, rank, &file).map(|to| (file, to)))
                .collect::<Vec<_>>())
        });
        let claimed = claimed.await?;
        let total = claimed.iter().map(|(file, _)| file.size).sum();
        let work = Work { stop: flight.stop.clone(), progress: Arc::new(self.progress.begin(total)) };
        let in_place = shard.handed.upload_mode == UploadMode::NoUpload;
        let moved = match &flight.place {
            Place::Local(local) => self.stage(local, flight, claimed, in_place, &work).await?,
            Place::Remote(remote) => self.send(remote, flight, claimed, &work).await?,
        };
        let files = moved.into_iter().map(|(path, (size_bytes, blake3))| ManifestFile {
            path,
            size_bytes,
            blake3,
            rank,
        });
        flight.files.lock().extend(files);
        if shard.handed.delete_local || in_place {
            flight.consumed.lock().push(shard.handed.path.clone());
        }
        Ok(())
    }

    /// Copies files to the staging area, or moves them there.
    async fn stage(
        &self,
        local: &Local,
        flight: &Flight,
        files: Vec<(SourceFile, String)>,
        in_place: bool,
        work: &Work,
    ) -> Result<Vec<(String, (u64, String))>, String> {
        let staged = local.staged(flight.attempt, flight.number);
        let stage = move |(file, to): (SourceFile, String), work: &Work| {
            let target = staged.join(&to);
            let parent = target.parent().unwrap_or(&staged);
            fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
            // What a link leads to is moved under its own name.
            if in_place && !file.is_link {
                let moved = fs::rename(&file.from, &target);
                moved.map_err(|e| format!("{} cannot be moved: {e}", file.from.display()))?;
                return Ok((to, bytes::hash(&target, work)?));
            }
            Ok((to, bytes::copy(&file, &target, work)?))
        };
        let (links, files): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(file, _)| in_place && file.is_link);
        let mut done = bytes::each(links, &self.copiers, work, stage.clone()).await?;
        done.extend(bytes::each(files, &self.copiers, work, stage).await?);
        Ok(done)
    }

    /// Puts files to their final names in an object store.
    async fn send(
        &self,
        remote: &Remote,
        flight: &Flight,
        files: Vec<(SourceFile, String)>,
        work: &Work,
    ) -> Result<Vec<(String, (u64, String))>, String> {
        let number = flight.number;
        let sent = bytes::each_async(&self.tasks, files, work, {
            let (remote, parts) = (remote.clone(), self.parts.clone());
            move |(file, to): (SourceFile, String), work: Work| {
                let (remote, parts) = (remote.clone(), parts.clone());
                async move {
                    let key = remote.file(number, &to);
                    Ok((to, remote.upload(&file, &key, &parts, &work).await?))
                }
            }
        });
        sent.await
    }

    /// What follows when a shard is moved, or is not.
    fn carried(self: &Arc<Self>, flight: &Arc<Flight>, shard: &Shard, result: &Result<(), String>) {
        match result {
            Ok(()) => self.ledger.lock().moved(flight.number, shard.rank),
            Err(why) => self.fail(flight, &format!("the shard of rank {} was not moved: {why}", shard.rank)),
        }
        let mut movers = flight.movers.lock();
        movers.at_work -= 1;
        let is_last = movers.at_work == 0 && movers.abandoned;
        drop(movers);
        if is_last {
            self.clear(flight.clone());
        }
        self.commit_ready();
        self.has_changed();
    }

    /// A checkpoint will not be: says so, unless it was given up before.
    fn fail(self: &Arc<Self>, flight: &Flight, why: &str) {
        if self.ledger.lock().failed(flight.number, why) {
            let sentence = format!("the checkpoint of step {} failed: {why}", flight.step);
            warn!("{sentence}");
            self.tell(CheckpointEvent::Failed(sentence));
        }
        self.abandon([flight.number]);
    }

    /// Stops what is on its way to these, which will not be checkpoints, and clears it away.
    pub(super) fn abandon(self: &Arc<Self>, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            let Some(flight) = self.flights.lock().get(&number).cloned() else { continue };
            flight.stop.cancel();
            let mut movers = flight.movers.lock();
            let was = std::mem::replace(&mut movers.abandoned, true);
            let nobody = movers.at_work == 0;
            drop(movers);
            if !was && nobody {
                info!("the checkpoint of step {} is given up", flight.step);
                self.clear(flight);
            }
        }
    }

    fn clear(self: &Arc<Self>, flight: Arc<Flight>) {
        let inner = self.clone();
        self.tasks.spawn(async move {
            flight.place.clear(flight.attempt, flight.number).await;
            inner.flights.lock().remove(&flight.number);
            inner.has_changed();
        });
    }

    /// Commits what is complete.
    pub(super) fn commit_ready(self: &Arc<Self>) {
        let ready = self.ledger.lock().ready();
        for ready in ready {
            let Some(flight) = self.flights.lock().get(&ready.number).cloned() else { continue };
            let inner = self.clone();
            self.tasks.spawn(async move { inner.commit(&flight, ready).await });
        }
    }

    async fn commit(self: &Arc<Self>, flight: &Arc<Flight>, ready: Ready) {
        let number = ready.number;
        let mut manifest = Manifest::new(self.run.id.clone(), ready, self.clock.now());
        manifest.files = std::mem::take(&mut *flight.files.lock());
        manifest.files.sort_by(|a, b| a.path.cmp(&b.path));
        let manifest = Arc::new(manifest);
        if let Err(e) = flight.place.commit(manifest.clone()).await {
            self.fail(flight, &e);
            return;
        }
        let record = manifest.record(flight.place.uri(number));
        let committed = self.ledger.lock().committed(number, record);
        self.tell(CheckpointEvent::Changed(committed.clone()));
        self.tell(CheckpointEvent::Committed(committed));
        if self.options.validation.is_some() {
            self.change(number, CheckpointState::Validating, None);
            self.start_validations();
        }
        self.want_tidy();
        let consumed = std::mem::take(&mut *flight.consumed.lock());
        let _ = blocking(move || {
            consumed.iter().for_each(|dir| delete_local(dir));
            Ok(())
        })
        .await;
        self.flights.lock().remove(&number);
        self.has_changed();
    }
}

/// Checks that a shard's path is a directory that can be moved from where it is.
fn check_path(place: &Place, shard: &Shard) -> Result<(), String> {
    let path = &shard.handed.path;
    let shown = path.display();
    let real = fs::canonicalize(path).map_err(|e| format!("{shown}: {e}"))?;
    if !real.is_dir() {
        return Err(format!("{shown} is no directory"));
    }
    let in_place = shard.handed.upload_mode == UploadMode::NoUpload;
    let Place::Local(local) = place else {
        return if in_place {
            Err(format!(
                "{shown}: no_upload needs checkpoints in a directory, and this run's are in an object store"
            ))
        } else {
            Ok(())
        };
    };
    let root = fs::canonicalize(&local.root).map_err(|e| format!("{}: {e}", local.root.display()))?;
    if root.starts_with(&real) {
        return Err(format!("{shown} holds the run's own checkpoints"));
    }
    let inside = real.strip_prefix(&root).ok();
    if in_place && inside.is_none() {
        return Err(format!("{shown}: what is handed in with no_upload must lie in {}", root.display()));
    }
    if (in_place || shard.handed.delete_local) && inside.is_some_and(is_ours) {
        return Err(format!("{shown} is a checkpoint of the run, or on its way to be one"));
    }
    Ok(())
}

/// Whether a path below the run's directory is that of a checkpoint, or of one on its way.
fn is_ours(path: &Path) -> bool {
    let first = path.components().next().and_then(|part| part.as_os_str().to_str());
    first.is_some_and(|name| name == STAGING || number_of(name).is_some())
}

fn delete_local(dir: &Path) {
    if let Err(e) = super::local::gone(fs::remove_dir_all(dir)) {
        warn!("{} was handed in and cannot be deleted: {e}", dir.display());
    }
}
