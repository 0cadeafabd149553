//! Logs of any size and content: training, the controller and the head do not mind them, and they can be read.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    harness::{DEADLINE, Guard, Place, Running, exists, http, wait_for},
    procfs::memory,
};

const MIB: u64 = 1 << 20;
/// How much more memory than before a controller or a head may take while logs are written and read.
const FLAT: u64 = 50 * MIB;

/// Rank 0 prints so many MiB without a line's end, rank 1 an eighth of that in bytes that are no text. Then each says how
/// long that took, in seconds, and waits for a file.
const LOUD: &str = r#"
import os, sys, time
mib, there = int(sys.argv[1]), sys.argv[2]
rank = os.environ['RANK']
piece = b'x' * (1 << 20) if rank == '0' else (b'a\0\x1b[31m\xff\xfe\x1b]0;t\x07\r\xc3(' * 64 + b'\n') * 1310
begun = time.monotonic()
for _ in range(mib if rank == '0' else mib // 8):
    sys.stdout.buffer.write(piece)
    sys.stdout.flush()
with open(there + '.new' + rank, 'w') as new:
    new.write(str(time.monotonic() - begun))
os.rename(there + '.new' + rank, there + '.' + rank)
while not os.path.exists(there + '.go'):
    time.sleep(0.02)
"#;

/// MiB of rank 0: `BIG_LOGS=1024` for the whole GiB.
fn mib() -> u64 {
    std::env::var("BIG_LOGS").map_or(64, |n| n.parse().unwrap())
}

struct Loud {
    place: Place,
    script: String,
}

impl Loud {
    fn new() -> Self {
        let place = Place::new();
        let script = place.file("loud.py", LOUD);
        Self { place, script }
    }

    fn there(&self) -> PathBuf {
        self.place.path("there")
    }

    fn go(&self) {
        fs::write(self.there().with_extension("go"), "").unwrap();
    }

    /// Seconds that a rank needed to print all of it.
    fn seconds(&self, rank: &str) -> f64 {
        let said = self.there().with_extension(rank);
        wait_for("the rank to have printed", || fs::read_to_string(&said).ok()).parse().unwrap()
    }

    /// The same without trainhead, into a file.
    fn plain_seconds(&self) -> f64 {
        let there = self.place.path("plain");
        fs::write(there.with_extension("go"), "").unwrap();
        let log = File::create(self.place.path("plain.log")).unwrap();
        let (mib, there_too) = (mib().to_string(), there.display().to_string());
        let args = [self.script.as_str(), &mib, &there_too];
        let status =
            std::process::Command::new("python3").args(args).env("RANK", "0").stdout(log).status().unwrap();
        assert!(status.success());
        fs::remove_file(self.place.path("plain.log")).unwrap();
        fs::read_to_string(there.with_extension("0")).unwrap().parse().unwrap()
    }

    fn run(&self, options: &[&str]) -> Guard {
        let (mib, there) = (mib().to_string(), self.there().display().to_string());
        let mut args = vec!["run", "--port", "0", "--workers", "2", "--name", "loud"];
        args.extend(options);
        args.extend(["--", "python3", &self.script, &mib, &there]);
        self.place.command(&args).spawn().map(Guard).unwrap()
    }

    fn log(&self, rank: u32) -> PathBuf {
        let run = fs::read_dir(self.place.data().join("runs")).unwrap().next().unwrap().unwrap().path();
        run.join(format!("logs/0/rank_{rank}.log"))
    }
}

/// The most memory that processes had while something was done.
struct Watched<'a> {
    pids: Vec<(&'a str, u32, u64)>,
    most: Vec<AtomicU64>,
}

impl<'a> Watched<'a> {
    fn new(pids: &[(&'a str, u32)]) -> Self {
        let pids: Vec<_> = pids.iter().map(|(who, pid)| (*who, *pid, memory(*pid).unwrap())).collect();
        let most = pids.iter().map(|(_, _, before)| AtomicU64::new(*before)).collect();
        Self { pids, most }
    }

    fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for ((_, pid, _), most) in self.pids.iter().zip(&self.most) {
                        most.fetch_max(memory(*pid).unwrap_or(0), Ordering::Relaxed);
                    }
                    std::thread::park_timeout(Duration::from_millis(20));
                }
            });
            let _end = End(&done);
            work()
        })
    }

    fn assert_flat(&self) {
        for ((who, _, before), most) in self.pids.iter().zip(&self.most) {
            let most = most.load(Ordering::Relaxed);
            eprintln!("{who}: {} MiB before, at most {} MiB", before / MIB, most / MIB);
            assert!(most < before + FLAT, "{who}");
        }
    }
}

/// Also when a test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads an output to its end, and counts.
struct Drain {
    count: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Drain {
    fn of(mut output: impl Read + Send + 'static) -> Self {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            loop {
                match output.read(&mut buffer).unwrap() {
                    0 => return,
                    n => counted.fetch_add(n, Ordering::Relaxed),
                };
            }
        });
        Self { count, thread }
    }

    fn so_far(&self) -> u64 {
        size(self.count.load(Ordering::Relaxed))
    }

    /// Waits for the end.
    fn total(self) -> u64 {
        self.thread.join().unwrap();
        size(self.count.load(Ordering::Relaxed))
    }
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap()
}

/// Compares what is read with what a file holds, to the end of both.
fn assert_is(mut read: impl Read, mut file: impl Read) {
    let (mut got, mut wanted) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut at = 0;
    loop {
        let n = read.read(&mut got).unwrap();
        if n == 0 {
            assert_eq!(file.read(&mut wanted).unwrap(), 0, "it ends at {at}, the file does not");
            return;
        }
        file.read_exact(&mut wanted[..n]).unwrap_or_else(|e| panic!("at {at}: {e}"));
        assert!(got[..n] == wanted[..n], "they differ after {at}");
        at += n;
    }
}

/// The body of an answer of the head, as it comes.
fn body(head: &Running, path: &str) -> impl Read + use<> {
    let mut stream = TcpStream::connect(head.url.strip_prefix("http://").unwrap()).unwrap();
    // One that follows has nothing to read while the other is looked at.
    stream.set_read_timeout(Some(4 * DEADLINE)).unwrap();
    // HTTP/1.0 has no chunks: the body ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.contains(" 200 "), "{line}");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
    }
    stream
}

fn tail_of(path: &PathBuf, bytes: usize) -> Vec<u8> {
    let all = fs::read(path).unwrap();
    all[all.len() - bytes..].to_vec()
}

#[test]
fn a_log_without_lines_and_one_that_is_no_text_disturb_nobody_and_can_be_read() {
    let loud = Loud::new();
    let plain = loud.plain_seconds();
    let head = loud.place.serve(&[]);
    let mut run = loud.run(&["--tail", "all"]);
    let shown = Drain::of(run.stdout.take().unwrap());
    let said = Drain::of(run.stderr.take().unwrap());
    let listed = wait_for("the run", || head.runs().into_iter().find(|r| r["phase"] == "RUNNING"));
    let api = |rank: u32, query: &str| {
        body(&head, &format!("/api/train/runs/{}/logs/0/{rank}{query}", listed["id"].as_str().unwrap()))
    };
    let watched = Watched::new(&[("controller", run.id()), ("head", head.child.id())]);
    watched.during(|| {
        let follow = ["logs", "loud", "--rank", "0", "--follow"];
        let mut followed = loud.place.command(&follow).spawn().map(Guard).unwrap();
        let by_command = Drain::of(followed.stdout.take().unwrap());
        let by_api = Drain::of(api(1, "?follow=1"));
        let seconds = loud.seconds("0");
        loud.seconds("1");
        eprintln!("{} MiB printed in {seconds:.2} s, in {plain:.2} s without trainhead", mib());
        // It writes to its file as it does without; the rest is the other rank, the readers and a loaded machine.
        assert!(seconds < 10.0 * plain + 5.0, "{seconds} s instead of {plain} s");
        for rank in [0, 1] {
            assert_is(api(rank, ""), File::open(loud.log(rank)).unwrap());
            let output = loud.place.output(&["logs", "loud", "--rank", &rank.to_string()]);
            assert_eq!(size(output.stdout.len()), fs::metadata(loud.log(rank)).unwrap().len());
            let mut end = Vec::new();
            api(rank, "?tail=3").read_to_end(&mut end).unwrap();
            assert!(!end.is_empty() && end.len() <= 3 * (8 << 10), "{}", end.len());
            assert!(end == tail_of(&loud.log(rank), end.len()));
            let output = loud.place.output(&["logs", "loud", "--rank", &rank.to_string(), "--tail", "3"]);
            assert!(output.stdout == end);
        }
        // The run's end does not wait for the terminal, so this is waited for before: all of it, with prefixes.
        let all = fs::metadata(loud.log(0)).unwrap().len() + fs::metadata(loud.log(1)).unwrap().len();
        wait_for("the terminal to have shown all", || (shown.so_far() >= all).then_some(()));
        loud.go();
        assert_eq!(run.wait().unwrap().code(), Some(0));
        assert!(followed.wait().unwrap().success());
        assert_eq!(by_command.total(), fs::metadata(loud.log(0)).unwrap().len());
        assert_eq!(by_api.total(), fs::metadata(loud.log(1)).unwrap().len());
    });
    watched.assert_flat();
    assert!(said.total() < 64 << 10);
}

#[test]
fn a_terminal_that_takes_nothing_keeps_no_run_from_its_end() {
    let loud = Loud::new();
    // With a head of its own: that has to go on as well.
    let mut run = loud.run(&["--tail", "all"]);
    let controller = run.id();
    let (stdout, stderr) = (run.stdout.take().unwrap(), Drain::of(run.stderr.take().unwrap()));
    let url = wait_for("the head", || {
        let info: Value =
            serde_json::from_slice(&fs::read(loud.place.data().join("head.json")).ok()?).ok()?;
        info["url"].as_str().map(str::to_owned)
    });
    wait_for("the ranks", || exists(&loud.there().with_extension("0")));
    let watched = Watched::new(&[("controller", controller)]);
    watched.during(|| {
        loud.seconds("1");
        wait_for("the run on record", || {
            let live = http(&url, "GET", "/api/train/runs", None)?;
            (live["train_runs"][0]["phase"] == "RUNNING").then_some(())
        });
        loud.go();
        let went = Instant::now();
        assert_eq!(run.wait().unwrap().code(), Some(0));
        eprintln!("it had ended {:?} after its ranks, with nobody reading", went.elapsed());
    });
    watched.assert_flat();
    drop(stdout);
    assert!(stderr.total() > 0);
    assert_eq!(loud.place.show("loud")["run_status"], "FINISHED");
}

#[test]
fn readers_that_go_away_do_not_disturb_a_run() {
    let place = Place::new();
    let go = place.path("go");
    let script = format!("while [ ! -e {} ]; do echo a line; sleep 0.02; done", go.display());
    let mut run: Child =
        place.command(&["run", "--port", "0", "--name", "alone", "--", "sh", "-c", &script]).spawn().unwrap();
    // As with `trainhead run … 2>&1 | head -1`.
    let mut line = String::new();
    BufReader::new(run.stderr.take().unwrap()).read_line(&mut line).unwrap();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.ends_with("a line\n"), "{line}");
    fs::write(&go, "").unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(place.show("alone")["run_status"], "FINISHED");
}

/// Prints so many MiB in lines of 100 bytes, with a rest after each if that is asked for, and says the longest print.
const LINES: &str = r#"
import sys, time
slow, n, longest = sys.argv[2] == 'slowly', 0, 0
for _ in range(int(sys.argv[1])):
    begun = time.monotonic()
    for _ in range((1 << 20) // 100):
        sys.stdout.write(f'line {n:09} '.ljust(99, '.') + '\n')
        n += 1
    sys.stdout.flush()
    longest = max(longest, time.monotonic() - begun)
    time.sleep(0.1 if slow else 0)
print(f'end {n} {longest:.3f}')
"#;

#[test]
fn a_limit_for_logs_keeps_beginning_and_end_and_disturbs_no_rank() {
    for pace in ["slowly", "quickly"] {
        let place = Place::new();
        let script = place.file("lines.py", LINES);
        let args = ["run", "--port", "0", "--name", "much", "--log-max-bytes", "1MB", "--tail", "none", "--"];
        let mut run = place.command(&args).args(["python3", &script, "20", pace]).spawn().map(Guard).unwrap();
        let rank_0 = || {
            let run = fs::read_dir(place.data().join("runs")).ok()?.next()?.ok()?.path();
            fs::metadata(run.join("logs/0/rank_0.log")).ok()
        };
        let on_disk = || rank_0().map_or(0, |meta| meta.blocks() * 512);
        let mut most = 0;
        let code = wait_for("the run to end", || {
            most = on_disk().max(most);
            run.try_wait().unwrap()
        });
        assert_eq!(code.code(), Some(0));
        let meta = rank_0().unwrap();
        assert!(meta.len() > 20 * 1_000_000, "offsets are those of all that was printed: {}", meta.len());
        let output = place.output(&["logs", "much"]);
        let text = String::from_utf8(output.stdout).unwrap();
        if on_disk() > 20 * 1_000_000 {
            eprintln!("skipped: the file system of the temporary directory has no holes");
            return;
        }
        eprintln!("{pace}: {} KiB on the disk at the end, at most {} KiB", on_disk() >> 10, most >> 10);
        assert!(on_disk() < 3 * MIB / 2, "{}", on_disk());
        if pace == "slowly" {
            // What is printed between two looks comes on top: they are half a second apart, and the rank prints 10 MB/s.
            assert!(most < 12 * MIB, "{most}");
        }
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("line 000000000 "), "{}", lines[0]);
        let last: Vec<&str> = lines.last().unwrap().split(' ').collect();
        assert_eq!(last[..2], ["end", "209700"], "{last:?}");
        assert_eq!(text.matches("left out here").count(), 1);
        eprintln!("{pace}: the longest wait of the rank for 1 MiB was {} s", last[2]);
        assert!(last[2].parse::<f64>().unwrap() < 2.0);
    }
}
