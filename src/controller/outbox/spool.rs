//! The part of the queue that is on disk: segments, each a file that is written once as JSON lines, read once, and
//! removed when it is delivered. Nothing is synced: it outlives the head's absence, not this process.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use super::item::Item;
use crate::base::number::size;

/// Where segments are.
#[derive(Clone, Debug)]
pub(super) struct Spool {
    dir: PathBuf,
}

impl Spool {
    pub(super) fn new(run_dir: &Path) -> Self {
        Self { dir: run_dir.join("spool") }
    }

    /// Removes what an earlier controller of the run left. Its verbs are of another epoch.
    pub(super) fn clear(&self) {
        // None as a rule; if it cannot be removed, segments of the same number are replaced.
        let _ = fs::remove_dir_all(&self.dir);
    }

    /// Writes a segment; how many bytes it has.
    pub(super) fn write(&self, number: u64, items: &[Item]) -> io::Result<u64> {
        fs::create_dir_all(&self.dir)?;
        let path = self.path(number);
        let written = write_lines(&path, items);
        if written.is_err() {
            // A part of a segment is of no use.
            let _ = fs::remove_file(&path);
        }
        written
    }

    /// What a segment has, and how many of its lines could not be read.
    pub(super) fn read(&self, number: u64) -> io::Result<(Vec<Item>, u64)> {
        let mut bad = 0;
        let text = fs::read(self.path(number))?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let items = lines.filter_map(|line| serde_json::from_slice(line).inspect_err(|_| bad += 1).ok());
        Ok((items.collect(), bad))
    }

    /// Removes a segment that was delivered, and the directory with the last one.
    pub(super) fn remove(&self, number: u64) {
        // Both are in nobody's way if they stay; a directory that is not empty is not removed.
        let _ = fs::remove_file(self.path(number));
        let _ = fs::remove_dir(&self.dir);
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:012}.jsonl"))
    }
}

fn write_lines(path: &Path, items: &[Item]) -> io::Result<u64> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut bytes = 0;
    for item in items {
        let mut line = serde_json::to_vec(item)?;
        line.push(b'\n');
        file.write_all(&line)?;
        bytes += size(line.len());
    }
    file.flush()?;
    Ok(bytes)
}
