//! What a report costs: by a Rust closure, and over the session's socket by a client that does nothing else. It asserts
//! nothing: figures are read by people. `benches/session.py` does the same from Python.
//!
//! `cargo bench --bench session [-- REPORTS]`

#![allow(
    clippy::unwrap_used,
    clippy::as_conversions,
    reason = "a measurement that fails has nothing to say, and its numbers are small"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use trainhead::{
    base::{RunId, SystemClock},
    controller::{ClosureGroup, ControllerOptions, TrainController, WorkerSession},
    state::{DataDir, StateOptions, start},
};

const METRICS: usize = 10;
const ROUND_TRIPS: usize = 5_000;
const BATCH: usize = 1_000;

/// A connection that is kept, and just as much HTTP as is needed.
struct Client {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Client {
    fn new(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        Self { stream, answers }
    }

    fn post(&mut self, target: &str, body: &str) {
        let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        self.stream.write_all((head + body).as_bytes()).unwrap();
        let (mut line, mut length, mut first) = (String::new(), 0, true);
        while line != "\r\n" {
            line.clear();
            self.answers.read_line(&mut line).unwrap();
            assert!(!std::mem::take(&mut first) || line.contains(" 200 "), "{line}");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        self.answers.read_exact(&mut vec![0; length]).unwrap();
    }
}

fn metrics() -> String {
    let pairs: Vec<String> = (0..METRICS).map(|i| format!("\"train/metric_{i}\":0.{i}25")).collect();
    format!("{{{}}}", pairs.join(","))
}

fn per_second(n: usize, took: Duration) -> u128 {
    (n as u128) * 1_000_000_000 / took.as_nanos().max(1)
}

fn closure(session: &WorkerSession, reports: usize) {
    let keys: Vec<String> = (0..METRICS).map(|i| format!("train/metric_{i}")).collect();
    let begun = Instant::now();
    for step in 0..reports {
        session.report(Some(step as u64), keys.iter().map(|key| (key.as_str(), 0.125))).unwrap();
    }
    let took = begun.elapsed();
    println!("closure, {reports} reports of {METRICS} metrics: {} 1/s", per_second(reports, took));
}

fn batches(client: &mut Client, reports: usize) {
    let point = |step: usize| format!("{{\"step\":{step},\"metrics\":{}}}", metrics());
    let bodies: Vec<String> = (0..reports)
        .step_by(BATCH)
        .map(|from| {
            let points: Vec<String> = (from..from + BATCH).map(point).collect();
            format!("{{\"rank\":0,\"points\":[{}]}}", points.join(","))
        })
        .collect();
    let begun = Instant::now();
    for body in &bodies {
        client.post("/log", body);
    }
    let took = begun.elapsed();
    println!(
        "socket, {reports} reports of {METRICS} metrics in batches: {} 1/s",
        per_second(bodies.len() * BATCH, took)
    );
}

fn round_trips(client: &mut Client) {
    let mut took: Vec<Duration> = (0..ROUND_TRIPS)
        .map(|step| {
            let body = format!("{{\"rank\":0,\"step\":{step},\"metrics\":{}}}", metrics());
            let begun = Instant::now();
            client.post("/report", &body);
            begun.elapsed()
        })
        .collect();
    took.sort();
    let at = |part: usize| took[ROUND_TRIPS * part / 100].as_micros();
    println!("socket, a blocking report of {METRICS} metrics: median {} us, p99 {} us", at(50), at(99));
}

#[tokio::main]
async fn main() {
    let reports = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(100_000);
    let temp = tempfile::Builder::new().prefix("th-").tempdir().unwrap();
    let dir = DataDir::open(temp.path()).unwrap();
    let lock = dir.try_lock().unwrap().unwrap();
    let (state, _task) = start(StateOptions::new(dir.clone(), lock)).await.unwrap();
    let socket: PathBuf = temp.path().join("s");
    let at = socket.clone();
    let group = ClosureGroup::new(move |session| {
        closure(&session, reports);
        let mut client = Client::new(&at);
        batches(&mut client, reports);
        round_trips(&mut client);
        Ok(())
    });
    let options = ControllerOptions {
        session_socket: Some(socket),
        ..ControllerOptions::new(RunId::generate(), 1, dir, Arc::new(SystemClock::new()))
    };
    let result = TrainController::new(options, Arc::new(state), group).unwrap().run().await;
    println!("the run is {}, delivered: {}", result.run_status, result.delivered);
}
