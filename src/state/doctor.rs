//! What is wrong with the store of a data directory, for `trainhead doctor`. It looks beside whoever serves the directory
//! and changes nothing.

use std::collections::HashSet;

use super::{DataDir, StateError, blocking::blocking, files::size, start::DOCUMENTS};
use crate::{
    base::{Timestamp, error::chain},
    store::{Depth, Examined, StoredRun, Writers},
};

/// Faulty runs that are named.
const NAMED: usize = 20;

/// What was found in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// Its version.
    pub version: i64,
    /// The newest version that this program knows.
    pub known_version: i64,
    /// What is wrong with the file; at most 20.
    pub faults: Vec<String>,
    /// What is in it; none if this program reads it only after a migration, or not at all.
    pub contents: Option<StoreContents>,
}

/// What is in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreContents {
    /// How many runs, with those in the trash.
    pub runs: usize,
    /// How many of them are live.
    pub live_runs: u64,
    /// How many are faulty.
    pub faulty_runs: usize,
    /// The first 20 faulty ones: `<id>: <what is wrong>`.
    pub faults: Vec<String>,
    /// When the newest event of the trail was.
    pub newest_event: Option<Timestamp>,
    /// Directories under `runs/` of runs that are not in it.
    pub unknown_dirs: usize,
    /// Size of their files, bytes.
    pub unknown_bytes: u64,
}

/// Looks at the store of a data directory. `progress` hears how many runs were looked at.
///
/// # Errors
/// When it cannot be opened or read.
pub async fn examine(
    data_dir: &DataDir,
    depth: Depth,
    progress: impl Fn(usize),
) -> Result<StoreReport, StateError> {
    if writers(data_dir) == Writers::None {
        let found = look(data_dir, Writers::None, depth, &progress).await;
        // If a head started meanwhile, what was found may be half of a change.
        if writers(data_dir) == Writers::None {
            return found;
        }
    }
    look(data_dir, Writers::Maybe, depth, &progress).await
}

fn writers(data_dir: &DataDir) -> Writers {
    let waits = data_dir.root().join("trainhead.db-wal").metadata().is_ok_and(|wal| wal.len() > 0);
    match data_dir.is_held() {
        Ok(false) if !waits => Writers::None,
        _ => Writers::Maybe,
    }
}

async fn look(
    data_dir: &DataDir,
    writers: Writers,
    depth: Depth,
    progress: impl Fn(usize),
) -> Result<StoreReport, StateError> {
    let mut store = Examined::open(&data_dir.database(), writers).await?;
    let mut report = StoreReport {
        version: store.version,
        known_version: store.known,
        faults: store.faults(depth).await?,
        contents: None,
    };
    if store.version != store.known {
        return Ok(report);
    }
    // Documents of an earlier shape are made anew at the next start.
    let compare = store.head_value("documents").await?.as_deref() == Some(DOCUMENTS);
    let mut contents = StoreContents {
        live_runs: u64::try_from(store.live_runs().await?).unwrap_or(0),
        newest_event: store.newest_event().await?,
        ..StoreContents::default()
    };
    let (mut after, mut ids) = (String::new(), HashSet::new());
    loop {
        let runs = store.runs(&after).await?;
        let Some(last) = runs.last() else { break };
        after.clone_from(&last.id);
        for run in runs {
            if let Some(what) = fault(&run, compare) {
                contents.faulty_runs += 1;
                if contents.faults.len() < NAMED {
                    contents.faults.push(format!("{}: {what}", run.id));
                }
            }
            ids.insert(run.id);
        }
        progress(ids.len());
    }
    contents.runs = ids.len();
    let data_dir = data_dir.clone();
    (contents.unknown_dirs, contents.unknown_bytes) = blocking(move || unknown(&data_dir, &ids)).await?;
    report.contents = Some(contents);
    Ok(report)
}

/// What is wrong with a run.
fn fault(run: &StoredRun, compare: bool) -> Option<String> {
    let record = match &run.record {
        Ok(record) => record,
        Err(e) => return Some(chain(e)),
    };
    if let Err(what) = record.check_invariants() {
        return Some(format!("it breaks the rule that {what}"));
    }
    // Of a live run nothing is written that lists show.
    let listed = compare && record.run.phase.is_terminal();
    (listed && run.doc != record.document()).then(|| "lists show it otherwise than it is".to_owned())
}

/// Directories of runs that are not in the store: how many, and the size of their files.
fn unknown(data_dir: &DataDir, ids: &HashSet<String>) -> (usize, u64) {
    let entries = data_dir.root().join("runs").read_dir().into_iter().flatten().flatten();
    let unknown = entries.filter(|e| e.file_name().to_str().is_none_or(|name| !ids.contains(name)));
    unknown.fold((0, 0), |(n, bytes), entry| (n + 1, bytes + size(&entry.path())))
}
