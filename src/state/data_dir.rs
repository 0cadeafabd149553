//! The data directory: who holds it, and where things lie in it. Names from requests never become paths: run ids are
//! checked by their type, and files are opened beneath the directory by the kernel's own rule.

use std::{
    fs::{DirBuilder, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::{Deserialize, Serialize};

use crate::base::{RunId, Timestamp};

/// A data directory.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

/// The lock of a data directory, held as long as this lives. The kernel lets go of it whatever ends the process.
#[derive(Debug)]
pub struct DataDirLock {
    _file: File,
}

/// What a running head says about itself in `head.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeadInfo {
    /// Its address, `http://127.0.0.1:8420`.
    pub url: String,
    /// Its process id.
    pub pid: u32,
    /// When it began to answer.
    pub started_ms: Timestamp,
    /// Its version.
    pub version: String,
}

impl DataDir {
    /// Opens a data directory, creating it for its owner alone: the store holds the key that tokens are made with.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn open(root: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        std::fs::create_dir_all(root.join("runs"))?;
        Ok(Self { root: root.canonicalize()? })
    }

    /// A data directory that exists, which is not changed.
    ///
    /// # Errors
    /// When there is none.
    pub fn existing(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        if root.is_dir() { Ok(Self { root }) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Its path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Free space of its file system, bytes, for who has no privileges.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.root).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join("trainhead.db")
    }

    /// Where one rank's log of one attempt lies, relative to the directory.
    #[must_use]
    pub fn log(run: &RunId, attempt: u32, rank: u32) -> PathBuf {
        PathBuf::from(format!("runs/{run}/logs/{attempt}/rank_{rank}.log"))
    }

    /// The directory of a run.
    #[must_use]
    pub fn run_dir(&self, run: &RunId) -> PathBuf {
        self.root.join("runs").join(run.as_str())
    }

    /// Where one rank of one attempt may say what was wrong with it (`TORCHELASTIC_ERROR_FILE`).
    #[must_use]
    pub fn error_file(&self, run: &RunId, attempt: u32, rank: u32) -> PathBuf {
        self.run_dir(run).join(format!("errors/{attempt}/rank_{rank}.json"))
    }

    /// Opens a file beneath the directory for reading; no link may lead out of it.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn open_beneath(&self, path: &Path) -> io::Result<File> {
        let root = File::open(&self.root)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve)?.into())
    }

    /// Opens a file beneath the directory for writing, and makes it and its directories if they are not there. No part of
    /// the path may be a link.
    ///
    /// # Errors
    /// When a part is a link, or the file cannot be made or written.
    pub fn create_beneath(&self, path: &Path) -> io::Result<File> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let mut dir = File::open(&self.root)?;
        for part in path.parent().into_iter().flat_map(Path::components) {
            match rustix::fs::mkdirat(&dir, part.as_os_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            dir = rustix::fs::openat2(&dir, part.as_os_str(), flags, Mode::empty(), resolve)?.into();
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&dir, name, flags, Mode::from_raw_mode(0o644), resolve)?.into())
    }

    /// Takes the directory's lock; none if another process holds it.
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub fn try_lock(&self) -> io::Result<Option<DataDirLock>> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.root.join("trainhead.lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(DataDirLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    /// Whether a process holds the directory's lock. Nothing is created, and the lock is let go of at once.
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub fn is_held(&self) -> io::Result<bool> {
        let file = match File::open(self.root.join("trainhead.lock")) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    /// What the head that serves this directory says about itself.
    #[must_use]
    pub fn head_info(&self) -> Option<HeadInfo> {
        serde_json::from_slice(&std::fs::read(self.root.join("head.json")).ok()?).ok()
    }

    /// Says who serves this directory; replaced as a whole, so that no reader sees half of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_head_info(&self, info: &HeadInfo) -> io::Result<()> {
        let next = self.root.join("head.json.new");
        std::fs::write(&next, serde_json::to_vec(info)?)?;
        std::fs::rename(next, self.root.join("head.json"))
    }

    /// Says that nobody serves this directory any more.
    pub fn clear_head_info(&self) {
        // If it stays, whoever reads it finds nobody at its address and the lock free.
        let _ = std::fs::remove_file(self.root.join("head.json"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_leads_out_of_the_directory() {
        let outside = tempfile::NamedTempFile::new().unwrap();
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        let run = RunId::parse("r").unwrap();
        let log = DataDir::log(&run, 0, 0);
        std::fs::create_dir_all(dir.root().join(&log).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.root().join(&log)).unwrap();
        assert!(dir.open_beneath(&log).is_err());
        std::fs::remove_file(dir.root().join(&log)).unwrap();
        std::fs::write(dir.root().join(&log), "x").unwrap();
        assert!(dir.open_beneath(&log).is_ok());
    }

    #[test]
    fn a_directory_has_one_holder() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        let lock = dir.try_lock().unwrap().unwrap();
        assert!(dir.try_lock().unwrap().is_none());
        drop(lock);
        assert!(dir.try_lock().unwrap().is_some());
    }
}
