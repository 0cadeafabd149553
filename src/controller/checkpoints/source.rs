//! What a rank hands in: the files below its directory, and where each goes.
//!
//! Regular files are taken. A symbolic link is taken as the file that it points to, if that lies in the same directory;
//! links that lead elsewhere, links to directories, and whatever is neither file nor directory are refused by name. Empty
//! directories are left out: object stores have none.
//!
//! The files of all ranks lie in one directory. A path that another rank has handed already is kept once if the bytes are
//! the same; else the later one goes to `rank_<n>/<path>`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use rustix::fs::OFlags;

use super::written::MANIFEST;

/// A file that was handed in.
#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    /// Its path in the shard, with `/`.
    pub(super) path: String,
    /// Where it is read from.
    pub(super) from: PathBuf,
    pub(super) size: u64,
    /// Its permissions.
    pub(super) mode: u32,
    /// It was handed in as a link to `from`.
    pub(super) is_link: bool,
}

/// All files below a directory, by path.
pub(super) fn walk(dir: &Path) -> Result<Vec<SourceFile>, String> {
    let said = |path: &Path, e: &io::Error| format!("{}: {e}", path.display());
    let root = fs::canonicalize(dir).map_err(|e| said(dir, &e))?;
    if !root.is_dir() {
        return Err(format!("{} is no directory", dir.display()));
    }
    let mut files = Vec::new();
    let mut dirs = vec![root.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).map_err(|e| said(&dir, &e))? {
            let path = entry.map_err(|e| said(&dir, &e))?.path();
            let meta = fs::symlink_metadata(&path).map_err(|e| said(&path, &e))?;
            if meta.is_dir() {
                dirs.push(path);
            } else {
                files.push(file(&root, path, meta)?);
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn file(root: &Path, path: PathBuf, meta: fs::Metadata) -> Result<SourceFile, String> {
    let shown = path.display();
    let relative = path.strip_prefix(root).ok().and_then(Path::to_str);
    let relative = relative.ok_or_else(|| format!("the name of {shown} is not UTF-8"))?.to_owned();
    if relative == MANIFEST {
        return Err(format!("{shown} has the name of the checkpoint's own manifest"));
    }
    let is_link = meta.is_symlink();
    let (from, meta) = if is_link {
        let target = fs::canonicalize(&path).map_err(|e| format!("{shown}: {e}"))?;
        if !target.starts_with(root) {
            return Err(format!(
                "{shown} is a link that leads out of the checkpoint, to {}",
                target.display()
            ));
        }
        let meta = fs::metadata(&target).map_err(|e| format!("{shown}: {e}"))?;
        (target, meta)
    } else {
        (path.clone(), meta)
    };
    if !meta.is_file() {
        let what = if meta.is_dir() { "a link to a directory" } else { "neither a file nor a directory" };
        return Err(format!("{shown} is {what}"));
    }
    Ok(SourceFile { path: relative, from, size: meta.len(), mode: meta.mode() & 0o777, is_link })
}

/// Opens a file to read all of it. A link that took its place meanwhile is not followed, and nothing blocks.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Which paths of a checkpoint are taken, and by what.
#[derive(Debug, Default)]
pub(super) struct Claims {
    files: BTreeMap<String, (PathBuf, u64)>,
    dirs: BTreeSet<String>,
}

impl Claims {
    /// The path in the checkpoint that a rank's file gets; none if the same file lies there already.
    pub(super) fn claim(claims: &Mutex<Self>, rank: u32, file: &SourceFile) -> Option<String> {
        let taken = match claims.lock().take(&file.path, file) {
            Ok(()) => return Some(file.path.clone()),
            Err(taken) => taken,
        };
        if taken.is_some_and(|(other, size)| size == file.size && same_bytes(&other, &file.from)) {
            return None;
        }
        let mut path = file.path.clone();
        loop {
            path = format!("rank_{rank}/{path}");
            if claims.lock().take(&path, file).is_ok() {
                return Some(path);
            }
        }
    }

    /// Takes a path, or tells what has it.
    fn take(&mut self, path: &str, file: &SourceFile) -> Result<(), Option<(PathBuf, u64)>> {
        if let Some(taken) = self.files.get(path) {
            return Err(Some(taken.clone()));
        }
        let dirs: Vec<&str> = path.match_indices('/').filter_map(|(at, _)| path.get(..at)).collect();
        if self.dirs.contains(path) || dirs.iter().any(|dir| self.files.contains_key(*dir)) {
            return Err(None);
        }
        self.dirs.extend(dirs.into_iter().map(str::to_owned));
        self.files.insert(path.to_owned(), (file.from.clone(), file.size));
        Ok(())
    }
}

/// Whether two files have the same bytes; not if one cannot be read.
fn same_bytes(a: &Path, b: &Path) -> bool {
    let hash = |path: &Path| -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        let mut file = open(path)?;
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let n = file.read(&mut buffer)?;
            let Some(bytes) = buffer.get(..n).filter(|bytes| !bytes.is_empty()) else {
                return Ok(hasher.finalize());
            };
            hasher.update(bytes);
        }
    };
    matches!((hash(a), hash(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    #[test]
    fn files_and_links_within_are_taken_and_all_else_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let shard = dir.path().join("shard");
        fs::create_dir_all(shard.join("a/empty")).unwrap();
        fs::write(shard.join("a/x"), "12345").unwrap();
        symlink("a/x", shard.join("last")).unwrap();
        let paths =
            || walk(&shard).map(|files| files.into_iter().map(|f| (f.path, f.size)).collect::<Vec<_>>());
        assert_eq!(paths().unwrap(), [("a/x".into(), 5), ("last".into(), 5)]);

        fs::write(dir.path().join("secret"), "s").unwrap();
        type Make<'a> = &'a dyn Fn(&Path);
        let refused: [(&str, Make<'_>); 5] = [
            ("leads out of the checkpoint", &|at| symlink("../secret", at).unwrap()),
            ("a link to a directory", &|at| symlink("a", at).unwrap()),
            ("No such file", &|at| symlink("nowhere", at).unwrap()),
            ("neither a file", &|at| drop(UnixListener::bind(at).unwrap())),
            ("the name of", &|at| fs::write(at.with_file_name(MANIFEST), "").unwrap()),
        ];
        for (words, make) in refused {
            let odd = shard.join("odd");
            make(&odd);
            let error = paths().unwrap_err();
            assert!(error.contains(words) && (error.contains("odd") || error.contains(MANIFEST)), "{error}");
            let _ = fs::remove_file(&odd);
            let _ = fs::remove_file(shard.join(MANIFEST));
        }
        assert!(walk(&shard.join("a/x")).unwrap_err().contains("is no directory"));
    }

    #[test]
    fn a_path_that_two_ranks_hand_is_kept_once_if_the_bytes_are_the_same_and_else_apart() {
        let dir = tempfile::tempdir().unwrap();
        let handed = |rank: u32, path: &str, bytes: &str| {
            let from = dir.path().join(format!("{rank}-{}", path.replace('/', "-")));
            fs::write(&from, bytes).unwrap();
            let size = u64::try_from(bytes.len()).unwrap();
            SourceFile { path: path.into(), from, size, mode: 0o644, is_link: false }
        };
        let claims = Mutex::default();
        let claim = |rank, path, bytes| Claims::claim(&claims, rank, &handed(rank, path, bytes));
        assert_eq!(claim(0, "config.json", "same").as_deref(), Some("config.json"));
        assert_eq!(claim(1, "config.json", "same"), None);
        assert_eq!(claim(2, "config.json", "else").as_deref(), Some("rank_2/config.json"));
        assert_eq!(claim(0, "a", "file").as_deref(), Some("a"));
        assert_eq!(claim(1, "a/b", "below a file").as_deref(), Some("rank_1/a/b"));
        assert_eq!(claim(2, "rank_1", "a directory's name").as_deref(), Some("rank_2/rank_1"));
    }
}
