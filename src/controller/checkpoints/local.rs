//! Checkpoints in a directory. What is written here appears by a rename, whole or not at all.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use super::written::{MANIFEST, Manifest, RUN, STAGING, dir_name, number_of, to_json};

/// Where what is deleted lies until all of its files are.
const DELETED: &str = "deleted";

/// A run's directory. Everything here blocks.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) root: PathBuf,
}

impl Local {
    /// Makes the directory, and says in it what it is.
    pub(super) fn prepare(&self, card: &[u8]) -> Result<(), String> {
        DirBuilder::new().recursive(true).create(&self.root).map_err(|e| self.said("", &e))?;
        let has_card = self.root.join(RUN).try_exists().map_err(|e| self.said(RUN, &e))?;
        if has_card { Ok(()) } else { self.write(RUN, card) }
    }

    /// The directory of a checkpoint.
    pub(super) fn dir(&self, number: u64) -> PathBuf {
        self.root.join(dir_name(number))
    }

    /// Where the shards of a checkpoint are on their way.
    pub(super) fn staged(&self, attempt: u32, number: u64) -> PathBuf {
        self.root.join(STAGING).join(attempt.to_string()).join(format!("{number:06}"))
    }

    /// A file of the run's directory, if it is there.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        match fs::read(self.root.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.said(name, &e)),
        }
    }

    /// Puts a file in place of what was there.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let new = self.root.join(format!(".{name}.new"));
        let written = || -> io::Result<()> {
            fs::write(&new, bytes)?;
            fs::rename(&new, self.root.join(name))
        };
        written().map_err(|e| self.said(name, &e))
    }

    /// The numbers of checkpoints that are there, and those that shards were on their way to.
    pub(super) fn numbers(&self) -> Result<(BTreeSet<u64>, BTreeSet<u64>), String> {
        let found = names(&self.root)
            .map_err(|e| self.said("", &e))?
            .iter()
            .filter_map(|name| number_of(name))
            .collect();
        let staging = self.root.join(STAGING);
        let staged = names(&staging)
            .map_err(|e| self.said(STAGING, &e))?
            .iter()
            .flat_map(|attempt| names(&staging.join(attempt)).unwrap_or_default())
            .filter_map(|name| name.parse().ok())
            .collect();
        Ok((found, staged))
    }

    /// Clears away what other attempts than these have left on its way.
    pub(super) fn sweep(&self, live: &BTreeSet<u32>) -> Result<(), String> {
        let staging = self.root.join(STAGING);
        for name in names(&staging).map_err(|e| self.said(STAGING, &e))? {
            if !name.parse().is_ok_and(|attempt| live.contains(&attempt)) {
                gone(fs::remove_dir_all(staging.join(&name))).map_err(|e| self.said(&name, &e))?;
            }
        }
        // Nobody puts anything in then. It stays if somebody else has.
        if live.is_empty() {
            let _ = fs::remove_dir(&staging);
        }
        Ok(())
    }

    /// Clears away what was on its way to one checkpoint.
    pub(super) fn drop_staged(&self, attempt: u32, number: u64) {
        let staged = self.staged(attempt, number);
        if let Err(e) = gone(fs::remove_dir_all(&staged)) {
            tracing::warn!("{} cannot be cleared away: {e}", staged.display());
        }
    }

    /// Makes a checkpoint of what is staged.
    pub(super) fn commit(&self, manifest: &Manifest) -> Result<(), String> {
        let staged = self.staged(manifest.attempt, manifest.number);
        let to = self.dir(manifest.number);
        let commit = || -> io::Result<()> {
            fs::create_dir_all(&staged)?;
            fs::write(staged.join(MANIFEST), to_json(manifest))?;
            fs::rename(&staged, &to)
        };
        commit().map_err(|e| format!("{}: {e}", to.display()))
    }

    /// Whether a checkpoint is there.
    pub(super) fn has(&self, number: u64) -> bool {
        // What cannot be looked at may be there.
        self.dir(number).join(MANIFEST).try_exists().unwrap_or(true)
    }

    /// Removes a checkpoint, so that at no moment a part of it looks like one.
    pub(super) fn remove(&self, number: u64) -> Result<(), String> {
        let trash = self.root.join(STAGING).join(DELETED);
        let remove = || -> io::Result<()> {
            fs::create_dir_all(&trash)?;
            let away = trash.join(dir_name(number));
            gone(fs::remove_dir_all(&away))?;
            gone(fs::rename(self.dir(number), &away))?;
            gone(fs::remove_dir_all(&away))
        };
        remove().map_err(|e| format!("{}: {e}", self.dir(number).display()))
    }

    /// Returns when all that was written is on the disk.
    pub(super) fn sync(&self) -> Result<(), String> {
        let sync = || -> io::Result<()> { Ok(rustix::fs::syncfs(File::open(&self.root)?)?) };
        sync().map_err(|e| self.said("", &e))
    }

    fn said(&self, name: &str, e: &io::Error) -> String {
        format!("{}: {e}", self.root.join(name).display())
    }
}

/// Reads the manifest of a checkpoint's directory and compares the sizes.
pub(super) fn look(dir: &Path) -> Looked {
    match fs::symlink_metadata(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Looked::Missing("it is not there".to_owned()),
        Err(e) => return Looked::Broken(vec![e.to_string()]),
        Ok(_) => {}
    }
    let manifest = match fs::read(dir.join(MANIFEST)) {
        Ok(bytes) => Manifest::parse(&bytes),
        Err(e) => Err(format!("{MANIFEST}: {e}")),
    };
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(e) => return Looked::Broken(vec![e]),
    };
    let wrong = |file: &super::written::ManifestFile| {
        let meta = fs::symlink_metadata(dir.join(&file.path));
        file.wrong_size(meta.as_ref().map(fs::Metadata::len).map_err(ToString::to_string))
    };
    let wrong: Vec<String> = manifest.files.iter().filter_map(wrong).collect();
    if wrong.is_empty() { Looked::Whole(manifest) } else { Looked::Broken(wrong) }
}

/// How a checkpoint looks.
#[derive(Debug)]
pub(super) enum Looked {
    /// All files are there in their sizes, or their bytes have the right hashes: what was looked at.
    Whole(Manifest),
    /// It is not there.
    Missing(String),
    /// What is wrong with it.
    Broken(Vec<String>),
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    entries.filter_map(|entry| entry.map(|e| e.file_name().into_string().ok()).transpose()).collect()
}

/// What is not there need not be removed.
pub(super) fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
