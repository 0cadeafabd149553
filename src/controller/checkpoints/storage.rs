//! Checkpoints by their address alone, without the run that they are of: looked through, and fetched.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::StreamExt;
use tokio::{
    sync::{Semaphore, mpsc},
    task::spawn_blocking,
};
use tokio_util::sync::CancellationToken;

use super::{
    bytes::{self, GIVEN_UP, Work, copiers},
    connect::{self, Target},
    local::{self, Looked},
    place::blocking,
    progress::Progress,
    remote::Remote,
    source::SourceFile,
    written::{MANIFEST, Manifest, number_of, to_json},
};
use crate::base::Tasks;

/// Pieces of a file that wait to be written.
const PIECES: usize = 16;

/// What was found at an address.
#[derive(Debug)]
pub enum Verified {
    /// Each file is there with the bytes that it was committed with.
    Whole(Manifest),
    /// It is no checkpoint, or not any more; what is wrong, a sentence each.
    Broken(Vec<String>),
}

/// Reads all bytes of a checkpoint, given the `uri` of its record, and compares them with its manifest. `show` is told
/// bytes done and bytes in all.
///
/// # Errors
/// When it cannot be looked at: the object store is away, or not given credentials.
pub async fn verify(uri: &str, show: impl Fn(u64, u64) + Send + Sync + 'static) -> Result<Verified, String> {
    let found = match Found::at(uri)? {
        Found::Local(dir) => {
            let looked = dir.clone();
            match blocking(move || Ok(local::look(&looked))).await? {
                Looked::Whole(manifest) => {
                    let work = showing(manifest.size_bytes(), show);
                    read_all(&dir, manifest, &Arc::new(Semaphore::new(copiers())), &work).await?
                }
                bad => bad,
            }
        }
        Found::Remote(remote, number) => match remote.look(number).await? {
            Looked::Whole(manifest) => {
                let work = showing(manifest.size_bytes(), show);
                let wrong = read_remote(&remote, number, &manifest, None, &Tasks::new(), &work).await?;
                if wrong.is_empty() { Looked::Whole(manifest) } else { Looked::Broken(wrong) }
            }
            bad => bad,
        },
    };
    Ok(match found {
        Looked::Whole(manifest) => Verified::Whole(manifest),
        Looked::Missing(why) => Verified::Broken(vec![why]),
        Looked::Broken(wrong) => Verified::Broken(wrong),
    })
}

/// Copies a checkpoint, given the `uri` of its record, to a directory that does not exist yet; its bytes are checked on
/// the way, and the directory appears when it is whole. `show` is told bytes done and bytes in all.
///
/// # Errors
/// When it is not whole, or cannot be read or written.
pub async fn fetch(
    uri: &str,
    into: &Path,
    show: impl Fn(u64, u64) + Send + Sync + 'static,
) -> Result<Manifest, String> {
    if into.symlink_metadata().is_ok() {
        return Err(format!("{} is there already", into.display()));
    }
    let whole = |looked: Looked| match looked {
        Looked::Whole(manifest) => Ok(manifest),
        Looked::Missing(why) => Err(format!("{uri}: {why}")),
        Looked::Broken(wrong) => Err(format!("{uri}: {}", wrong.join("; "))),
    };
    match Found::at(uri)? {
        Found::Local(dir) => {
            let looked = dir.clone();
            let manifest = whole(blocking(move || Ok(local::look(&looked))).await?)?;
            let work = showing(manifest.size_bytes(), show);
            copy_all(&dir, &manifest, into, &work).await?;
            Ok(manifest)
        }
        Found::Remote(remote, number) => {
            let manifest = whole(remote.look(number).await?)?;
            let work = showing(manifest.size_bytes(), show);
            let wrong = download(&remote, number, &manifest, into, &Tasks::new(), &work).await?;
            if wrong.is_empty() { Ok(manifest) } else { whole(Looked::Broken(wrong)) }
        }
    }
}

/// A checkpoint by its address.
enum Found {
    Local(PathBuf),
    Remote(Box<Remote>, u64),
}

impl Found {
    fn at(uri: &str) -> Result<Self, String> {
        let uri = uri.trim_end_matches('/');
        match connect::target(uri)? {
            Target::Directory(dir) => Ok(Self::Local(dir.into())),
            Target::Bucket(kind, rest) => {
                let no = || format!("{uri} is not the address of a checkpoint");
                let (above, name) = rest.rsplit_once('/').ok_or_else(no)?;
                let number = number_of(name).ok_or_else(no)?;
                let bucket = connect::connect(kind, above, &|key| std::env::var(key).ok())?;
                let uri = uri.rsplit_once('/').map_or(uri, |(run, _)| run).to_owned();
                Ok(Self::Remote(Box::new(Remote { bucket, uri }), number))
            }
        }
    }
}

fn showing(total: u64, show: impl Fn(u64, u64) + Send + Sync + 'static) -> Work {
    let progress = Progress::showing(Box::new(show)).begin(total);
    Work { stop: CancellationToken::new(), progress: Arc::new(progress) }
}

/// Compares all bytes of a directory with its manifest.
pub(super) async fn check_bytes(
    dir: &Path,
    manifest: Manifest,
    slots: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Result<Looked, String> {
    let progress = Progress::default().begin(manifest.size_bytes());
    let work = Work { stop: stop.child_token(), progress: Arc::new(progress) };
    read_all(dir, manifest, slots, &work).await
}

async fn read_all(
    dir: &Path,
    manifest: Manifest,
    slots: &Arc<Semaphore>,
    work: &Work,
) -> Result<Looked, String> {
    let dir = dir.to_owned();
    let files = manifest.files.clone();
    let wrong =
        bytes::each(files, slots, work, move |file, work| match bytes::hash(&dir.join(&file.path), work) {
            Err(e) if e == GIVEN_UP => Err(e),
            Err(e) => Ok(Some(format!("{}: {e}", file.path))),
            Ok(found) => Ok(file.wrong_bytes(found)),
        });
    let wrong: Vec<String> = wrong.await?.into_iter().flatten().collect();
    Ok(if wrong.is_empty() { Looked::Whole(manifest) } else { Looked::Broken(wrong) })
}

async fn copy_all(dir: &Path, manifest: &Manifest, into: &Path, work: &Work) -> Result<(), String> {
    let part = part_of(into)?;
    let (from, to) = (dir.to_owned(), part.clone());
    let slots = Arc::new(Semaphore::new(copiers()));
    let copied = bytes::each(manifest.files.clone(), &slots, work, {
        move |file, work| {
            let target = to.join(&file.path);
            make_parent(&target)?;
            let source = SourceFile {
                path: file.path.clone(),
                from: from.join(&file.path),
                size: file.size_bytes,
                mode: 0o666,
                is_link: false,
            };
            bytes::copy(&source, &target, work).map(|found| file.wrong_bytes(found))
        }
    });
    let wrong: Vec<String> = copied.await?.into_iter().flatten().collect();
    if !wrong.is_empty() {
        let _ = fs::remove_dir_all(&part);
        return Err(format!("{}: {}", dir.display(), wrong.join("; ")));
    }
    appear(&part, manifest, into)
}

/// Fetches a checkpoint into a directory, which appears when it is whole; what is wrong with it otherwise.
pub(super) async fn download(
    remote: &Remote,
    number: u64,
    manifest: &Manifest,
    into: &Path,
    tasks: &Tasks,
    work: &Work,
) -> Result<Vec<String>, String> {
    let to = into.to_owned();
    let part = blocking(move || {
        local::gone(fs::remove_dir_all(&to)).map_err(|e| format!("{}: {e}", to.display()))?;
        part_of(&to)
    })
    .await?;
    let got = read_remote(remote, number, manifest, Some(part.clone()), tasks, work).await;
    let (manifest, into) = (manifest.clone(), into.to_owned());
    blocking(move || {
        if got.as_ref().is_ok_and(Vec::is_empty) {
            appear(&part, &manifest, &into)?;
        } else {
            let _ = fs::remove_dir_all(&part);
        }
        got
    })
    .await
}

/// Reads all files of a checkpoint, to a directory or to nowhere; what is wrong with them.
async fn read_remote(
    remote: &Remote,
    number: u64,
    manifest: &Manifest,
    into: Option<PathBuf>,
    tasks: &Tasks,
    work: &Work,
) -> Result<Vec<String>, String> {
    let read = bytes::each_async(tasks, manifest.files.clone(), work, |file, work| {
        let (remote, to) = (remote.clone(), into.as_ref().map(|dir| dir.join(&file.path)));
        async move {
            let mut pieces = remote.get(number, &file.path).await?;
            let (send, mut receive) = mpsc::channel::<::bytes::Bytes>(PIECES);
            let written = spawn_blocking(move || {
                let mut sink = bytes::Sink::to(to.as_deref())?;
                while let Some(piece) = receive.blocking_recv() {
                    sink.take(&piece, &work)?;
                }
                Ok::<_, String>(sink.end())
            });
            while let Some(piece) = pieces.next().await {
                if send.send(piece?).await.is_err() {
                    break;
                }
            }
            drop(send);
            let found = written.await.map_err(|e| e.to_string())??;
            Ok(file.wrong_bytes(found))
        }
    });
    Ok(read.await?.into_iter().flatten().collect())
}

/// A fresh directory beside this one.
fn part_of(into: &Path) -> Result<PathBuf, String> {
    let said = |e: std::io::Error| format!("{}: {e}", into.display());
    let name = into.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| format!("{} has no name", into.display()))?;
    let part = into.with_file_name(format!(".{name}.part"));
    local::gone(fs::remove_dir_all(&part)).map_err(said)?;
    fs::create_dir_all(&part).map_err(said)?;
    Ok(part)
}

fn appear(part: &Path, manifest: &Manifest, into: &Path) -> Result<(), String> {
    let appear = || -> std::io::Result<()> {
        fs::write(part.join(MANIFEST), to_json(manifest))?;
        fs::rename(part, into)
    };
    appear().map_err(|e| format!("{}: {e}", into.display()))
}

fn make_parent(path: &Path) -> Result<(), String> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))
}
