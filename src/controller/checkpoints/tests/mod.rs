//! The desk as its controller uses it, with real files.

mod local;
mod remote;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use object_store::memory::InMemory;
use tempfile::TempDir;
use tokio::time::timeout;

use super::{
    connect::{Bucket, Kind},
    remote::Remote,
    *,
};
use crate::{
    base::{ManualClock, Timestamp},
    model::checkpoint::ScoreOrder,
};

const LIMIT: Duration = Duration::from_secs(30);

/// A run's directory, its storage, and a desk that can be opened again as a new controller would.
struct Run {
    dir: TempDir,
    id: RunId,
    clock: Arc<ManualClock>,
    options: CheckpointOptions,
    store: Option<Arc<InMemory>>,
}

struct Opened {
    desk: Desk,
    tasks: Tasks,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

impl Run {
    fn local(options: CheckpointOptions) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            id: RunId::parse("run-1").unwrap(),
            clock: Arc::new(ManualClock::at(Timestamp::from_ms(1_800_000_000_000))),
            options,
            store: None,
        }
    }

    fn remote(options: CheckpointOptions) -> Self {
        Self { store: Some(Arc::new(InMemory::new())), ..Self::local(options) }
    }

    fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.run_dir().join(path)
    }

    fn open(&self) -> Opened {
        let tasks = Tasks::new();
        let of_run =
            OfRun { id: self.id.clone(), name: Arc::default(), experiment: None, dir: self.run_dir() };
        let (store, run) = (self.store.clone(), of_run.clone());
        let find = move || match &store {
            None => Place::of_run(None, None, &run.id, &run.dir),
            Some(store) => Ok(Place::Remote(Remote {
                bucket: Bucket { store: store.clone(), kind: Kind::Memory, prefix: "p/default/run-1".into() },
                uri: "memory://p/default/run-1".into(),
            })),
        };
        let inner = Inner::new(self.options.clone(), of_run, self.clock.clone(), &tasks, Box::new(find));
        Opened { desk: Desk { inner }.named("a run"), tasks }
    }

    /// A directory with these files, outside of the run's.
    fn files(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let dir = self.dir.path().join("work").join(name);
        write_all(&dir, files);
        dir
    }
}

fn write_all(dir: &Path, files: &[(&str, &str)]) {
    for (path, bytes) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn shard(attempt: u32, rank: u32, step: u64, path: PathBuf) -> Shard {
    let handed = HandedShard { path, upload_mode: UploadMode::Sync, delete_local: false, ranks: None };
    Shard { attempt, rank, step, metrics: vec![], handed }
}

impl Opened {
    async fn begin(&self, attempt: u32, world_size: u32) -> Resume {
        timeout(LIMIT, self.desk.begin_attempt(attempt, world_size)).await.unwrap().unwrap()
    }

    async fn hand(&self, shard: Shard) -> Result<(), String> {
        timeout(LIMIT, self.desk.hand_in(shard)).await.unwrap().unwrap()
    }

    async fn close(&self, attempt: u32) {
        timeout(LIMIT, self.desk.close_attempt(attempt, Wait::Uploads)).await.unwrap().unwrap();
    }

    /// One rank hands one checkpoint in, with this metric `a`, and all that follows is done.
    async fn one(&self, run: &Run, attempt: u32, step: u64, a: f64) {
        let path = run.files(&format!("step-{step}"), &[("weights", &format!("weights of {step}"))]);
        let shard = Shard { metrics: vec![("a".into(), a)], ..shard(attempt, 0, step, path) };
        self.hand(shard).await.unwrap();
        self.settled().await;
    }

    async fn settled(&self) {
        timeout(LIMIT, self.desk.inner.until(|inner| inner.is_idle(Wait::Uploads))).await.unwrap();
    }

    fn states(&self) -> BTreeMap<u64, CheckpointState> {
        self.desk.all().into_iter().map(|c| (c.number, c.record.state)).collect()
    }

    /// Waits for an event that this takes something of.
    async fn event<T>(&self, mut pick: impl FnMut(CheckpointEvent) -> Option<T>) -> T {
        let wait = async {
            loop {
                if let Some(picked) = pick(self.desk.event().await) {
                    return picked;
                }
            }
        };
        timeout(LIMIT, wait).await.unwrap()
    }
}

fn keep(n: u32) -> CheckpointOptions {
    let retention =
        Retention { num_to_keep: Some(n), score_attribute: Some("a".into()), score_order: ScoreOrder::Max };
    CheckpointOptions { retention, ..CheckpointOptions::default() }
}

/// All files below a directory, with their bytes.
fn tree(dir: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                all.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    all
}
