//! A thousand controllers killed at once: what the one question costs that finds them dead. Each is a process of its own
//! that the head watches.

use std::{
    io::{PipeWriter, pipe},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use rustix::process::{Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use trainhead::state::processes::identify;

use crate::{
    compare::spread,
    seed::registration,
    server::{Server, process},
};

const RUNS: usize = 1000;
const CLIENTS: usize = 16;
const LEASE: Duration = Duration::from_secs(3600);

pub(crate) async fn measure(rounds: usize) -> anyhow::Result<()> {
    println!("## {RUNS} controllers killed at once\n");
    println!(
        "| the head | killed until all are gone, ms | then one question until its answer, ms | in all, ms |"
    );
    println!("|---|---|---|---|");
    let head = Server::head().await?;
    let mut expected = 0;
    for (label, held) in [("runs meanwhile", Held::No), ("is held still meanwhile", Held::Yes)] {
        let mut rows = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            expected += RUNS;
            let (gone, answered) = kill(&head, expected, held).await?;
            for (row, time) in rows.iter_mut().zip([gone, answered, gone + answered]) {
                row.push(time.as_secs_f64() * 1e3);
            }
        }
        let [gone, answered, all] = rows.map(|row| spread(row, 1));
        println!("| {label} | {gone} | {answered} | {all} |");
    }
    println!("\neach answer had no live run left and all ABORTED\n");
    head.stop().await;
    Ok(())
}

/// Whether the head is stopped (SIGSTOP) until all controllers are gone, so that it notices none of them before it is
/// asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Yes,
    No,
}

/// How long the kernel took to end them all, and how long the one question took. `expected` runs are ABORTED then.
async fn kill(head: &Server, expected: usize, held: Held) -> anyhow::Result<(Duration, Duration)> {
    let crowd = Crowd::gather()?;
    let mut clients = JoinSet::new();
    for pids in crowd.pids().chunks(RUNS.div_ceil(CLIENTS)) {
        let (mut connection, pids) = (head.connect().await?, pids.to_vec());
        clients.spawn(async move {
            for pid in pids {
                let mut body = registration("doomed", LEASE);
                body["controller"]["process"] = serde_json::to_value(identify(pid)?)?;
                connection.post("/api/train/runs", None, body.to_string().as_bytes()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let mut connection = head.connect().await?;
    let ask = "/api/train/runs?status=STARTED&page_size=1";
    let live: Value = serde_json::from_slice(&connection.get(ask).await?.body)?;
    ensure!(live["total_size"] == json!(RUNS), "not all of {RUNS} controllers were taken for alive");
    let begun = Instant::now();
    if held == Held::Yes {
        kill_process(process(head.pid)?, Signal::STOP)?;
    }
    crowd.end()?;
    let gone = begun.elapsed();
    let asked = Instant::now();
    if held == Held::Yes {
        kill_process(process(head.pid)?, Signal::CONT)?;
    }
    let answer = connection.get(ask).await?;
    let answered = asked.elapsed();
    let answer: Value = serde_json::from_slice(&answer.body)?;
    ensure!(
        answer["total_size"] == json!(0) && answer["counts"]["ABORTED"] == json!(expected),
        "not all were found dead: {} are live, {} ABORTED of {expected}",
        answer["total_size"],
        answer["counts"]["ABORTED"]
    );
    Ok((gone, answered))
}

/// Processes that wait for the end of their input, which is the end of this program: none can be left over.
struct Crowd {
    members: Vec<Child>,
    _input: PipeWriter,
}

impl Crowd {
    fn gather() -> anyhow::Result<Self> {
        let (output, input) = pipe()?;
        let mut crowd = Self { members: Vec::with_capacity(RUNS), _input: input };
        for _ in 0..RUNS {
            // The first leads a group of its own, the others join it: one signal for all.
            let group = crowd.members.first().map_or(0, Child::id);
            let member = Command::new("cat")
                .stdin(output.try_clone()?)
                .stdout(Stdio::null())
                .process_group(i32::try_from(group)?)
                .spawn()?;
            crowd.members.push(member);
        }
        Ok(crowd)
    }

    fn pids(&self) -> Vec<u32> {
        self.members.iter().map(Child::id).collect()
    }

    /// Kills them all and waits until the last is gone.
    fn end(mut self) -> anyhow::Result<()> {
        let leader = self.members.first().context("nobody")?.id();
        kill_process_group(process(leader)?, Signal::KILL)?;
        for mut member in self.members.drain(..) {
            member.wait()?;
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for member in &mut self.members {
            // One that cannot be killed has ended already.
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}
