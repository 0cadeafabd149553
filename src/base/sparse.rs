//! Reading files that have holes, as logs have whose middle was left out (`log_limit`): what is there is read, what is not
//! is passed over, quickly, however much it is. A file system that does not know holes has none.
//!
//! Looking for holes moves the cursor of the open file, so only positioned reads go together with it.

use std::{fs::File, io, os::unix::fs::FileExt};

use bytes::Bytes;
use rustix::{
    fs::{SeekFrom, seek},
    io::Errno,
};

/// Most bytes read at once.
pub(super) const CHUNK: usize = 64 * 1024;
/// A file with more stretches of data than this was made by somebody who plays.
const MOST_STRETCHES: usize = 10_000;

/// The first byte at or after `offset` that is there; none if there is none up to the end.
///
/// # Errors
/// When the file cannot be read.
pub fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
        Err(e) => Err(e.into()),
    }
}

/// Where the stretch of data ends that `offset` is in: at a hole or the end. `offset` itself if it is in a hole.
///
/// # Errors
/// When the file cannot be read.
pub fn next_hole(file: &File, offset: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Hole(offset)) {
        Ok(found) => Ok(found),
        Err(Errno::NXIO) => Ok(offset),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(file.metadata()?.len()),
        Err(e) => Err(e.into()),
    }
}

/// Where the hole begins that ends at `offset`; none if the byte before is there.
///
/// # Errors
/// When the file cannot be read.
pub fn hole_before(file: &File, offset: u64) -> io::Result<Option<u64>> {
    if offset == 0 || next_hole(file, offset - 1)? != offset - 1 {
        return Ok(None);
    }
    let mut at = 0;
    for _ in 0..MOST_STRETCHES {
        let hole = next_hole(file, at)?;
        match next_data(file, hole)? {
            Some(data) if data < offset => at = data,
            Some(_) | None => return Ok(Some(hole)),
        }
    }
    Ok(None)
}

/// Where the stretch of data begins that ends at `end`, but not before `start`; `end` if a hole ends there.
pub(super) fn stretch_start(file: &File, start: u64, end: u64) -> io::Result<u64> {
    let mut at = start;
    loop {
        match next_data(file, at)? {
            Some(data) if data < end => at = data,
            Some(_) | None => return Ok(end),
        }
        let hole = next_hole(file, at)?;
        if hole >= end {
            return Ok(at);
        }
        at = hole;
    }
}

/// The next bytes that are there at or after `offset`, and where they stand; none at the end.
///
/// # Errors
/// When the file cannot be read.
pub fn read_data(file: &File, offset: u64) -> io::Result<(u64, Bytes)> {
    let mut buffer = vec![0; CHUNK];
    let mut at = offset;
    loop {
        let read = file.read_at(&mut buffer, at)?;
        let found = buffer.get(..read).unwrap_or_default();
        // A hole reads as zeros, so without one there is nothing to look for. Looked for after the read: what was made a
        // hole meanwhile is seen.
        if memchr::memchr(0, found).is_some() {
            match next_data(file, at)? {
                Some(data) if data > at => {
                    at = data;
                    continue;
                }
                Some(_) => {
                    let there = next_hole(file, at)?.saturating_sub(at);
                    let there = usize::try_from(there).unwrap_or(usize::MAX);
                    if there == 0 {
                        // Between the two looks.
                        continue;
                    }
                    buffer.truncate(read.min(there));
                }
                None => buffer.clear(),
            }
        } else {
            buffer.truncate(read);
        }
        return Ok((at, Bytes::from(buffer)));
    }
}

/// A file for tests: `a`s, then a hole, then `b`s, each this long. None where holes cannot be made.
#[cfg(test)]
pub(super) fn with_hole(stretch: u64, hole: u64) -> Option<File> {
    let file = tempfile::tempfile().unwrap();
    let letters = |letter: u8| vec![letter; usize::try_from(stretch).unwrap()];
    file.write_all_at(&letters(b'a'), 0).unwrap();
    file.write_all_at(&letters(b'b'), stretch + hole).unwrap();
    if next_hole(&file, 0).unwrap() != stretch {
        eprintln!("skipped: the file system of the temporary directory has no holes");
        return None;
    }
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::number::size;

    const STRETCH: u64 = 64 << 10;
    const HOLE: u64 = 1 << 40;

    #[test]
    fn a_hole_is_passed_over_however_large_it_is() {
        let Some(file) = with_hole(STRETCH, HOLE) else { return };
        let end = STRETCH + HOLE;
        assert_eq!(hole_before(&file, end).unwrap(), Some(STRETCH));
        assert_eq!(hole_before(&file, STRETCH).unwrap(), None);
        assert_eq!(hole_before(&file, 0).unwrap(), None);
        assert_eq!(stretch_start(&file, end - 10, end + 10).unwrap(), end);
        assert_eq!(stretch_start(&file, end - 10, end).unwrap(), end);
        assert_eq!(stretch_start(&file, 7, STRETCH).unwrap(), 7);
        let read = |offset| read_data(&file, offset).unwrap();
        let (at, bytes) = read(STRETCH - 10);
        assert_eq!((at, &bytes[..]), (STRETCH - 10, &b"aaaaaaaaaa"[..]));
        for offset in [STRETCH, STRETCH + HOLE / 2] {
            let (at, bytes) = read(offset);
            assert_eq!((at, size(bytes.len()), bytes[0]), (end, STRETCH, b'b'));
        }
        assert_eq!(read(end + STRETCH), (end + STRETCH, Bytes::new()));
        file.set_len(end + 2 * STRETCH).unwrap();
        assert!(read(end + STRETCH).1.is_empty(), "nothing is there up to the end");
    }

    #[test]
    fn zeros_that_were_written_are_data() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"a\0b\0\0", 0).unwrap();
        assert_eq!(read_data(&file, 1).unwrap(), (1, Bytes::from_static(b"\0b\0\0")));
    }
}
