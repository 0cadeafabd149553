//! The files of runs: how large they are, and their end.

use std::{io, os::unix::fs::MetadataExt, path::Path};

use tracing::warn;

use super::DataDir;
use crate::base::RunId;

impl DataDir {
    /// Size of a run's files.
    pub(super) fn run_size(&self, run: &RunId) -> u64 {
        size(&self.run_dir(run))
    }

    /// Deletes a run's files; what that freed. What cannot be deleted stays for the next time.
    pub(super) fn remove_run(&self, run: &RunId) -> u64 {
        let dir = self.run_dir(run);
        let bytes = size(&dir);
        match std::fs::remove_dir_all(&dir) {
            Ok(()) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(e) => {
                warn!(run.id = %run, "the files of run {run} stay: {e}");
                bytes.saturating_sub(size(&dir))
            }
        }
    }
}

/// Bytes that the files below a directory take; links are not followed.
pub(super) fn size(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size(&entry.path()),
        // A log whose middle was left out is long but takes little.
        Ok(meta) => meta.len().min(meta.blocks().saturating_mul(512)),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}
