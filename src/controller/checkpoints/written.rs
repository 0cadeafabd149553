//! What is written beside the bytes, and read across releases: the manifest of a checkpoint, the snapshot of the ledger,
//! and what a run's directory is. Each says its own version; what is newer than this program is refused, not guessed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    base::{RunId, Timestamp, number},
    model::{Checkpoint, CheckpointState, RecordCheckpoint, metrics::MetricValue},
};

/// The last file of a checkpoint to be written: a directory or prefix without it is none.
pub(super) const MANIFEST: &str = "MANIFEST.json";
/// The ledger's snapshot.
pub(super) const SNAPSHOT: &str = "checkpoints.json";
/// The number of the next checkpoint, in the directory of a run that has its checkpoints elsewhere.
pub(super) const NEXT: &str = "next_checkpoint";
/// What a run's directory is.
pub(super) const RUN: &str = "run.json";
/// Where shards are on their way.
pub(super) const STAGING: &str = ".staging";

/// The newest form of all three that this program knows.
const VERSION: u32 = 1;

/// The name of a checkpoint's directory.
pub(super) fn dir_name(number: u64) -> String {
    format!("checkpoint_{number:06}")
}

/// The number of a checkpoint whose directory has this name.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("checkpoint_")?.parse().ok()?;
    (dir_name(number) == name).then_some(number)
}

/// What a checkpoint consists of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of this file.
    version: u32,
    /// The run that wrote it.
    pub run_id: RunId,
    /// Which of the run's checkpoints.
    pub number: u64,
    /// The step that it was taken at.
    pub step: u64,
    /// Ordinal of the attempt that wrote it, all of it.
    pub attempt: u32,
    /// The ranks that handed shards.
    pub ranks: Vec<u32>,
    /// What was reported with it.
    pub metrics: BTreeMap<String, MetricValue>,
    /// When it was whole.
    pub committed_at_ms: Timestamp,
    /// Its files, by path.
    pub files: Vec<ManifestFile>,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Where it lies, relative to the manifest.
    pub path: String,
    /// Its bytes.
    pub size_bytes: u64,
    /// Their hash.
    pub blake3: String,
    /// The rank that handed it.
    pub rank: u32,
}

impl Manifest {
    pub(super) fn new(run_id: RunId, ready: super::ledger::Ready, now: Timestamp) -> Self {
        let super::ledger::Ready { number, attempt, step, ranks, metrics } = ready;
        Self {
            version: VERSION,
            run_id,
            number,
            step,
            attempt,
            ranks,
            metrics,
            committed_at_ms: now,
            files: Vec::new(),
        }
    }

    /// Reads a manifest. No path in it leads out of its directory.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        check_version(bytes, MANIFEST)?;
        let manifest: Self =
            serde_json::from_slice(bytes).map_err(|e| format!("{MANIFEST} cannot be read: {e}"))?;
        match manifest.files.iter().find(|file| !is_inside(&file.path)) {
            Some(file) => Err(format!("{MANIFEST} names {:?}, which leads out of its directory", file.path)),
            None => Ok(manifest),
        }
    }

    /// All of its bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }

    /// What the ledger keeps of it.
    pub(super) fn record(&self, uri: String) -> RecordCheckpoint {
        RecordCheckpoint {
            state: CheckpointState::Committed,
            status_detail: None,
            step: self.step,
            attempt: self.attempt,
            uri,
            ranks: self.ranks.clone(),
            num_files: number::size(self.files.len()),
            size_bytes: self.size_bytes(),
            metrics: self.metrics.clone(),
            committed_at_ms: self.committed_at_ms,
        }
    }
}

impl ManifestFile {
    /// What is wrong with a file that has this size, if anything is.
    pub(super) fn wrong_size(&self, size: Result<u64, String>) -> Option<String> {
        match size {
            Ok(size) if size == self.size_bytes => None,
            Ok(size) => Some(format!("{} has {size} bytes in place of {}", self.path, self.size_bytes)),
            Err(e) => Some(format!("{}: {e}", self.path)),
        }
    }

    /// What is wrong with a file that has this size and hash, if anything is.
    pub(super) fn wrong_bytes(&self, (size, hash): (u64, String)) -> Option<String> {
        let of_size = self.wrong_size(Ok(size));
        of_size.or_else(|| (hash != self.blake3).then(|| format!("{} has other bytes", self.path)))
    }
}

/// Whether a path stays in the directory that it is relative to.
pub(super) fn is_inside(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|part| !matches!(part, "" | "." | "..")) && !path.contains('\0')
}

/// The ledger as it was last written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Snapshot {
    version: u32,
    pub(super) run_id: RunId,
    /// The number of the next checkpoint.
    pub(super) next_number: u64,
    written_at_ms: Timestamp,
    checkpoints: Vec<Kept>,
}

/// A checkpoint in the snapshot: a shape of its own, which changes only with the snapshot's version.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    number: u64,
    state: CheckpointState,
    #[serde(default)]
    status_detail: Option<String>,
    step: u64,
    attempt: u32,
    uri: String,
    ranks: Vec<u32>,
    num_files: u64,
    size_bytes: u64,
    metrics: BTreeMap<String, MetricValue>,
    committed_at_ms: Timestamp,
    #[serde(default)]
    pinned: bool,
}

impl Snapshot {
    pub(super) fn new(run_id: RunId, next_number: u64, now: Timestamp, all: Vec<Checkpoint>) -> Self {
        let checkpoints = all.into_iter().map(Kept::from).collect();
        Self { version: VERSION, run_id, next_number, written_at_ms: now, checkpoints }
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        check_version(bytes, SNAPSHOT)?;
        serde_json::from_slice(bytes).map_err(|e| format!("{SNAPSHOT} cannot be read: {e}"))
    }

    pub(super) fn into_checkpoints(self) -> Vec<Checkpoint> {
        self.checkpoints.into_iter().map(Checkpoint::from).collect()
    }
}

impl From<Checkpoint> for Kept {
    fn from(checkpoint: Checkpoint) -> Self {
        let Checkpoint { number, record, pinned } = checkpoint;
        let RecordCheckpoint {
            state,
            status_detail,
            step,
            attempt,
            uri,
            ranks,
            num_files,
            size_bytes,
            metrics,
            committed_at_ms,
        } = record;
        Self {
            number,
            state,
            status_detail,
            step,
            attempt,
            uri,
            ranks,
            num_files,
            size_bytes,
            metrics,
            committed_at_ms,
            pinned,
        }
    }
}

impl From<Kept> for Checkpoint {
    fn from(kept: Kept) -> Self {
        let Kept {
            number,
            state,
            status_detail,
            step,
            attempt,
            uri,
            ranks,
            num_files,
            size_bytes,
            metrics,
            committed_at_ms,
            pinned,
        } = kept;
        let record = RecordCheckpoint {
            state,
            status_detail,
            step,
            attempt,
            uri,
            ranks,
            num_files,
            size_bytes,
            metrics,
            committed_at_ms,
        };
        Self { number, record, pinned }
    }
}

/// What a run's directory is, for who finds it without us.
#[derive(Debug, Serialize)]
pub(super) struct RunCard<'a> {
    version: u32,
    what: &'static str,
    run_id: &'a RunId,
    name: Option<&'a str>,
    experiment: Option<&'a str>,
    start_time: String,
    layout: BTreeMap<&'static str, &'static str>,
}

impl<'a> RunCard<'a> {
    pub(super) fn new(
        run_id: &'a RunId,
        name: Option<&'a str>,
        experiment: Option<&'a str>,
        start: Timestamp,
    ) -> Self {
        let layout = BTreeMap::from([
            ("checkpoint_NNNNNN/", "a checkpoint: whole if it has a MANIFEST.json, else none"),
            (
                "checkpoint_NNNNNN/MANIFEST.json",
                "its files with sizes and BLAKE3 hashes, step, attempt, metrics",
            ),
            ("checkpoints.json", "all checkpoints of the run, and where they stand"),
            (".staging/", "shards on their way; of no use without the run's controller"),
        ]);
        Self {
            version: VERSION,
            what: "a training run of TrainHead",
            run_id,
            name,
            experiment,
            start_time: start.to_string(),
            layout,
        }
    }
}

/// JSON that people can read.
pub(super) fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn check_version(bytes: &[u8], name: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } =
        serde_json::from_slice(bytes).map_err(|e| format!("{name} cannot be read: {e}"))?;
    if version > VERSION {
        return Err(format!(
            "{name} has version {version} and this program reads up to {VERSION}: it is of a newer TrainHead, and is \
             left as it is"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_from_its_own_name_alone() {
        for number in [0, 12, 999_999, 1_000_000] {
            assert_eq!(number_of(&dir_name(number)), Some(number));
        }
        for other in ["checkpoint_12", "checkpoint_+00012", "checkpoint_", "checkpoint_000012.old", "x"] {
            assert_eq!(number_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_newer_is_refused_with_both_versions_and_no_path_leads_out() {
        let newer = Snapshot::parse(br#"{"version": 2, "else": 1}"#).unwrap_err();
        assert!(newer.contains("version 2") && newer.contains("up to 1"), "{newer}");
        for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/"] {
            assert!(!is_inside(bad), "{bad}");
        }
        assert!(is_inside("a/b.c/..d"));
    }

    #[test]
    fn a_snapshot_of_the_first_release_is_read() {
        let first = br#"{"version": 1, "run_id": "r", "next_number": 3, "written_at_ms": 1, "more": true,
            "checkpoints": [{"number": 2, "state": "VALIDATED", "step": 7, "attempt": 1, "uri": "/c", "ranks": [0],
            "num_files": 1, "size_bytes": 5, "metrics": {"a": "NaN"}, "committed_at_ms": 1, "more": 1}]}"#;
        let snapshot = Snapshot::parse(first).unwrap();
        assert_eq!(snapshot.next_number, 3);
        let all = snapshot.into_checkpoints();
        assert_eq!((all[0].number, all[0].record.state), (2, CheckpointState::Validated));
    }
}
