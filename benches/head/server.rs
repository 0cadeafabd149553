//! The processes under load: the head, as the release binary starts it, and the peer, which is this program again. Each
//! has a directory of its own and ends with its value.

use std::{fs, net::SocketAddr, path::Path, process::Stdio, time::Duration};

use anyhow::Context;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::load::Connection;

/// A server that is not up after this long never is.
const START: Duration = Duration::from_secs(10);

/// A server in a process of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
    child: Child,
    // The directory goes with the server.
    _dir: TempDir,
}

impl Server {
    /// A head with an empty store. Its log goes to a file, as under a service manager. `TRAINHEAD_BENCH_BINARY` names
    /// another build to compare with.
    pub(crate) async fn head() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let binary = std::env::var_os("TRAINHEAD_BENCH_BINARY");
        let mut command = Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_trainhead").into()));
        command.args(["serve", "--port", "0", "--data-dir"]).arg(dir.path().join("data"));
        Self::start(command, dir).await
    }

    /// A peer that has these answers at hand.
    pub(crate) async fn peer(answers: &[(&str, &[u8])]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let folder = dir.path().join("answers");
        fs::create_dir(&folder)?;
        for (name, body) in answers {
            fs::write(folder.join(name), body)?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--peer").arg(dir.path());
        Self::start(command, dir).await
    }

    async fn start(mut command: Command, dir: TempDir) -> anyhow::Result<Self> {
        let log = fs::File::create(dir.path().join("stderr"))?;
        let mut child = command
            .env_clear()
            .env("HOME", dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut line = String::new();
        timeout(START, BufReader::new(stdout).read_line(&mut line))
            .await
            .context("a server does not start")??;
        let complaint = || fs::read_to_string(dir.path().join("stderr")).unwrap_or_default();
        let address = line.trim().split_once("http://").with_context(complaint)?.1.parse()?;
        let pid = child.id().context("a server ended")?;
        Ok(Self { address, pid, child, _dir: dir })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.address).await
    }

    /// Ends it at once: what it stored is thrown away.
    pub(crate) async fn stop(mut self) {
        // Dropping it kills it too, should this fail.
        let _ = timeout(START, self.child.kill()).await;
    }
}

/// Ticks of the processor that a process has used.
pub(crate) fn cpu_ticks(process: &str) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(process).join("stat")).ok()?;
    // The name may hold anything; the fields after it are numbers. The 12th and 13th are user and system time.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Ticks that all processors together were busy.
pub(crate) fn busy_ticks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; what guests use is in user already.
    Some([0, 1, 2, 5, 6, 7].iter().filter_map(|&i| ticks.get(i)).sum())
}
