//! Following a growing file: bytes as they are appended, woken by inotify instead of by polling.
//! Knows nothing of lines or encodings: a log is bytes. What was left out of its middle is passed over.

use std::{
    io,
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rustix::fs::inotify;

use super::{
    number::size,
    readable::Readable,
    sparse::{CHUNK, read_data, stretch_start},
};

/// So much of the end of a file is looked at for each line that is asked for: longer lines are cut.
const LINE_BYTES: u64 = 8 << 10;
/// Most that is looked at, however many lines are asked for.
const MOST_BYTES: u64 = 256 << 20;
/// How long to wait for a file that does not exist yet before looking again. Inotify on the directory would
/// need the directory to exist; this wait ends with the file's first line at the latest.
const APPEARING: Duration = Duration::from_millis(50);

/// A reader that follows one file from an offset.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    offset: u64,
    file: Source,
}

#[derive(Debug)]
enum Source {
    /// To be opened by its path.
    Named,
    /// Open, not watched yet.
    Given(Arc<std::fs::File>),
    /// Open and watched.
    Watched(Opened),
}

#[derive(Debug)]
struct Opened {
    file: Arc<std::fs::File>,
    changes: Readable,
}

impl Tail {
    /// Follows `path` from byte `offset`. The file may appear later.
    #[must_use]
    pub fn new(path: &Path, offset: u64) -> Self {
        Self { path: path.to_owned(), offset, file: Source::Named }
    }

    /// Follows a file that is open already.
    #[must_use]
    pub fn of_file(file: std::fs::File, offset: u64) -> Self {
        // The kernel's own name for the open file, for inotify.
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Self { path, offset, file: Source::Given(Arc::new(file)) }
    }

    /// Offset of the next byte that will be handed out.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What is there now and was not handed out yet; empty when there is nothing. At most 64 KiB. What is missing in the
    /// middle of the file is passed over: the first of these bytes stands at [`Self::offset`] minus their number.
    ///
    /// # Errors
    /// When the file cannot be read. A file that does not exist yet is not an error.
    pub async fn available(&mut self) -> io::Result<Bytes> {
        let Some(opened) = self.opened()? else { return Ok(Bytes::new()) };
        let file = Arc::clone(&opened.file);
        let offset = self.offset;
        let (at, bytes) = tokio::task::spawn_blocking(move || read_data(&file, offset))
            .await
            .map_err(io::Error::other)??;
        if !bytes.is_empty() {
            self.offset = at + size(bytes.len());
        }
        Ok(bytes)
    }

    /// Waits until the file may have grown. Cancel-safe: nothing is lost by dropping the future.
    ///
    /// # Errors
    /// When the file can no longer be watched.
    pub async fn changed(&mut self) -> io::Result<()> {
        let known = matches!(self.file, Source::Watched(_));
        let Some(opened) = self.opened()? else {
            tokio::time::sleep(APPEARING).await;
            return Ok(());
        };
        if !known {
            // What was written before the watch began wakes nobody, so the caller looks once.
            return Ok(());
        }
        opened
            .changes
            .wait(|watcher| {
                let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
                let mut reader = inotify::Reader::new(watcher, &mut buffer);
                while reader.next().is_ok() {}
            })
            .await
    }

    fn opened(&mut self) -> io::Result<Option<&Opened>> {
        let file = match &self.file {
            Source::Watched(_) => None,
            Source::Given(file) => Some(Arc::clone(file)),
            Source::Named => match std::fs::File::open(&self.path) {
                Ok(file) => Some(Arc::new(file)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(e),
            },
        };
        if let Some(file) = file {
            let watcher = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
            inotify::add_watch(&watcher, &self.path, inotify::WatchFlags::MODIFY)?;
            self.file = Source::Watched(Opened { file, changes: Readable::new(watcher)? });
        }
        match &self.file {
            Source::Watched(opened) => Ok(Some(opened)),
            Source::Named | Source::Given(_) => Ok(None),
        }
    }
}

/// Byte offset at which the last `lines` lines of a file begin, found by seeking from its end. Never before a hole, so
/// that all from there on is one stretch; and not farther back than 8 KiB a line, so that a file without lines is as
/// quick as any.
///
/// # Errors
/// When the file cannot be read.
pub fn last_lines_offset(file: &std::fs::File, lines: usize) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    if lines == 0 {
        return Ok(end);
    }
    let farthest = end.saturating_sub(size(lines).saturating_mul(LINE_BYTES).min(MOST_BYTES));
    let mut wanted = lines;
    let mut buffer = vec![0; CHUNK];
    let mut last = true;
    while end > farthest {
        let take = (end - farthest).min(size(CHUNK));
        let start = end - take;
        let chunk = buffer.get_mut(..usize::try_from(take).unwrap_or(CHUNK)).unwrap_or_default();
        file.read_exact_at(chunk, start)?;
        // A hole reads as zeros.
        let first = if memchr::memchr(0, chunk).is_some() { stretch_start(file, start, end)? } else { start };
        let there = chunk.get(usize::try_from(first - start).unwrap_or(CHUNK)..).unwrap_or_default();
        // A newline that ends the file does not begin another line.
        let searched =
            if std::mem::take(&mut last) { there.strip_suffix(b"\n").unwrap_or(there) } else { there };
        for at in memchr::memrchr_iter(b'\n', searched) {
            wanted -= 1;
            if wanted == 0 {
                return Ok(first + size(at) + 1);
            }
        }
        if first > start {
            return Ok(first);
        }
        end = start;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let mut file = tempfile::tempfile().unwrap();
        for i in 0..20_000 {
            writeln!(file, "line {i}").unwrap();
        }
        write!(file, "unfinished").unwrap();
        let mut tail = |n| {
            file.seek(SeekFrom::Start(last_lines_offset(&file, n).unwrap())).unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!(tail(0), "");
        assert_eq!(tail(1), "unfinished");
        assert_eq!(tail(2), "line 19999\nunfinished");
        assert_eq!(tail(15_000).lines().next(), Some("line 5001"));
        assert_eq!(tail(99_999).lines().next(), Some("line 0"));
    }

    #[test]
    fn a_file_without_lines_is_as_quick_as_any() {
        let file = tempfile::tempfile().unwrap();
        let bytes = vec![b'x'; 32 << 20];
        let size = size(bytes.len());
        file.write_all_at(&bytes, 0).unwrap();
        let begun = std::time::Instant::now();
        assert_eq!(last_lines_offset(&file, 1).unwrap(), size - LINE_BYTES);
        assert_eq!(last_lines_offset(&file, 50).unwrap(), size - 50 * LINE_BYTES);
        assert_eq!(last_lines_offset(&file, usize::MAX).unwrap(), 0);
        // Written zeros, broken UTF-8 and escapes are bytes like others.
        file.write_all_at(b"\0\n\x1b[31m\xff\xfe\0\n", size).unwrap();
        assert_eq!(last_lines_offset(&file, 1).unwrap(), size + 2);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_tail_passes_over_a_hole_and_its_lines_begin_after_it() {
        let (stretch, hole) = (128 << 10, 1 << 40);
        let Some(file) = super::super::sparse::with_hole(stretch, hole) else { return };
        file.write_all_at(b"\n", stretch + hole + 5).unwrap();
        assert_eq!(last_lines_offset(&file, 1).unwrap(), 2 * stretch + hole - LINE_BYTES);
        assert_eq!(last_lines_offset(&file, 1000).unwrap(), stretch + hole);
        let mut tail = Tail::of_file(file, stretch - 3);
        assert_eq!(&tail.available().await.unwrap()[..], b"aaa");
        assert_eq!(tail.offset(), stretch);
        let after = tail.available().await.unwrap();
        assert_eq!((&after[..7], after.len()), (&b"bbbbb\nb"[..], CHUNK));
        assert_eq!(tail.offset(), stretch + hole + size(CHUNK));
    }

    #[tokio::test]
    async fn a_tail_waits_for_the_file_and_then_for_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut tail = Tail::new(&path, 0);
        assert!(tail.available().await.unwrap().is_empty());
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(b"a\xff").unwrap();
        tail.changed().await.unwrap();
        assert_eq!(&tail.available().await.unwrap()[..], b"a\xff");
        file.write_all(b"b\n").unwrap();
        tail.changed().await.unwrap();
        assert_eq!(&tail.available().await.unwrap()[..], b"b\n");
        assert_eq!(tail.offset(), 4);
    }
}
