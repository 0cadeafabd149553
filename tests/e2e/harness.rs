//! Starting the binary, asking it, and waiting for conditions with a deadline.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const TRAINHEAD: &str = env!("CARGO_BIN_EXE_trainhead");
/// A loaded machine is slow; a broken program is slower.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A worker's side of the session in Python, as any language could have it: plain HTTP over a unix socket.
const SESSION: &str = r#"
import http.client, json, os, socket
rank, attempt = int(os.environ["RANK"]), int(os.environ["TRAINHEAD_ATTEMPT"])
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["TRAINHEAD_SESSION"].removeprefix("unix:"))
unix = Unix("localhost")
def ask(method, path, body=None):
    unix.request(method, path, json.dumps(body) if body else None)
    answer = unix.getresponse()
    text = answer.read()
    assert answer.status < 300, text
    return json.loads(text) if text else None
def report(step):
    return ask("POST", "/report", {"rank": rank, "step": step, "metrics": {"x": step}})
"#;

/// A data directory with the programs that a test starts on it; ends them at its end.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
}

pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TRAINHEAD);
        for name in ["TRAINHEAD_URL", "TRAINHEAD_DATA_DIR", "TRAINHEAD_CONFIG"] {
            command.env_remove(name);
        }
        command.arg(args[0]).arg("--data-dir").arg(self.data()).args(&args[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A command to its end.
    pub(crate) fn output(&self, args: &[&str]) -> Output {
        let output = self.command(args).output().unwrap();
        eprintln!("{args:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        output
    }

    /// `trainhead run` to its end, with rank 0's log and the exit code.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut all = vec!["run", "--port", "0"];
        all.extend(args);
        self.output(&all)
    }

    /// `trainhead run`, which goes on while the test does.
    pub(crate) fn start(&self, args: &[&str]) -> Guard {
        self.start_with(args, &[])
    }

    /// The same with variables.
    pub(crate) fn start_with(&self, args: &[&str], env: &[(&str, &str)]) -> Guard {
        let mut command = self.command(&[&["run", "--port", "0"], args].concat());
        Guard(command.envs(env.iter().copied()).spawn().unwrap())
    }

    pub(crate) fn serve(&self, args: &[&str]) -> Running {
        self.serve_logging(args, Stdio::inherit())
    }

    /// A head whose log goes to `stderr`.
    pub(crate) fn serve_logging(&self, args: &[&str], stderr: Stdio) -> Running {
        let mut all = vec!["serve", "--port", "0"];
        all.extend(args);
        let mut child = self.command(&all).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url =
            line.trim().strip_prefix("TrainHead is at ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Running { child, url }
    }

    pub(crate) fn show(&self, run: &str) -> Value {
        let output = self.output(&["show", run, "--json"]);
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A file for a test's own program.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A Python program that can `from session import ask, report, rank, attempt`.
    pub(crate) fn python(&self, name: &str, text: &str) -> String {
        self.file("session.py", SESSION);
        self.file(name, text)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory as text, for programs that leave their files there.
    pub(crate) fn root(&self) -> String {
        self.dir.path().display().to_string()
    }

    /// What a program left in a file.
    pub(crate) fn left(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default().trim().to_owned()
    }

    /// Waits until a program has left all of these files.
    #[track_caller]
    pub(crate) fn await_files(&self, names: &[&str]) {
        wait_for(&names.join(", "), || names.iter().all(|name| self.path(name).exists()).then_some(()));
    }
}

impl Running {
    pub(crate) fn get(&self, path: &str) -> Value {
        http(&self.url, "GET", path, None).unwrap_or_else(|| panic!("no answer to {path}"))
    }

    pub(crate) fn runs(&self) -> Vec<Value> {
        self.get("/api/train/runs").get("train_runs").and_then(Value::as_array).unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn port(&self) -> String {
        self.url.rsplit(':').next().unwrap().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that a test started, which does not outlive it.
pub(crate) struct Guard(pub(crate) Child);

impl Guard {
    /// The exit code and what was said on the terminal, once it ends.
    pub(crate) fn end(mut self) -> (i32, String) {
        let mut told = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        let code = self.0.wait().unwrap().code().unwrap();
        eprintln!("ended with {code}:\n{told}");
        (code, told)
    }
}

impl std::ops::Deref for Guard {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Ended already, in most cases.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// One request on a connection of its own; none if nobody answers.
pub(crate) fn http(url: &str, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
    http_with(url, method, path, None, body).map(|(_, body)| body)
}

pub(crate) fn http_with(
    url: &str,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&Value>,
) -> Option<(u16, Value)> {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    let body = body.map(ToString::to_string).unwrap_or_default();
    let token = token.map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{token}Content-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        dechunk(body)
    } else {
        body.to_owned()
    };
    Some((status, serde_json::from_str(&body).ok()?))
}

fn dechunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        out.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    out
}

/// Waits until `condition` gives something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Processes whose command line or environment holds `marker`; a zombie is none.
pub(crate) fn processes_with(marker: &str) -> Vec<u32> {
    let holds = |path: PathBuf| fs::read(path).is_ok_and(|b| String::from_utf8_lossy(&b).contains(marker));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        let dir = entry.path();
        let zombie = fs::read_to_string(dir.join("stat")).is_ok_and(|s| s.contains(") Z "));
        if pid != std::process::id() && !zombie && (holds(dir.join("cmdline")) || holds(dir.join("environ")))
        {
            found.push(pid);
        }
    }
    found
}

/// The workers' ids of a run's newest attempt.
pub(crate) fn pids(run: &Value) -> Vec<u32> {
    run["workers"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|w| w["pid"].as_u64())
        .map(|p| u32::try_from(p).unwrap())
        .collect()
}

/// A field of each attempt, as text, oldest first.
pub(crate) fn of_attempts(run: &Value, field: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    run["attempts"].as_array().unwrap().iter().map(|attempt| text(&attempt[field])).collect()
}

pub(crate) fn alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "))
}

pub(crate) fn exists(path: &Path) -> Option<()> {
    path.exists().then_some(())
}
