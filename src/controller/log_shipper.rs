//! Log shipping, for a head that does not share the controller's data directory: follows the logs of the ranks and sends
//! what grew. The files are the buffer, so that a head which is away costs nothing but time, and offsets make sending the
//! same bytes again harmless. Never in the way of the controller.

use std::{
    collections::VecDeque,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rustix::{
    fs::{SeekFrom, seek},
    io::Errno,
};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tracing::warn;

use super::outbox::limited;
use crate::{
    base::{RunId, Secret, Tasks},
    state::{ClientError, DataDir, StateClient},
};

/// The pause between two looks at the logs, if there was nothing left to send.
const PASS: Duration = Duration::from_millis(500);
/// Most bytes of one log at a time.
const PART: usize = 1024 * 1024;
/// A hole of this size or more was cut out of a log to save space, and is not sent.
const HOLE: u64 = 64 * 1024;

#[derive(Clone, Debug, Default)]
struct Told {
    /// Attempts and how many ranks each has, oldest first.
    attempts: Vec<(u32, u32)>,
    /// Nothing grows any more.
    ending: bool,
}

/// Sends the logs of a run.
#[derive(Debug)]
pub(super) struct LogShipper {
    told: watch::Sender<Told>,
    done: oneshot::Receiver<()>,
}

impl LogShipper {
    /// Begins to send, as soon as there is a token.
    pub(super) fn start(
        client: Arc<dyn StateClient>,
        run: RunId,
        data_dir: DataDir,
        token: watch::Receiver<Option<Secret>>,
        tasks: &Tasks,
    ) -> Self {
        let told = watch::Sender::new(Told::default());
        let (all_sent, done) = oneshot::channel();
        let shipping =
            Shipping { client, run, data_dir, told: told.subscribe(), adopted: 0, logs: VecDeque::new() };
        let stop = tasks.stopping();
        drop(tasks.spawn(async move {
            tokio::select! {
                () = shipping.run(token) => {
                    // Nobody waits for it if this fails.
                    let _ = all_sent.send(());
                }
                () = stop.cancelled() => {}
            }
        }));
        Self { told, done }
    }

    /// There are logs of another attempt, which has so many ranks. What the attempts before have is all that they get.
    pub(super) fn attempt(&self, attempt: u32, ranks: u32) {
        self.told.send_modify(|told| told.attempts.push((attempt, ranks)));
    }

    /// Sends the rest, when nothing is written any more; at most for `limit`. Whether the head has it all. To be called
    /// after the outbox was flushed: the head takes no log of an attempt that it does not know.
    pub(super) async fn finish(self, limit: Duration) -> bool {
        self.told.send_modify(|told| told.ending = true);
        matches!(timeout(limit, self.done).await, Ok(Ok(())))
    }
}

struct Shipping {
    client: Arc<dyn StateClient>,
    run: RunId,
    data_dir: DataDir,
    told: watch::Receiver<Told>,
    /// How many attempts were looked at.
    adopted: usize,
    /// In turns, so that no rank waits for another one that writes much.
    logs: VecDeque<Log>,
}

/// How a look at the logs went.
enum Pass {
    AllSent,
    /// Go on at once.
    More,
    /// Something is left that the head does not take now.
    NotNow,
}

impl Shipping {
    async fn run(mut self, mut token: watch::Receiver<Option<Secret>>) {
        let token = match token.wait_for(Option::is_some).await {
            Ok(token) => token.clone(),
            Err(_) => None,
        };
        let Some(token) = token else { return };
        loop {
            // Before the look: what is told later is looked at again.
            let ending = self.adopt();
            match self.pass(&token).await {
                Pass::AllSent if ending => return,
                Pass::More => continue,
                Pass::AllSent | Pass::NotNow => {}
            }
            tokio::select! {
                Ok(()) = self.told.changed() => {}
                () = tokio::time::sleep(PASS) => {}
            }
        }
    }

    fn adopt(&mut self) -> bool {
        let told = self.told.borrow_and_update();
        let newest = told.attempts.last().map_or(0, |(attempt, _)| *attempt);
        for (attempt, ranks) in told.attempts.iter().skip(self.adopted) {
            self.logs.extend((0..*ranks).map(|rank| Log::new(&self.run, *attempt, rank)));
        }
        self.adopted = told.attempts.len();
        for log in &mut self.logs {
            log.grows = log.attempt == newest;
        }
        told.ending
    }

    /// Sends one part of each log that has more than the head.
    async fn pass(&mut self, token: &Secret) -> Pass {
        let mut pass = Pass::AllSent;
        for _ in 0..self.logs.len() {
            let Some(mut log) = self.logs.pop_front() else { break };
            match self.send(&mut log, token).await {
                Sent::Part => {
                    pass = if matches!(pass, Pass::NotNow) { pass } else { Pass::More };
                    self.logs.push_back(log);
                }
                Sent::Nothing if log.grows => self.logs.push_back(log),
                Sent::Nothing | Sent::Refused => {}
                Sent::NotNow => {
                    pass = Pass::NotNow;
                    self.logs.push_back(log);
                }
                Sent::Away => {
                    self.logs.push_back(log);
                    return Pass::NotNow;
                }
            }
        }
        pass
    }

    async fn send(&self, log: &mut Log, token: &Secret) -> Sent {
        let (dir, path, from) = (self.data_dir.clone(), log.path.clone(), log.from);
        let read = tokio::task::spawn_blocking(move || next_part(&dir, &path, from)).await;
        let (start, bytes) = match read.map_err(io::Error::other).flatten() {
            Ok(Some(part)) => part,
            Ok(None) => return Sent::Nothing,
            Err(e) => {
                warn!("the log {} cannot be read and is not sent any more: {e}", log.path.display());
                return Sent::Refused;
            }
        };
        log.skip_to(start);
        let answer = match self.append(log, log.at, bytes, token).await {
            Err(ClientError::Refused { slug, .. }) if slug == "log-gap" => {
                // No bytes at all are answered with the size that the log has there.
                self.append(log, 0, Bytes::new(), token).await
            }
            answer => answer,
        };
        match answer {
            // A head that takes nothing is not asked again at once.
            Ok(there) if there == log.at => Sent::NotNow,
            Ok(there) => {
                log.go_on_at(there);
                Sent::Part
            }
            // It is told with the outbox, which is on its way.
            Err(ClientError::Refused { slug, .. }) if slug == "attempt-not-found" => Sent::NotNow,
            Err(ClientError::Unreachable(_)) => Sent::Away,
            Err(e @ ClientError::Refused { .. }) => {
                warn!("the log {} is not sent any more: {e}", log.path.display());
                Sent::Refused
            }
        }
    }

    async fn append(&self, log: &Log, at: u64, bytes: Bytes, token: &Secret) -> Result<u64, ClientError> {
        let whose = (log.attempt, log.rank);
        limited(self.client.append_log(&self.run, token, whose, at, bytes)).await
    }
}

enum Sent {
    Part,
    Nothing,
    NotNow,
    /// The head does not answer.
    Away,
    /// It will never take more of this log.
    Refused,
}

/// One log, here and at the head, where it lacks the holes that were skipped.
struct Log {
    attempt: u32,
    rank: u32,
    path: PathBuf,
    /// Its attempt is the newest one.
    grows: bool,
    /// How far it is sent, here.
    from: u64,
    /// The same there.
    at: u64,
    /// Where holes were skipped, there, and how long each was.
    skipped: Vec<(u64, u64)>,
}

impl Log {
    fn new(run: &RunId, attempt: u32, rank: u32) -> Self {
        let path = DataDir::log(run, attempt, rank);
        Self { attempt, rank, path, grows: true, from: 0, at: 0, skipped: Vec::new() }
    }

    fn skip_to(&mut self, start: u64) {
        let hole = start.saturating_sub(self.from);
        if hole > 0 {
            self.skipped.push((self.at, hole));
            self.from = start;
        }
    }

    /// The head has so many bytes.
    fn go_on_at(&mut self, there: u64) {
        self.skipped.retain(|(at, _)| *at <= there);
        self.at = there;
        self.from = there + self.skipped.iter().map(|(_, hole)| hole).sum::<u64>();
    }
}

/// The next bytes of a log and where they begin; none if there are no more, or not yet.
fn next_part(dir: &DataDir, path: &Path, from: u64) -> io::Result<Option<(u64, Bytes)>> {
    let file = match dir.open_beneath(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let start = match seek(&file, SeekFrom::Data(from)) {
        Ok(data) if data.saturating_sub(from) >= HOLE => data,
        // Nothing but a hole, if anything.
        Err(Errno::NXIO) => return Ok(None),
        // A small hole, or a file system that knows of none.
        Ok(_) | Err(_) => from,
    };
    // Up to the next hole, if that is not here.
    let data = seek(&file, SeekFrom::Hole(start)).map_or(0, |hole| hole.saturating_sub(start));
    let room = usize::try_from(data).unwrap_or(PART).min(PART);
    let mut buffer = vec![0; if room == 0 { PART } else { room }];
    let n = file.read_at(&mut buffer, start)?;
    buffer.truncate(n);
    Ok(if n == 0 { None } else { Some((start, buffer.into())) })
}

#[cfg(test)]
mod tests;
