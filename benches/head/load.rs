//! The load: keep-alive HTTP/1.1 connections that send prepared bytes and read answers. It costs as little as it can,
//! since it shares the cores with what it measures.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use memchr::memmem;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::points::Reports;

/// An answer that takes longer is none.
const ANSWER: Duration = Duration::from_secs(20);
/// How long a store that is made waits for a head that has too much to do, and after how long it asks again.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(50);
/// Requests of one client in one window at the most.
const REQUESTS: usize = 1_000_000;

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
}

/// What one client sends.
pub(crate) enum Requests {
    /// The same again and again.
    Same(Arc<[u8]>),
    /// These in turn; the number says which is next.
    Turns(Arc<[Vec<u8>]>, usize),
    /// Metrics of a run of its own.
    Reports(Box<Reports>),
}

impl Requests {
    /// What another client, the `n`-th, sends beside this one.
    pub(crate) fn beside(&self, n: usize) -> anyhow::Result<Self> {
        match self {
            Self::Same(request) => Ok(Self::Same(Arc::clone(request))),
            // Far from the others, so that nobody asks for what another one has just asked for.
            Self::Turns(requests, next) => Ok(Self::Turns(Arc::clone(requests), next + n * 37)),
            Self::Reports(_) => bail!("there are more clients than runs to report for"),
        }
    }

    /// How many requests of reports were made.
    pub(crate) fn made(&self) -> u64 {
        match self {
            Self::Reports(reports) => reports.made(),
            Self::Same(_) | Self::Turns(..) => 0,
        }
    }

    fn next(&mut self) -> anyhow::Result<&[u8]> {
        match self {
            Self::Same(request) => Ok(request),
            Self::Turns(requests, next) => {
                *next += 1;
                Ok(&requests[*next % requests.len()])
            }
            Self::Reports(reports) => reports.next(),
        }
    }
}

/// A connection.
pub(crate) struct Connection {
    stream: TcpStream,
    pub(crate) address: SocketAddr,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = timeout(ANSWER, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address, buffer: vec![0; 64 * 1024] })
    }

    /// Sends a request and hands the answer's body over in pieces.
    async fn exchange(&mut self, request: &[u8], mut take: impl FnMut(&[u8])) -> anyhow::Result<u16> {
        self.stream.write_all(request).await?;
        let (mut filled, mut head_len) = (0, 0);
        while head_len == 0 {
            let n = self.stream.read(&mut self.buffer[filled..]).await?;
            if n == 0 {
                bail!("the server closed a connection");
            }
            filled += n;
            head_len = memmem::find(&self.buffer[..filled], b"\r\n\r\n").map_or(0, |at| at + 4);
        }
        let head = std::str::from_utf8(&self.buffer[..head_len])?;
        let status = head.get(9..12).context("no status")?.parse()?;
        // The second is nginx's way to write it.
        let length = head
            .split_once("content-length: ")
            .or_else(|| head.split_once("Content-Length: "))
            .and_then(|(_, rest)| rest.split_once('\r'));
        let Some((length, _)) = length else {
            anyhow::ensure!(head.contains("transfer-encoding: chunked"), "an answer without a length");
            self.chunks(head_len, filled, take).await?;
            return Ok(status);
        };
        let mut left: usize = length.parse()?;
        take(&self.buffer[head_len..filled]);
        left = left.checked_sub(filled - head_len).context("more than was asked for")?;
        while left > 0 {
            let n = self.stream.read(&mut self.buffer).await?;
            if n == 0 {
                bail!("the server closed a connection");
            }
            take(&self.buffer[..n]);
            left = left.checked_sub(n).context("more than was asked for")?;
        }
        Ok(status)
    }

    /// A body in chunks, of which `self.buffer[at..filled]` is here already.
    async fn chunks(
        &mut self,
        mut at: usize,
        mut filled: usize,
        mut take: impl FnMut(&[u8]),
    ) -> anyhow::Result<()> {
        loop {
            let line = loop {
                if let Some(len) = memmem::find(&self.buffer[at..filled], b"\r\n") {
                    break at..at + len;
                }
                self.buffer.copy_within(at..filled, 0);
                (at, filled) = (0, filled - at);
                filled += self.more(filled).await?;
            };
            let length = usize::from_str_radix(std::str::from_utf8(&self.buffer[line.clone()])?, 16)?;
            at = line.end + 2;
            // The chunk and the end of its line.
            let mut left = length + 2;
            while left > 0 {
                if at == filled {
                    (at, filled) = (0, self.more(0).await?);
                }
                let here = left.min(filled - at);
                let data = here.min(left.saturating_sub(2));
                take(&self.buffer[at..at + data]);
                (at, left) = (at + here, left - here);
            }
            if length == 0 {
                return Ok(());
            }
        }
    }

    /// Reads behind what is in the buffer; how much.
    async fn more(&mut self, filled: usize) -> anyhow::Result<usize> {
        let n = self.stream.read(&mut self.buffer[filled..]).await?;
        anyhow::ensure!(n > 0, "the server closed a connection");
        Ok(n)
    }

    /// The good answer to a request.
    pub(crate) async fn answer(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        let mut body = Vec::new();
        let (begun, mut status) = (Instant::now(), 503);
        // A head that is asked for more than it can do says so, and that one is to come again.
        while status == 503 && begun.elapsed() < PATIENCE {
            if !std::mem::take(&mut body).is_empty() {
                sleep(AGAIN).await;
            }
            status = timeout(ANSWER, self.exchange(request, |piece| body.extend_from_slice(piece))).await??;
        }
        if !(200..300).contains(&status) {
            let line = String::from_utf8_lossy(request).lines().next().unwrap_or_default().to_owned();
            bail!("{line} gave {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(Answer { body })
    }

    /// The good answer to a GET.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        let request = get_request(self.address, path);
        self.answer(&request).await
    }

    /// The good answer to a POST.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        token: Option<&str>,
        body: &[u8],
    ) -> anyhow::Result<Answer> {
        let request = post_request(self.address, path, token, body);
        self.answer(&request).await
    }

    /// The good answer to a PATCH.
    pub(crate) async fn patch(&mut self, path: &str, body: &[u8]) -> anyhow::Result<Answer> {
        let request = json_request("PATCH", self.address, path, None, body);
        self.answer(&request).await
    }
}

/// The bytes of a GET.
pub(crate) fn get_request(address: SocketAddr, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes()
}

/// The bytes of a POST of JSON.
pub(crate) fn post_request(address: SocketAddr, path: &str, token: Option<&str>, body: &[u8]) -> Vec<u8> {
    json_request("POST", address, path, token, body)
}

fn json_request(method: &str, address: SocketAddr, path: &str, token: Option<&str>, body: &[u8]) -> Vec<u8> {
    let token = token.map(|t| format!("authorization: Bearer {t}\r\n")).unwrap_or_default();
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{token}content-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// Requests of many clients, each of which sends the next one when it has its answer.
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) status: u16,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

impl Load {
    /// How long each answer took that came within the window, in order of length, and the clients' requests again.
    /// `begin` and `end` are called at the window's edges.
    pub(crate) async fn run(
        &self,
        requests: Vec<Requests>,
        begin: impl FnOnce(),
        end: impl FnOnce(),
    ) -> anyhow::Result<(Vec<Duration>, Vec<Requests>)> {
        let mut connections = Vec::with_capacity(requests.len());
        for requests in requests {
            connections.push((Connection::open(self.address).await?, requests));
        }
        let from = Instant::now() + self.warm_up;
        let to = from + self.window;
        let mut clients = JoinSet::new();
        for (connection, requests) in connections {
            clients.spawn(client(connection, requests, self.status, from, to));
        }
        sleep_until(from).await;
        begin();
        sleep_until(to).await;
        end();
        let (mut latencies, mut again) = (Vec::new(), Vec::new());
        let all = async {
            while let Some(of_client) = clients.join_next().await {
                let (of_client, requests) = of_client??;
                latencies.extend(of_client);
                again.push(requests);
            }
            anyhow::Ok(())
        };
        timeout(ANSWER, all).await.context("clients hang")??;
        latencies.sort_unstable();
        Ok((latencies, again))
    }
}

async fn client(
    mut connection: Connection,
    mut requests: Requests,
    expected: u16,
    from: Instant,
    to: Instant,
) -> anyhow::Result<(Vec<Duration>, Requests)> {
    let mut latencies = Vec::new();
    for _ in 0..REQUESTS {
        let request = requests.next()?;
        let sent = Instant::now();
        let status = connection.exchange(request, |_| {}).await?;
        let now = Instant::now();
        if status != expected {
            bail!("status {status} instead of {expected}");
        }
        if now > to {
            break;
        }
        if now > from {
            latencies.push(now - sent);
        }
    }
    Ok((latencies, requests))
}
