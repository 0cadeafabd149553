//! Checkpoints in an object store. There is no rename there: files go to their final names, and the manifest, put last and
//! only if there is none, is the commit. A prefix without one is no checkpoint.

use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    io::Read,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::{
    Error, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, path::Path,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use super::{
    bytes::{GIVEN_UP, Work},
    connect::{Bucket, said},
    local::Looked,
    source::{self, SourceFile},
    written::{MANIFEST, Manifest, RUN, dir_name, number_of, to_json},
};
use crate::base::number;

/// Size of a part of a large file. A smaller one is put as a whole.
pub(super) const PART: usize = 8 << 20;
/// Parts that are in memory at a time, of all files together.
pub(super) const PARTS: usize = 5;
/// Most parts that a file may have, a little less than S3's limit.
const MOST_PARTS: u64 = 9_990;
/// An upload that failed is called off within this, or not at all.
const ABORT: Duration = Duration::from_secs(5);
/// Files that are looked at or removed at a time.
const AT_ONCE: usize = 8;

/// A run's prefix.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    pub(super) bucket: Bucket,
    /// The address of the prefix.
    pub(super) uri: String,
}

impl Remote {
    /// The key of something below the run's prefix.
    fn key(&self, name: &str) -> Path {
        let parts = self.bucket.prefix.parts().map(|part| part.as_ref().to_owned()).collect::<Vec<_>>();
        Path::from(format!("{}/{name}", parts.join("/")))
    }

    /// The key of a file of a checkpoint.
    pub(super) fn file(&self, number: u64, path: &str) -> Path {
        self.key(&format!("{}/{path}", dir_name(number)))
    }

    fn said(&self, name: &str, e: &Error) -> String {
        said(self.bucket.kind, &format!("{}/{name}", self.uri), e)
    }

    /// Says in the prefix what it is.
    pub(super) async fn prepare(&self, card: Vec<u8>) -> Result<(), String> {
        match self.create(RUN, card).await {
            Ok(()) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(()),
            Err(e) => Err(self.said(RUN, &e)),
        }
    }

    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<(), Error> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        self.bucket.store.put_opts(&self.key(name), bytes.into(), options).await.map(drop)
    }

    /// An object of the run's prefix, if it is there.
    pub(super) async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let read = async { self.bucket.store.get(&self.key(name)).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.said(name, &e)),
        }
    }

    /// Puts an object in place of what was there.
    pub(super) async fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), String> {
        let written = self.bucket.store.put(&self.key(name), bytes.into()).await;
        written.map(drop).map_err(|e| self.said(name, &e))
    }

    /// The numbers of prefixes of checkpoints, also of those that are none.
    pub(super) async fn numbers(&self) -> Result<BTreeSet<u64>, String> {
        let prefix = Some(&self.bucket.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let listed = self.bucket.store.list_with_delimiter(prefix).await.map_err(|e| self.said("", &e))?;
        let names = listed.common_prefixes.iter().filter_map(|prefix| prefix.filename());
        Ok(names.filter_map(number_of).collect())
    }

    /// The manifest of a checkpoint; none if it is none.
    pub(super) async fn manifest(&self, number: u64) -> Result<Option<Result<Manifest, String>>, String> {
        let bytes = self.read(&format!("{}/{MANIFEST}", dir_name(number))).await?;
        Ok(bytes.map(|bytes| Manifest::parse(&bytes)))
    }

    /// Puts the manifest of a checkpoint: it is one then.
    pub(super) async fn commit(&self, manifest: &Manifest) -> Result<(), String> {
        let name = format!("{}/{MANIFEST}", dir_name(manifest.number));
        match self.create(&name, to_json(manifest)).await {
            Ok(()) => Ok(()),
            Err(e) => match self.manifest(manifest.number).await {
                // It was put, and the answer was lost.
                Ok(Some(Ok(there))) if there == *manifest => Ok(()),
                _ => Err(self.said(&name, &e)),
            },
        }
    }

    /// Removes a checkpoint, so that at no moment a part of it looks like one.
    pub(super) async fn remove(&self, number: u64) -> Result<(), String> {
        let name = dir_name(number);
        match self.bucket.store.delete(&self.file(number, MANIFEST)).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(self.said(&name, &e)),
        }
        let keys = self.bucket.store.list(Some(&self.key(&name))).map_ok(|meta| meta.location).boxed();
        let removed = self.bucket.store.delete_stream(keys);
        removed
            .try_for_each(|_| async { Ok(()) })
            .await
            .or_else(|e| if matches!(e, Error::NotFound { .. }) { Ok(()) } else { Err(self.said(&name, &e)) })
    }

    /// Reads the manifest of a checkpoint and compares the sizes.
    pub(super) async fn look(&self, number: u64) -> Result<Looked, String> {
        let manifest = match self.manifest(number).await? {
            None => return Ok(Looked::Missing("it is not there".to_owned())),
            Some(Err(e)) => return Ok(Looked::Broken(vec![e])),
            Some(Ok(manifest)) => manifest,
        };
        let prefix = self.key(&dir_name(number));
        let listed: HashMap<Path, u64> = self
            .bucket
            .store
            .list(Some(&prefix))
            .map_ok(|meta| (meta.location, meta.size))
            .try_collect()
            .await
            .map_err(|e| self.said(&dir_name(number), &e))?;
        let wrong: Vec<String> = manifest
            .files
            .iter()
            .filter_map(|file| {
                let size = listed.get(&self.file(number, &file.path)).copied();
                file.wrong_size(size.ok_or_else(|| "it is not there".to_owned()))
            })
            .collect();
        Ok(if wrong.is_empty() { Looked::Whole(manifest) } else { Looked::Broken(wrong) })
    }

    /// Puts a file; its size and hash as they were put. Parts in memory are counted by `parts`.
    pub(super) async fn upload(
        &self,
        file: &SourceFile,
        key: &Path,
        parts: &Arc<Semaphore>,
        work: &Work,
    ) -> Result<(u64, String), String> {
        let failed = |e: Error| self.said(&file.path, &e);
        let (part, slots) = part_size(file.size);
        let slot = parts.clone().acquire_many_owned(slots).await.map_err(|e| e.to_string())?;
        let (reader, first) = Reader::open(file)?.part(part).await?;
        if first.len() < part {
            let size = number::size(first.len());
            self.bucket.store.put(key, PutPayload::from_bytes(first)).await.map_err(failed)?;
            work.progress.add(size);
            return Ok((size, reader.hash()));
        }
        let mut upload = self.bucket.store.put_multipart(key).await.map_err(failed)?;
        let sent = tokio::select! {
            sent = send(&mut upload, reader, first, part, (parts, slot), work) => sent,
            () = work.stop.cancelled() => Err(GIVEN_UP.to_owned()),
        };
        if sent.is_err() {
            // Parts that stay behind cost something until a rule of the bucket clears them away.
            let _ = timeout(ABORT, upload.abort()).await;
        }
        sent.map_err(|e| format!("{}: {e}", file.path))
    }

    /// Gets a file piece by piece.
    pub(super) async fn get(
        &self,
        number: u64,
        path: &str,
    ) -> Result<stream::BoxStream<'static, Result<Bytes, String>>, String> {
        let remote = self.clone();
        let name = path.to_owned();
        let got = self.bucket.store.get(&self.file(number, path)).await.map_err(|e| self.said(path, &e))?;
        Ok(got.into_stream().map_err(move |e| remote.said(&name, &e)).boxed())
    }

    /// Removes prefixes of checkpoints that are none, but for these.
    pub(super) async fn sweep(&self, stay: &BTreeSet<u64>) -> Result<(), String> {
        let numbers = self.numbers().await?;
        let odd = numbers.into_iter().filter(|number| !stay.contains(number));
        stream::iter(odd.map(Ok))
            .try_for_each_concurrent(AT_ONCE, |number| async move {
                if self.manifest(number).await?.is_none() { self.remove(number).await } else { Ok(()) }
            })
            .await
    }
}

/// The size of the parts of a file, and how many slots one takes.
fn part_size(size: u64) -> (usize, u32) {
    let unit = number::size(PART);
    let units = size.div_ceil(MOST_PARTS).div_ceil(unit).max(1);
    let slots = u32::try_from(units).unwrap_or(u32::MAX).min(u32::try_from(PARTS).unwrap_or(u32::MAX));
    (usize::try_from(units.saturating_mul(unit)).unwrap_or(usize::MAX), slots)
}

/// Sends all parts of a file, several at a time.
async fn send(
    upload: &mut Box<dyn MultipartUpload>,
    mut reader: Reader,
    first: Bytes,
    part: usize,
    (parts, slot): (&Arc<Semaphore>, OwnedSemaphorePermit),
    work: &Work,
) -> Result<(u64, String), String> {
    let slots = u32::try_from(slot.num_permits()).unwrap_or(1);
    let mut under_way = stream::FuturesUnordered::new();
    let (mut size, mut bytes, mut slot) = (0, first, slot);
    while !bytes.is_empty() {
        let sent = number::size(bytes.len());
        size += sent;
        let put = upload.put_part(PutPayload::from_bytes(bytes));
        let held = slot;
        under_way.push(async move {
            let _held = held;
            put.await.map(|()| sent)
        });
        // Parts go on while a slot for the next one is waited for.
        slot = loop {
            tokio::select! {
                taken = parts.clone().acquire_many_owned(slots) => break taken.map_err(|e| e.to_string())?,
                Some(sent) = under_way.next() => work.progress.add(sent.map_err(|e| e.to_string())?),
            }
        };
        (reader, bytes) = reader.part(part).await?;
    }
    drop(slot);
    while let Some(sent) = under_way.next().await {
        work.progress.add(sent.map_err(|e| e.to_string())?);
    }
    upload.complete().await.map_err(|e| e.to_string())?;
    Ok((size, reader.hash()))
}

/// Reads a file part by part, and hashes it.
struct Reader {
    file: File,
    name: String,
    hasher: blake3::Hasher,
}

impl Reader {
    fn open(file: &SourceFile) -> Result<Self, String> {
        let name = file.from.display().to_string();
        let file = source::open(&file.from).map_err(|e| format!("{name}: {e}"))?;
        Ok(Self { file, name, hasher: blake3::Hasher::new() })
    }

    /// The next part, which is shorter only at the end.
    async fn part(mut self, size: usize) -> Result<(Self, Bytes), String> {
        let read = move || {
            let mut bytes = Vec::new();
            let most = number::size(size);
            let left = self.file.metadata().map_or(most, |meta| meta.len()).min(most);
            bytes.reserve(usize::try_from(left).unwrap_or(size));
            (&mut self.file).take(most).read_to_end(&mut bytes).map_err(|e| format!("{}: {e}", self.name))?;
            self.hasher.update(&bytes);
            Ok((self, Bytes::from(bytes)))
        };
        spawn_blocking(read).await.unwrap_or_else(|e| Err(e.to_string()))
    }

    fn hash(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_with_the_file_so_that_they_are_never_too_many() {
        assert_eq!(part_size(0), (PART, 1));
        assert_eq!(part_size(10 << 30), (PART, 1));
        let (part, slots) = part_size(1 << 40);
        // Such a part takes all the room there is.
        assert_eq!(usize::try_from(slots).unwrap(), PARTS);
        assert!((1u64 << 40).div_ceil(u64::try_from(part).unwrap()) < 10_000);
    }
}
