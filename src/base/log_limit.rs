//! A limit for a log that somebody else writes: its middle is given back to the file system as a hole. The writer's
//! descriptor is not touched, offsets stay what they were, and reading passes over the hole (`sparse`).

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

use rustix::fs::{FallocateFlags, fallocate};

use super::{number::bytes_in_words, sparse::next_hole};

/// A smaller limit is taken for this one.
pub const LEAST_BYTES: u64 = 64 << 10;
/// Most of the beginning that is kept: what a program says about its settings is there, and fits.
const HEAD_BYTES: u64 = 4 << 20;
/// The marker is always this long, so that a new one covers the old.
const MARKER_BYTES: u64 = 80;

/// Gives back the middle of a file that takes more than `max_bytes` on the disk: its first quarter (at most 4 MiB) and
/// its newest part stay, together about half of the limit. A line at the end of the first says how much is missing.
/// The answer is how much was freed; 0 if it takes no more than it may. Blocks, on the disk only.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on a file system that cannot make holes; else when the file cannot be opened or written.
pub fn keep_within(path: &Path, max_bytes: u64) -> io::Result<u64> {
    // Not for appending: that would put the marker at the end.
    let file = File::options().read(true).write(true).open(path)?;
    let max = max_bytes.max(LEAST_BYTES);
    let before = allocated(&file)?;
    if before <= max {
        return Ok(0);
    }
    let meta = file.metadata()?;
    let block = meta.blksize().max(MARKER_BYTES);
    let head = (max / 4).min(HEAD_BYTES);
    let newest = max / 2 - head;
    let head = head.next_multiple_of(block);
    // A hole that begins earlier is ours, made for a smaller limit; one that begins later is swallowed with its marker.
    let start =
        Some(next_hole(&file, 0)?).filter(|hole| (MARKER_BYTES..=head).contains(hole)).unwrap_or(head);
    let end = meta.len().saturating_sub(newest) / block * block;
    if end <= start {
        return Ok(0);
    }
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, end - start)?;
    file.write_all_at(&marker(end - start), start - MARKER_BYTES)?;
    Ok(before.saturating_sub(allocated(&file)?))
}

fn allocated(file: &File) -> io::Result<u64> {
    // `blocks` are of 512 bytes whatever the file system's are.
    Ok(file.metadata()?.blocks().saturating_mul(512))
}

/// A line of its own, whatever stands before and after it.
fn marker(missing: u64) -> Vec<u8> {
    let mut line = format!("\n… {} left out here (--log-max-bytes) …", bytes_in_words(missing)).into_bytes();
    line.resize(usize::try_from(MARKER_BYTES - 1).unwrap_or_default(), b' ');
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::base::{number::size, sparse::read_data};

    const MAX: u64 = 1 << 20;

    /// What is there, without the hole.
    fn whole(file: &File) -> Vec<u8> {
        let (mut at, mut all) = (0, Vec::new());
        loop {
            let (from, bytes) = read_data(file, at).unwrap();
            if bytes.is_empty() {
                return all;
            }
            all.extend_from_slice(&bytes);
            at = from + size(bytes.len());
        }
    }

    #[test]
    fn the_middle_goes_and_a_writer_that_appends_is_unharmed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut writer = File::options().append(true).create(true).open(&path).unwrap();
        let (mut n, mut cuts, mut written) = (0, 0, 0);
        while written < 10 * MAX {
            for _ in 0..2000 {
                let line = format!("line {n:08} of a log that is rather long\n");
                writer.write_all(line.as_bytes()).unwrap();
                written += size(line.len());
                n += 1;
            }
            match keep_within(&path, MAX) {
                Ok(0) => {}
                Ok(freed) => {
                    assert!(freed > MAX / 4, "{freed}");
                    cuts += 1;
                }
                Err(e) if e.kind() == io::ErrorKind::Unsupported => {
                    eprintln!("skipped: the file system of the temporary directory has no holes");
                    return;
                }
                Err(e) => panic!("{e}"),
            }
            assert!(allocated(&writer).unwrap() <= MAX + 16 * 4096);
        }
        assert!(cuts > 10, "{cuts}");
        assert_eq!(writer.metadata().unwrap().len(), written, "offsets are what they were");
        let left = whole(&File::open(&path).unwrap());
        assert!(!left.contains(&0), "no zeros between what is there");
        let text = String::from_utf8(left).unwrap();
        assert!(text.starts_with("line 00000000 of"));
        assert!(text.ends_with(&format!("line {:08} of a log that is rather long\n", n - 1)));
        let markers: Vec<&str> = text.lines().filter(|line| line.contains("left out here")).collect();
        assert_eq!(markers.len(), 1, "{markers:?}");
        let marker = markers[0].trim_end();
        assert!(
            marker.starts_with("… 9.") && marker.ends_with(" MiB left out here (--log-max-bytes) …"),
            "{marker}"
        );
        assert!(size(text.len()) > MAX / 4 && size(text.len()) < MAX + MAX / 8);
    }

    #[test]
    fn a_smaller_limit_later_leaves_one_hole_and_one_marker() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "a line of some length\n".repeat(200_000)).unwrap();
        for max in [2 * MAX, MAX, 0, MAX] {
            match keep_within(&path, max) {
                Err(e) if e.kind() == io::ErrorKind::Unsupported => return,
                done => assert!(done.is_ok(), "{done:?}"),
            }
        }
        let text = String::from_utf8(whole(&File::open(&path).unwrap())).unwrap();
        assert_eq!(text.matches("left out here").count(), 1);
        assert!(size(text.len()) <= LEAST_BYTES, "{}", text.len());
    }

    #[test]
    fn what_is_within_its_limit_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "short\n").unwrap();
        assert_eq!(keep_within(&path, 0).unwrap(), 0);
        assert_eq!(std::fs::read(&path).unwrap(), b"short\n");
        assert!(keep_within(&dir.path().join("none"), 0).is_err());
    }
}
