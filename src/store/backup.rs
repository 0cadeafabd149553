//! Consistent copies of a database: before a migration, and for `trainhead backup`. A copy is made beside a running
//! head, through a connection of its own that reads only.

use std::{
    fs::File,
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use sqlx::{ConnectOptions, Connection};
use tracing::{info, warn};

use super::{
    StoreError,
    open::{options, version},
};
use crate::base::{Clock, SystemClock};

/// Copies from before migrations that are kept.
const KEPT: usize = 3;
/// What the names of such copies end with.
const ENDING: &str = ".backup";

/// What is in a database that was found to be sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Its version.
    pub(crate) version: i64,
    /// How many runs it holds, with those in the trash.
    pub(crate) runs: u64,
}

/// Writes a consistent copy of the database at `path` to `dest`, which must not exist, and has it on the disk.
///
/// While that takes, a writer goes on, and its WAL cannot be folded.
///
/// # Errors
/// When the database cannot be read, or the copy not be written: then nothing of it stays.
pub(crate) async fn copy(path: &Path, dest: &Path) -> Result<(), StoreError> {
    let not_text = || io::Error::new(io::ErrorKind::InvalidFilename, "the path is not UTF-8");
    let name = dest.to_str().ok_or_else(not_text)?;
    let mut connection = options(path).read_only(true).connect().await?;
    // SQLite writes into an empty file. Made here it is surely new, and its owner's alone: it holds the signing key.
    let file = File::options().write(true).create_new(true).mode(0o600).open(dest)?;
    let made = sqlx::query("vacuum into $1").bind(name.to_owned()).execute(&mut connection).await;
    // SQLite does not wait for the disk here, as it would for a database.
    let made = made.map_err(StoreError::from).and_then(|_| Ok(file.sync_all()?));
    if made.is_err() {
        // Half a copy is none; if it stays, its name says so.
        let _ = std::fs::remove_file(dest);
    }
    connection.close().await?;
    made
}

/// Checks every page and index of a copy that nobody writes.
///
/// # Errors
/// When it is damaged, or cannot be read.
pub(crate) async fn check(path: &Path) -> Result<Checked, StoreError> {
    let mut connection = options(path).read_only(true).immutable(true).connect().await?;
    let found: String = sqlx::query_scalar("pragma integrity_check(1)").fetch_one(&mut connection).await?;
    if found != "ok" {
        return Err(StoreError::Corrupt { table: "sqlite_schema", what: found });
    }
    let version = version(&mut connection).await?;
    let runs: i64 = sqlx::query_scalar("select count(*) from runs").fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(Checked { version, runs: u64::try_from(runs).unwrap_or(0) })
}

/// Copies a database of version `old` beside itself before it is migrated, and lets go of the oldest such copies.
///
/// # Errors
/// When the copy cannot be made: then the database must not be migrated.
pub(super) async fn copy_beside(path: &Path, old: i64) -> Result<(), StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let dest = path.with_file_name(format!("{name}.v{old}-{}{ENDING}", SystemClock::new().now().compact()));
    // Always the same name, so that what a broken-off start leaves is replaced by the next.
    let unfinished = path.with_file_name(format!("{name}.unfinished-copy"));
    let made = async {
        remove_if_there(&unfinished)?;
        copy(path, &unfinished).await?;
        std::fs::rename(&unfinished, &dest)?;
        // The new name is on the disk when its directory is.
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok::<_, StoreError>(())
    };
    made.await.map_err(|source| StoreError::Copy { path: dest.clone(), source: Box::new(source) })?;
    info!("the database is of version {old} and is migrated now; {} is how it was", dest.display());
    for old in copies(path)?.into_iter().skip(KEPT) {
        if let Err(e) = std::fs::remove_file(&old) {
            warn!("the old copy {} stays: {e}", old.display());
        }
    }
    Ok(())
}

/// The copies beside a database, newest first.
fn copies(path: &Path) -> io::Result<Vec<PathBuf>> {
    let begins = format!("{}.v", path.file_name().unwrap_or_default().to_string_lossy());
    let made_at = |path: &PathBuf| -> Option<String> {
        let name = path.file_name()?.to_str()?;
        let (version, time) = name.strip_prefix(&begins)?.strip_suffix(ENDING)?.split_once('-')?;
        version.parse::<i64>().is_ok().then(|| time.to_owned())
    };
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(path.parent().unwrap_or(Path::new(".")))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter_map(|path| Some((made_at(&path)?, path)))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{base::error::chain, store::open};

    #[tokio::test]
    async fn the_newest_copies_are_kept_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trainhead.db");
        drop(open(&path).await.unwrap());
        let name = |name: &str| dir.path().join(format!("trainhead.db.{name}"));
        let old = ["v2-20200101T000000.backup", "v10-20210101T000000.backup", "v3-20220101T000000.backup"];
        let others = ["mine.backup", "v2-20200101T000000.unfinished", "vx-1.backup"];
        for n in old.iter().chain(&others) {
            std::fs::write(name(n), "").unwrap();
        }
        copy_beside(&path, 3).await.unwrap();
        let kept = copies(&path).unwrap();
        assert_eq!(kept.len(), 3);
        assert_eq!(kept[1..], [name(old[2]), name(old[1])]);
        assert!(others.iter().all(|n| name(n).exists()) && !name(old[0]).exists());
        assert_eq!(check(&kept[0]).await.unwrap().runs, 0);
    }

    #[tokio::test]
    async fn a_copy_that_cannot_be_made_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        drop(open(&path).await.unwrap());
        let dest = dir.path().join("none").join("copy");
        assert!(copy(&path, &dest).await.is_err());
        std::fs::write(dir.path().join("taken"), "x").unwrap();
        assert!(copy(&path, &dir.path().join("taken")).await.is_err());
        assert_eq!(std::fs::read(dir.path().join("taken")).unwrap(), b"x");
        let refused = copy_beside(&dir.path().join("no database"), 2).await.unwrap_err();
        assert!(chain(&refused).contains("nothing was changed"), "{}", chain(&refused));
    }
}
