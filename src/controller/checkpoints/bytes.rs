//! Bytes on their way between files: copied and hashed in one pass, several files at a time, on threads of their own.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, future::join_all, stream};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

use super::{
    progress::Move,
    source::{self, SourceFile},
};
use crate::base::{Tasks, number};

/// What is read at a time: fits the cache of a core.
const BUFFER: usize = 512 * 1024;
/// Files that are on their way to or from an object store at a time.
const FILES: usize = 8;
/// What does not end in order after a stop is dropped.
const LATE: Duration = Duration::from_secs(2);
/// What is said of a move that was given up.
pub(super) const GIVEN_UP: &str = "it was given up";

/// What the threads of one move share.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Ends it before its time.
    pub(super) stop: CancellationToken,
    /// How far it is.
    pub(super) progress: Arc<Move>,
}

impl Work {
    fn went_on(&self, bytes: usize) -> Result<(), String> {
        self.progress.add(number::size(bytes));
        if self.stop.is_cancelled() { Err(GIVEN_UP.to_owned()) } else { Ok(()) }
    }
}

/// How many files are moved at a time on this machine.
pub(super) fn copiers() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4))
}

/// Copies a file to where none is; its size and hash as they were copied.
pub(super) fn copy(file: &SourceFile, to: &Path, work: &Work) -> Result<(u64, String), String> {
    let from = source::open(&file.from).map_err(|e| format!("{}: {e}", file.from.display()))?;
    let mut out = File::options()
        .write(true)
        .create_new(true)
        .mode(file.mode)
        .open(to)
        .map_err(|e| format!("{}: {e}", to.display()))?;
    pass(from, &file.from, work, |bytes| out.write_all(bytes).map_err(|e| format!("{}: {e}", to.display())))
}

/// The size and hash of a file.
pub(super) fn hash(path: &Path, work: &Work) -> Result<(u64, String), String> {
    let from = source::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    pass(from, path, work, |_| Ok(()))
}

fn pass(
    mut from: File,
    name: &Path,
    work: &Work,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(u64, String), String> {
    let mut hasher = blake3::Hasher::new();
    let mut size = 0;
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = from.read(&mut buffer).map_err(|e| format!("{}: {e}", name.display()))?;
        let Some(bytes) = buffer.get(..n).filter(|bytes| !bytes.is_empty()) else { break };
        hasher.update(bytes);
        each(bytes)?;
        size += number::size(n);
        work.went_on(n)?;
    }
    Ok((size, hasher.finalize().to_hex().to_string()))
}

/// Takes the bytes of one file as they come: hashes them, and writes them if there is somewhere to write to.
pub(super) struct Sink {
    hasher: blake3::Hasher,
    size: u64,
    out: Option<(File, String)>,
}

impl Sink {
    /// Writes to a file that is not there yet, or nowhere.
    pub(super) fn to(path: Option<&Path>) -> Result<Self, String> {
        let open = |path: &Path| -> io::Result<(File, String)> {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            Ok((File::create_new(path)?, path.display().to_string()))
        };
        let out = path.map(|path| open(path).map_err(|e| format!("{}: {e}", path.display()))).transpose()?;
        Ok(Self { hasher: blake3::Hasher::new(), size: 0, out })
    }

    /// The next piece.
    pub(super) fn take(&mut self, piece: &[u8], work: &Work) -> Result<(), String> {
        self.hasher.update(piece);
        self.size += number::size(piece.len());
        if let Some((out, name)) = &mut self.out {
            out.write_all(piece).map_err(|e| format!("{name}: {e}"))?;
        }
        work.went_on(piece.len())
    }

    /// Size and hash of what came.
    pub(super) fn end(self) -> (u64, String) {
        (self.size, self.hasher.finalize().to_hex().to_string())
    }
}

/// Does the same with each of these on as many threads as there are slots for. The first error ends all of it; so does
/// dropping this. Nothing is done any more when it returns.
pub(super) async fn each<T, R>(
    items: Vec<T>,
    slots: &Arc<Semaphore>,
    work: &Work,
    job: impl Fn(T, &Work) -> Result<R, String> + Send + Sync + 'static,
) -> Result<Vec<R>, String>
where
    T: Send + 'static,
    R: Send + 'static,
{
    let threads = copiers().min(items.len());
    let left = Arc::new(Mutex::new(items.into_iter()));
    let job = Arc::new(job);
    let work = Work { stop: work.stop.child_token(), progress: work.progress.clone() };
    let _ended_with_this = work.stop.clone().drop_guard();
    let thread = || {
        let (left, job, work, slots) = (left.clone(), job.clone(), work.clone(), slots.clone());
        async move {
            // The slots are never closed.
            let slot = slots.acquire_owned().await;
            spawn_blocking(move || {
                let _slot = slot;
                let mut done = Vec::new();
                loop {
                    if work.stop.is_cancelled() {
                        return Err(GIVEN_UP.to_owned());
                    }
                    let Some(item) = left.lock().next() else { return Ok(done) };
                    match job(item, &work) {
                        Ok(result) => done.push(result),
                        Err(e) => {
                            work.stop.cancel();
                            return Err(e);
                        }
                    }
                }
            })
            .await
            .unwrap_or_else(|e| Err(e.to_string()))
        }
    };
    let ended = join_all((0..threads).map(|_| thread())).await;
    // One error ends the others with another; the first one that is a reason counts.
    let mut reasons = ended.iter().filter_map(|e| e.as_ref().err());
    match reasons.clone().find(|e| *e != GIVEN_UP).or(reasons.next()) {
        Some(why) => Err(why.clone()),
        None => Ok(ended.into_iter().flatten().flatten().collect()),
    }
}

/// Does the same with each of these in tasks, a few at a time. The first error ends all of it; so does `work.stop`.
pub(super) async fn each_async<T, R, F>(
    tasks: &Tasks,
    items: Vec<T>,
    work: &Work,
    job: impl Fn(T, Work) -> F,
) -> Result<Vec<R>, String>
where
    R: Send + 'static,
    F: Future<Output = Result<R, String>> + Send + 'static,
{
    let work = Work { stop: work.stop.child_token(), progress: work.progress.clone() };
    let _ended_with_this = work.stop.clone().drop_guard();
    let one = |item| {
        let (stop, task) = (work.stop.clone(), job(item, work.clone()));
        tasks.spawn(async move {
            tokio::select! {
                biased;
                result = task => result,
                () = late(&stop) => Err(GIVEN_UP.to_owned()),
            }
        })
    };
    stream::iter(items)
        .map(|item| async { one(item).await.unwrap_or_else(|e| Err(e.to_string())) })
        .buffer_unordered(FILES)
        .try_collect()
        .await
}

/// A while after the stop: what can end in order has done so.
async fn late(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(LATE).await;
}
