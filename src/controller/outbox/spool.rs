//! A spool: what there is to say to the head, in a directory. `spool.json` says whose it is, segments are JSON lines,
//! an [`Item`] each, in the order of their names. Whoever writes or delivers it holds a lock on the file `lock` beside
//! them. The Python client writes the same. Nothing is synced: it outlives processes, not the power.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::item::Item;
use crate::{
    base::{RunId, Secret, number::size},
    model::commands::RegisterRun,
};

/// The version of the format.
pub(super) const VERSION: u32 = 1;
/// What says whose a spool is.
const ABOUT: &str = "spool.json";
/// Held by whoever writes or delivers it.
const LOCK: &str = "lock";
/// What the lock's file says while somebody delivers.
const DELIVERS: &str = "deliver";
/// So much of a segment is in memory at a time, roughly.
const CHUNK_BYTES: u64 = 4 * 1024 * 1024;

/// Whose a spool is: `spool.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    /// The version of the format.
    pub version: u32,
    /// The run.
    pub run_id: RunId,
    /// The head that it is for; that of the data directory if none.
    #[serde(default)]
    pub head: Option<String>,
    /// How the run was registered, or was to be.
    pub register: RegisterRun,
    /// The token of that registration, once it is known.
    #[serde(default)]
    pub controller_token: Option<Secret>,
}

/// A spool whose lock we hold.
#[derive(Debug)]
pub(super) struct Spool {
    dir: PathBuf,
    lock: File,
}

/// What is found of a spool that somebody left.
#[derive(Debug)]
pub(super) enum Found {
    /// It is ours to deliver.
    Here(Spool, Box<About>),
    /// Its writer lives.
    Written,
    /// Somebody else delivers it.
    Delivered,
    /// There is none, or none any more.
    Nothing,
}

/// Which lines of a segment are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// All but metrics, which are most of it.
    Verbs,
}

impl Spool {
    /// Makes a spool in the first of these directories that is not there.
    pub(super) fn create(dirs: &[PathBuf], about: &About) -> io::Result<Self> {
        let mut dirs = dirs.iter().peekable();
        while let Some(dir) = dirs.next() {
            match DirBuilder::new().mode(0o700).create(dir) {
                Err(e)
                    if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() && dirs.peek().is_some() => {}
                Err(e) => return Err(e),
                Ok(()) => {
                    // Nobody looks at it before it has its `spool.json`.
                    let lock = open_lock(dir)?;
                    lock.try_lock().map_err(io::Error::from)?;
                    let spool = Self { dir: dir.clone(), lock };
                    spool.write_about(about)?;
                    return Ok(spool);
                }
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Opens a spool that somebody left, to deliver it.
    pub(super) fn open(dir: &Path) -> io::Result<Found> {
        if !dir.join(ABOUT).exists() {
            return Ok(Found::Nothing);
        }
        let lock = match open_lock(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            lock => lock?,
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut word = String::new();
                // What cannot be read is not that word.
                let _ = lock.take(64).read_to_string(&mut word);
                return Ok(if word.trim() == DELIVERS { Found::Delivered } else { Found::Written });
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
        // Whoever held it may have removed it all meanwhile, and another one may have begun anew.
        let (ours, there) = (lock.metadata()?, fs::metadata(dir.join(LOCK)));
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok(Found::Nothing);
        }
        let spool = Self { dir: dir.to_owned(), lock };
        let text = match fs::read(dir.join(ABOUT)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                spool.remove();
                return Ok(Found::Nothing);
            }
            text => text?,
        };
        let about: About = serde_json::from_slice(&text)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("{ABOUT}: {e}")))?;
        if about.version != VERSION {
            let what = format!("{ABOUT} has version {}, and this program knows {VERSION}", about.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        spool.lock.set_len(0)?;
        (&spool.lock).write_all(DELIVERS.as_bytes())?;
        Ok(Found::Here(spool, Box::new(about)))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Says whose it is; replaced as a whole, so that no reader sees half of it. It has a secret in it.
    pub(super) fn write_about(&self, about: &About) -> io::Result<()> {
        let next = self.dir.join("spool.json.new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&next)?;
        file.write_all(&serde_json::to_vec(about)?)?;
        fs::rename(next, self.dir.join(ABOUT))
    }

    /// Its segments, oldest first, with their sizes.
    pub(super) fn segments(&self) -> io::Result<BTreeMap<u64, u64>> {
        let mut segments = BTreeMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.parse().ok());
            if let Some(number) = number {
                segments.insert(number, entry.metadata()?.len());
            }
        }
        Ok(segments)
    }

    /// Adds items to a segment, which is made if it is not there; how many bytes they have.
    pub(super) fn append(&self, number: u64, items: &[Item]) -> io::Result<u64> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path(number))?;
        let before = file.seek(io::SeekFrom::End(0))?;
        let written = write_lines(&file, items);
        if written.is_err() {
            // Half of what was to be added is of no use, and half a line less.
            let _ = if before == 0 { fs::remove_file(self.path(number)) } else { file.set_len(before) };
        }
        written
    }

    /// Opens a segment to read it.
    pub(super) fn read(&self, number: u64) -> io::Result<Segment> {
        Ok(Segment { lines: BufReader::new(File::open(self.path(number))?), bad: 0, done: false })
    }

    /// Removes a segment that was delivered.
    pub(super) fn remove_segment(&self, number: u64) {
        // It is in nobody's way if it stays: it is delivered once more then, which changes nothing.
        let _ = fs::remove_file(self.path(number));
    }

    /// Removes all of it.
    pub(super) fn remove(self) {
        for number in self.segments().unwrap_or_default().into_keys() {
            self.remove_segment(number);
        }
        // The lock goes last, and with it the directory, unless there is something else in it.
        for name in ["spool.json.new", ABOUT, LOCK] {
            let _ = fs::remove_file(self.dir.join(name));
        }
        let _ = fs::remove_dir(&self.dir);
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:012}.jsonl"))
    }
}

/// A segment that is being read.
#[derive(Debug)]
pub(super) struct Segment {
    lines: BufReader<File>,
    /// Lines that could not be read.
    pub(super) bad: u64,
    done: bool,
}

impl Segment {
    /// The next part of it; none when there is nothing more. What a crash has cut off at its end was never written.
    pub(super) fn chunk(&mut self, wanted: Wanted) -> io::Result<Option<Vec<Item>>> {
        let (mut items, mut bytes, mut line) = (Vec::new(), 0, Vec::new());
        while !self.done && bytes < CHUNK_BYTES {
            line.clear();
            let read = self.lines.read_until(b'\n', &mut line)?;
            self.done = !line.ends_with(b"\n");
            bytes += size(read);
            let text = line.trim_ascii();
            if text.is_empty() || (wanted == Wanted::Verbs && text.starts_with(b"{\"report\"")) {
                continue;
            }
            match serde_json::from_slice(text) {
                Ok(item) => items.push(item),
                Err(_) if self.done => {}
                Err(_) => self.bad += 1,
            }
        }
        Ok((!self.done || !items.is_empty()).then_some(items))
    }

    /// All of it.
    pub(super) fn all(mut self) -> io::Result<(Vec<Item>, u64)> {
        let mut items = Vec::new();
        while let Some(more) = self.chunk(Wanted::All)? {
            items.extend(more);
        }
        Ok((items, self.bad))
    }
}

fn open_lock(dir: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).open(dir.join(LOCK))
}

fn write_lines(file: &File, items: &[Item]) -> io::Result<u64> {
    let mut file = BufWriter::new(file);
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
