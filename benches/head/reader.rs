//! A reader of the stream of events: counts what it gets, notices what it does not get, and takes the time of each change.
//!
//! A change carries in its note when it was asked for, by the clock of this program: `at MICROSECONDS WORD`.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use bytes::{Buf, BytesMut};
use memchr::{memchr, memmem};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

/// The word of the last change: who has it has read enough.
pub(crate) const END: &str = "end";
const NOTE: &[u8] = b"\"notes\":\"at ";

/// The note of a change.
pub(crate) fn note(clock: Instant, word: &str) -> String {
    format!("at {} {word}", clock.elapsed().as_micros())
}

/// What a reader got.
#[derive(Default)]
pub(crate) struct Seen {
    /// The newest id, `BOOT-SEQ`.
    pub(crate) last_id: String,
    last_seq: Option<u64>,
    pub(crate) frames: u64,
    pub(crate) bytes: usize,
    /// Ids that were passed over.
    pub(crate) missed: u64,
    pub(crate) resets: u64,
    /// From asking for a change until it was here.
    pub(crate) delays: Vec<Duration>,
    ended: bool,
}

/// A connection that reads events.
pub(crate) struct Reader {
    stream: TcpStream,
    buffer: BytesMut,
    clock: Instant,
    pub(crate) seen: Seen,
}

impl Reader {
    /// Asks for events, after the one with this id if it is given. `receive` makes the kernel's buffer for it small.
    pub(crate) async fn open(
        address: SocketAddr,
        path: &str,
        clock: Instant,
        last_id: Option<&str>,
        receive: Option<u32>,
    ) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if let Some(bytes) = receive {
            socket.set_recv_buffer_size(bytes)?;
        }
        let mut stream = socket.connect(address).await?;
        let last = last_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n{last}\r\n").as_bytes()).await?;
        let mut seen = Seen::default();
        if let Some(id) = last_id {
            seen.id(id)?;
        }
        Ok(Self { stream, buffer: BytesMut::new(), clock, seen })
    }

    /// Reads until the stream has begun.
    pub(crate) async fn begun(&mut self) -> anyhow::Result<()> {
        while self.seen.bytes == 0 {
            self.read().await?;
        }
        Ok(())
    }

    /// Reads until the last change has come.
    pub(crate) async fn until_end(mut self) -> anyhow::Result<Self> {
        self.seen.ended = false;
        while !self.seen.ended {
            self.read().await?;
        }
        Ok(self)
    }

    /// Reads until it is told to start anew.
    pub(crate) async fn until_reset(mut self) -> anyhow::Result<Self> {
        while self.seen.resets == 0 {
            self.read().await?;
        }
        Ok(self)
    }

    /// What was counted since the last time.
    pub(crate) fn take_counts(&mut self) -> Seen {
        let fresh =
            Seen { last_id: self.seen.last_id.clone(), last_seq: self.seen.last_seq, ..Seen::default() };
        std::mem::replace(&mut self.seen, fresh)
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        self.buffer.reserve(16 * 1024);
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the server ended a stream");
        }
        // The lengths of chunks stand on lines of their own, and chunks hold whole frames.
        while let Some(end) = memchr(b'\n', &self.buffer) {
            self.seen.line(&self.buffer[..end], self.clock)?;
            self.buffer.advance(end + 1);
        }
        Ok(())
    }
}

impl Seen {
    fn line(&mut self, line: &[u8], clock: Instant) -> anyhow::Result<()> {
        if let Some(status) = line.strip_prefix(b"HTTP/1.1 ") {
            anyhow::ensure!(status.starts_with(b"200"), "a stream was refused");
        } else if let Some(id) = line.strip_prefix(b"id: ") {
            self.id(std::str::from_utf8(id)?)?;
            self.bytes += line.len() + 1;
        } else if let Some(event) = line.strip_prefix(b"event: ") {
            self.frames += u64::from(event != b"hello");
            self.resets += u64::from(event == b"reset");
            self.bytes += line.len() + 1;
        } else if line.starts_with(b"data: ") {
            self.bytes += line.len() + 2;
            if let Some(at) = memmem::find(line, NOTE) {
                self.change(&line[at + NOTE.len()..], clock)?;
            }
        }
        Ok(())
    }

    fn id(&mut self, id: &str) -> anyhow::Result<()> {
        let seq = id.rsplit_once('-').context("an odd id")?.1.parse()?;
        if let Some(last) = self.last_seq {
            self.missed += u64::saturating_sub(seq, last + 1);
        }
        self.last_seq = Some(seq);
        id.clone_into(&mut self.last_id);
        Ok(())
    }

    fn change(&mut self, note: &[u8], clock: Instant) -> anyhow::Result<()> {
        let note = std::str::from_utf8(&note[..memchr(b'"', note).context("an odd note")?])?;
        let (at, word) = note.split_once(' ').context("an odd note")?;
        self.delays.push(clock.elapsed().saturating_sub(Duration::from_micros(at.parse()?)));
        self.ended |= word == END;
        Ok(())
    }
}
