//! Logs of workers on other hosts, as their controllers send them: appended where they belong, the same bytes twice once.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::{DataDir, StateError, StateHandle, blocking::blocking, command::Command};
use crate::{
    base::{RunId, Secret, number::size},
    model::Refusal,
};
use bytes::Bytes;

impl StateHandle {
    /// Appends to the log of a rank the bytes that begin at `offset`, as far as they are not there yet. The size of the
    /// log after that; it is on the disk. Renews the lease.
    ///
    /// # Errors
    /// When the token is not the run's, there is no such attempt or rank, or bytes before `offset` are missing.
    pub async fn append_log(
        &self,
        run: &RunId,
        token: &Secret,
        (attempt, rank): (u32, u32),
        offset: u64,
        bytes: Bytes,
    ) -> Result<u64, StateError> {
        self.ask(|reply| Command::Contact { run: run.clone(), token: token.clone(), reply }).await?;
        let workers = self.shared.reader.num_workers(run, attempt).await?;
        if workers.is_none_or(|n| rank >= n) {
            let attempt = format!("{attempt} with a rank {rank}");
            return Err(Refusal::AttemptNotFound { run: run.clone(), attempt }.into());
        }
        let (data_dir, path) = (self.data_dir().clone(), DataDir::log(run, attempt, rank));
        let written = blocking(move || append(&data_dir.create_beneath(&path)?, offset, &bytes)).await?;
        match written {
            Ok(Appended::Size(size)) => Ok(size),
            Ok(Appended::Gap(size)) => Err(Refusal::LogGap { size, offset }.into()),
            Err(e) if e.kind() == io::ErrorKind::StorageFull => Err(StateError::DiskFull),
            Err(e) => Err(StateError::Unavailable(format!("a log cannot be written: {e}"))),
        }
    }
}

/// What became of bytes that were to be appended.
enum Appended {
    /// They are there; the size now.
    Size(u64),
    /// Bytes before them are missing; the size is as it was.
    Gap(u64),
}

fn append(file: &File, offset: u64, bytes: &[u8]) -> io::Result<Appended> {
    let there = file.metadata()?.len();
    let end = offset.saturating_add(size(bytes.len()));
    if offset > there {
        return Ok(Appended::Gap(there));
    }
    if end <= there {
        return Ok(Appended::Size(there));
    }
    let known = usize::try_from(there - offset).unwrap_or(usize::MAX);
    file.write_all_at(bytes.get(known..).unwrap_or_default(), there)?;
    file.sync_data()?;
    Ok(Appended::Size(end))
}
