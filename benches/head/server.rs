//! The processes under load: the head, as the release binary starts it, and the peer, which is this program again. Each
//! has a directory of its own and ends with its value.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::load::Connection;

/// A server that is not up, or not down, after this long never is.
const START: Duration = Duration::from_secs(60);
/// Nor does one that is still busy by itself after so long ever come to rest.
const REST: Duration = Duration::from_secs(300);

/// A server in a process of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
    child: Child,
    /// Of a server that has children.
    _group: Option<Group>,
    // The directory goes with the server.
    _dir: TempDir,
}

/// A process group, killed with this value.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

impl Server {
    /// A head with an empty store of its own.
    pub(crate) async fn head() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let data = dir.path().join("data");
        Self::serve(&data, dir).await
    }

    /// A head with a copy of this store.
    pub(crate) async fn head_on_copy(store: &Path) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let data = dir.path().join("data");
        copy(store, &data).await?;
        Self::serve(&data, dir).await
    }

    /// A head that serves this directory itself.
    pub(crate) async fn head_at(data: &Path) -> anyhow::Result<Self> {
        Self::serve(data, tempfile::tempdir()?).await
    }

    /// Its log goes to a file, as under a service manager.
    async fn serve(data: &Path, dir: TempDir) -> anyhow::Result<Self> {
        // The kernel ends it should this program be killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        command.arg(binary());
        command.args(["serve", "--port", "0", "--data-dir"]).arg(data);
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

    /// nginx, with as many workers as there are cores, and these answers as files.
    pub(crate) async fn nginx(program: &Path, answers: &[(&str, &[u8])]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let folder = dir.path().join("fixed");
        fs::create_dir(&folder)?;
        for (name, body) in answers {
            fs::write(folder.join(name), body)?;
        }
        // It binds by itself and does not say where: the port of a listener that is gone is free, as a rule.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let config = format!(
            "daemon off; worker_processes auto; pid nginx.pid; error_log error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\n\
             access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; default_type application/json;\n\
             keepalive_requests 1000000000; open_file_cache max=100; open_file_cache_min_uses 1;\n\
             client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
             uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
             server {{ listen {address}; root {}; }}\n\
             }}\n",
            dir.path().display()
        );
        fs::write(dir.path().join("nginx.conf"), config)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]).arg(program).arg("-p").arg(dir.path());
        // As root it would give its workers to somebody who may not read here.
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        command.args(["-c", "nginx.conf", "-e", "error.log", "-g", user]);
        let log = fs::File::create(dir.path().join("stderr"))?;
        command.env_clear().stdin(Stdio::null()).stderr(log).process_group(0).kill_on_drop(true);
        let child = command.spawn()?;
        let pid = child.id().context("nginx ended")?;
        let server = Self { address, pid, child, _group: Some(Group(process(pid)?)), _dir: dir };
        let begun = Instant::now();
        while server.connect().await.is_err() {
            ensure!(begun.elapsed() < START, "nginx does not start");
            sleep(Duration::from_millis(20)).await;
        }
        Ok(server)
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
        Ok(Self { address, pid, child, _group: None, _dir: dir })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.address).await
    }

    /// Asks it to end and waits until it has: its store is whole.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        kill_process(process(self.pid)?, Signal::TERM)?;
        let status = timeout(START, self.child.wait()).await.context("a server does not end")??;
        ensure!(status.success(), "a server ended with {status}");
        Ok(())
    }

    /// Waits until it has used no processor for so long.
    pub(crate) async fn quiet(&self, long: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        let (mut ticks, mut since) = (ticks_of(self.pid), begun);
        while since.elapsed() < long {
            ensure!(begun.elapsed() < REST, "a server does not come to rest");
            sleep(Duration::from_millis(20)).await;
            let now = ticks_of(self.pid);
            if now != ticks {
                (ticks, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Resident memory, MiB.
    pub(crate) fn rss_mib(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    }

    /// Ends it at once: what it stored is thrown away.
    pub(crate) async fn stop(mut self) {
        // Dropping it kills it too, should this fail.
        let _ = timeout(START, self.child.kill()).await;
    }
}

/// The program that is measured: `TRAINHEAD_BENCH_BINARY` names another build to compare with.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("TRAINHEAD_BENCH_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_trainhead").into(), PathBuf::from)
}

/// A process id as the kernel's calls take it.
pub(crate) fn process(pid: u32) -> anyhow::Result<Pid> {
    Pid::from_raw(i32::try_from(pid)?).context("no process has this id")
}

/// Copies a store, all the way to the disk, so that nobody's later sync has to write it.
pub(crate) async fn copy(store: &Path, to: &Path) -> anyhow::Result<()> {
    let status = Command::new("cp").args(["-a", "--reflink=auto"]).args([store, to]).status().await?;
    ensure!(status.success(), "{} cannot be copied", store.display());
    rustix::fs::syncfs(fs::File::open(to)?)?;
    Ok(())
}

/// Ticks of the processor that a process has used.
pub(crate) fn cpu_ticks(process: &str) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(process).join("stat")).ok()?;
    // The name may hold anything; the fields after it are numbers. The 12th and 13th are user and system time.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Ticks that a process and its children have used.
pub(crate) fn ticks_of(pid: u32) -> Option<u64> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(cpu_ticks).sum::<u64>();
    Some(cpu_ticks(&pid.to_string())? + children)
}

/// Ticks that all processors together were busy.
pub(crate) fn busy_ticks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; what guests use is in user already.
    Some([0, 1, 2, 5, 6, 7].iter().filter_map(|&i| ticks.get(i)).sum())
}
