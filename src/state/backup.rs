//! Backups of a data directory, made while a head serves it: the store as it was at one moment, then the files of the
//! runs. A backup gets its name when it is whole and on the disk, so that a broken-off one is never mistaken for one.

use std::{
    fs::{DirBuilder, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use tokio_util::sync::CancellationToken;

use super::{DataDir, StateError, blocking::blocking, files::size};
use crate::{
    base::sparse::{next_data, next_hole},
    store::{StoreError, backup},
};

/// So much of a file is copied before anybody looks whether to stop.
const PIECE: u64 = 64 * 1024 * 1024;

/// Which files go into a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupFiles {
    /// The logs and checkpoints of all runs.
    All,
    /// None: the records alone.
    None,
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupStage {
    /// The store is copied.
    Store,
    /// The files are copied.
    Files {
        /// Bytes that were copied.
        done_bytes: u64,
        /// Bytes that there were at the beginning.
        all_bytes: u64,
    },
    /// The copy of the store is checked, and all of it is brought to the disk.
    Check,
}

/// A finished backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Where it is.
    pub path: PathBuf,
    /// Version of its store.
    pub version: i64,
    /// How many runs it holds, with those in the trash.
    pub runs: u64,
    /// Size of its store, bytes.
    pub database_bytes: u64,
    /// How many files it has besides.
    pub files: u64,
    /// Their size, bytes.
    pub files_bytes: u64,
}

/// Why there is no backup. Nothing of it stays.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to back up.
    #[error("there is no store in {0}; say --data-dir")]
    NoStore(PathBuf),
    /// It cannot be put there.
    #[error("no backup can be put at {path}: {why}")]
    Destination {
        /// Where.
        path: PathBuf,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// The copy of the store has faults.
    #[error("the copy of the store is not sound, so no backup was made: 'trainhead doctor --full' says more")]
    NotSound(#[source] StateError),
    /// The store cannot be read, or its copy not be written.
    #[error("the store cannot be copied")]
    Store(#[source] StateError),
    /// A file cannot be read or written.
    #[error("{path} cannot be copied")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody asked to stop.
    #[error("the backup was broken off, and nothing of it is left")]
    Stopped,
}

/// Writes a backup of a data directory to `dest`, which must not exist or be empty; `stage` hears how far it is.
///
/// # Errors
/// When it cannot be made, or `stop` was cancelled. Nothing of it stays then.
pub async fn back_up(
    data_dir: &DataDir,
    dest: &Path,
    files: BackupFiles,
    stop: &CancellationToken,
    stage: impl Fn(BackupStage) + Send + Sync + 'static,
) -> Result<Backup, BackupError> {
    let store = |e: StoreError| BackupError::Store(e.into());
    if !data_dir.database().is_file() {
        return Err(BackupError::NoStore(data_dir.root().to_owned()));
    }
    let dest = destination(data_dir, dest)?;
    let unfinished = Unfinished::make(&dest)?;
    let (source, database) = (data_dir.database(), unfinished.0.join("trainhead.db"));
    stage(BackupStage::Store);
    tokio::select! {
        copied = backup::copy(&source, &database) => copied.map_err(store)?,
        () = stop.cancelled() => return Err(BackupError::Stopped),
    }
    let (from, to) = (data_dir.root().join("runs"), unfinished.0.join("runs"));
    let stop = stop.clone();
    let mut copy = Copying { stop, stage: Box::new(stage), all_bytes: 0, files: 0, bytes: 0 };
    let copy = blocking(move || {
        make_dir(&to)?;
        if files == BackupFiles::All {
            copy.all_bytes = size(&from);
            copy.tree(&from, &to)?;
        }
        (copy.stage)(BackupStage::Check);
        Ok(copy)
    })
    .await
    .map_err(BackupError::Store)??;
    let checked = backup::check(&database).await.map_err(|e| BackupError::NotSound(e.into()))?;
    let database_bytes = database.metadata().map_err(at(&database))?.len();
    let path = blocking(move || unfinished.finish(dest)).await.map_err(BackupError::Store)??;
    Ok(Backup {
        path,
        version: checked.version,
        runs: checked.runs,
        database_bytes,
        files: copy.files,
        files_bytes: copy.bytes,
    })
}

/// Where the backup goes, as an absolute path.
fn destination(data_dir: &DataDir, dest: &Path) -> Result<PathBuf, BackupError> {
    let not = |why| BackupError::Destination { path: dest.to_owned(), why };
    let path = if dest.symlink_metadata().is_ok() {
        let path = dest.canonicalize().map_err(at(dest))?;
        let mut entries =
            path.read_dir().map_err(|_| not("it exists and is not a directory: name a new one"))?;
        if entries.next().is_some() {
            return Err(not("it is not empty: name a directory that does not exist"));
        }
        let device = |path: &Path| path.metadata().map(|m| m.dev()).ok();
        if path.parent().is_none_or(|parent| device(parent) != device(&path)) {
            return Err(not("a file system is mounted there: name a directory in it"));
        }
        path
    } else {
        let parent = dest.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = dest.file_name().ok_or_else(|| not("name a directory"))?;
        let parent =
            parent.canonicalize().map_err(|_| not("the directory that it goes into does not exist"))?;
        parent.join(name)
    };
    if path.starts_with(data_dir.root()) {
        return Err(not("it lies in the data directory and would be lost with it: name one elsewhere"));
    }
    Ok(path)
}

/// A backup in the making; what is not finished is removed.
struct Unfinished(PathBuf);

impl Unfinished {
    fn make(dest: &Path) -> Result<Self, BackupError> {
        let name = dest.file_name().unwrap_or_default().to_string_lossy();
        let path = dest.with_file_name(format!(".{name}.unfinished-{}", std::process::id()));
        // Its owner's alone: the store holds the signing key.
        DirBuilder::new().mode(0o700).create(&path).map_err(at(&path))?;
        Ok(Self(path))
    }

    /// Brings all of it to the disk and gives it its name.
    fn finish(mut self, dest: PathBuf) -> Result<PathBuf, BackupError> {
        let root = File::open(&self.0).map_err(at(&self.0))?;
        // One call for all files: an fsync for each of many logs takes many times as long.
        rustix::fs::syncfs(&root).map_err(io::Error::from).map_err(at(&self.0))?;
        std::fs::rename(&self.0, &dest).map_err(at(&dest))?;
        self.0 = PathBuf::new();
        let parent = dest.parent().unwrap_or(Path::new("/"));
        File::open(parent).and_then(|dir| dir.sync_all()).map_err(at(parent))?;
        Ok(dest)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            // What stays after all has a name that says what it is.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Copying files, off the runtime.
struct Copying {
    stop: CancellationToken,
    stage: Box<dyn Fn(BackupStage) + Send + Sync>,
    all_bytes: u64,
    files: u64,
    bytes: u64,
}

impl Copying {
    /// Copies what is in a directory. What vanishes meanwhile was deleted with its run and is left out.
    fn tree(&mut self, from: &Path, to: &Path) -> Result<(), BackupError> {
        let entries = match from.read_dir() {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(at(from)(e)),
        };
        for entry in entries {
            let entry = entry.map_err(at(from))?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().map_err(at(&from))?;
            if kind.is_dir() {
                make_dir(&to)?;
                self.tree(&from, &to)?;
            } else if kind.is_symlink() {
                // The link itself, wherever it leads.
                let link = std::fs::read_link(&from).map_err(at(&from))?;
                std::os::unix::fs::symlink(link, &to).map_err(at(&to))?;
            } else if kind.is_file() {
                match self.file(&from, &to) {
                    Err(BackupError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                    done => done?,
                }
            }
            // Sockets and pipes belong to processes and not to a backup.
        }
        Ok(())
    }

    /// Copies a file up to the size that it has now, with its rights and its time.
    fn file(&mut self, from: &Path, to: &Path) -> Result<(), BackupError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let source = rustix::fs::open(from, flags, Mode::empty()).map_err(io::Error::from);
        let source: File = source.map_err(at(from))?.into();
        let meta = source.metadata().map_err(at(from))?;
        let target = File::create_new(to).map_err(at(to))?;
        let (size, mut next) = (meta.len(), 0);
        // What is missing in the middle of a long log is missing in its copy too.
        while let Some(data) = next_data(&source, next).map_err(at(from))?.filter(|data| *data < size) {
            if self.stop.is_cancelled() {
                return Err(BackupError::Stopped);
            }
            let end = next_hole(&source, data).map_err(at(from))?.min(size).min(data.saturating_add(PIECE));
            (&source).seek(SeekFrom::Start(data)).map_err(at(from))?;
            (&target).seek(SeekFrom::Start(data)).map_err(at(to))?;
            let mut piece = (&source).take(end.saturating_sub(data));
            let copied = io::copy(&mut piece, &mut &target).map_err(at(to))?;
            if copied == 0 && end > data {
                // It became shorter. Else it was made a hole just now.
                break;
            }
            next = data + copied;
            self.bytes += copied;
            let Self { stage, all_bytes, bytes, .. } = self;
            stage(BackupStage::Files { done_bytes: *bytes, all_bytes: *all_bytes });
        }
        // A hole at the end, and none to write into.
        target.set_len(size.max(next)).map_err(at(to))?;
        self.files += 1;
        target.set_permissions(meta.permissions()).map_err(at(to))?;
        meta.modified().and_then(|time| target.set_modified(time)).map_err(at(to))
    }
}

fn make_dir(path: &Path) -> Result<(), BackupError> {
    std::fs::create_dir(path).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignore(_: BackupStage) {}

    #[tokio::test]
    async fn a_destination_that_is_taken_or_in_the_way_is_refused_before_anything_is_written() {
        let temp = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(&temp.path().join("data")).unwrap();
        let stop = CancellationToken::new();
        let to = async |dest: &Path| {
            let made = back_up(&data_dir, dest, BackupFiles::All, &stop, ignore).await;
            made.unwrap_err().to_string()
        };
        assert!(to(&temp.path().join("b")).await.contains("no store"));
        std::fs::write(data_dir.database(), "").unwrap();
        let full = temp.path().join("full");
        std::fs::create_dir(&full).unwrap();
        std::fs::write(full.join("mine"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", temp.path().join("link")).unwrap();
        for (dest, why) in [
            (full.clone(), "not empty"),
            (full.join("mine"), "not a directory"),
            (temp.path().join("a/b"), "does not exist"),
            (temp.path().join("link"), "cannot be copied"),
            (data_dir.root().join("b"), "lost with it"),
            (data_dir.root().join("runs/b"), "lost with it"),
            (PathBuf::from("/"), "not empty"),
        ] {
            let refused = to(&dest).await;
            assert!(refused.contains(why), "{}: {refused}", dest.display());
        }
        assert_eq!(temp.path().read_dir().unwrap().count(), 3);
    }

    #[test]
    fn files_are_copied_up_to_their_size_and_links_are_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("from"), temp.path().join("to"));
        std::fs::create_dir_all(from.join("r/logs")).unwrap();
        std::fs::create_dir(&to).unwrap();
        std::fs::write(from.join("r/logs/0"), "hello").unwrap();
        std::fs::write(temp.path().join("outside"), "secret").unwrap();
        std::os::unix::fs::symlink("../../outside", from.join("r/link")).unwrap();
        std::os::unix::fs::symlink("..", from.join("r/up")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(from.join("r/socket")).unwrap();
        let stop = CancellationToken::new();
        let mut copy = Copying { stop, stage: Box::new(ignore), all_bytes: 5, files: 0, bytes: 0 };
        copy.tree(&from, &to).unwrap();
        assert_eq!((copy.files, copy.bytes), (1, 5));
        assert_eq!(std::fs::read_to_string(to.join("r/logs/0")).unwrap(), "hello");
        assert_eq!(std::fs::read_link(to.join("r/link")).unwrap(), Path::new("../../outside"));
        assert!(!to.join("r/socket").exists());
        let modified = |dir: &Path| dir.join("r/logs/0").metadata().unwrap().modified().unwrap();
        assert_eq!(modified(&from), modified(&to));
        copy.stop.cancel();
        std::fs::remove_dir_all(&to).unwrap();
        std::fs::create_dir(&to).unwrap();
        assert!(matches!(copy.tree(&from, &to), Err(BackupError::Stopped)));
    }

    #[test]
    fn a_log_whose_middle_was_left_out_is_copied_without_it() {
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("from"), temp.path().join("to"));
        let (size, end) = (1 << 40, "the end\n");
        std::fs::write(&from, "the beginning\n".repeat(10_000)).unwrap();
        let mut log = File::options().write(true).open(&from).unwrap();
        log.seek(SeekFrom::Start(size)).unwrap();
        io::Write::write_all(&mut log, end.as_bytes()).unwrap();
        if next_hole(&log, 0).unwrap() > size {
            return eprintln!("skipped: the file system of the temporary directory has no holes");
        }
        let (stop, stage) = (CancellationToken::new(), Box::new(ignore));
        let mut copy = Copying { stop, stage, all_bytes: 0, files: 0, bytes: 0 };
        copy.file(&from, &to).unwrap();
        assert_eq!(to.metadata().unwrap().len(), size + 8);
        assert!(copy.bytes < 1 << 20 && to.metadata().unwrap().blocks() < 4096, "{}", copy.bytes);
        let mut last = String::new();
        let mut copied = File::open(&to).unwrap();
        copied.seek(SeekFrom::Start(size)).unwrap();
        copied.read_to_string(&mut last).unwrap();
        assert_eq!(last, end);
    }
}
