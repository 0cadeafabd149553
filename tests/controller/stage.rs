//! A stage for tests with a real agent and real workers. Processes of a test are known by a variable in their
//! environment; only those are looked at and killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::timeout;
use trainhead::controller::agent::{AgentProcess, CgroupUse, FromAgent, RankSpec, ToAgent};
use trainhead::model::StopReport;

pub(crate) const TRAINHEAD: &str = env!("CARGO_BIN_EXE_trainhead");
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
pub(crate) const MARK: &str = "TRAINHEAD_TEST_MARK";
pub(crate) const TERM: i32 = 15;

/// A worker with everything that survives a careless stop: it ignores TERM, and so do its child and a daemon, double
/// forked and in a session of its own. It says in its log when all of them are there.
pub(crate) const STUBBORN: &str = "trap '' TERM INT HUP
    sh -c 'echo child; while :; do sleep 1000; done' &
    ( setsid sh -c 'echo daemon; while :; do sleep 1000; done' & )
    echo worker; while :; do sleep 1000; done";

pub(crate) struct Stage {
    pub(crate) directory: TempDir,
    pub(crate) mark: String,
}

impl Stage {
    pub(crate) fn new(name: &str) -> Self {
        Self { directory: TempDir::new().unwrap(), mark: format!("{name}-{}", std::process::id()) }
    }

    pub(crate) fn log(&self, rank: u32) -> PathBuf {
        self.directory.path().join(format!("logs/1/rank_{rank}.log"))
    }

    pub(crate) fn rank(&self, rank: u32, script: &str) -> RankSpec {
        RankSpec {
            rank,
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            env: BTreeMap::from([("RANK".into(), rank.to_string()), (MARK.into(), self.mark.clone())]),
            env_remove: vec!["HOME".into()],
            cwd: self.directory.path().into(),
            log_path: self.log(rank),
        }
    }

    pub(crate) fn logged(&self, rank: u32) -> String {
        fs::read_to_string(self.log(rank)).unwrap_or_default()
    }

    pub(crate) async fn await_log(&self, rank: u32, words: &[&str]) {
        eventually(words, || words.iter().all(|word| self.logged(rank).contains(word))).await;
    }

    /// Living processes with this test's mark.
    pub(crate) fn marked(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.mark);
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        })
        .collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for pid in self.marked() {
            kill(pid);
        }
    }
}

pub(crate) async fn eventually<C: std::fmt::Debug>(what: C, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "still waiting for {what:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = kill_process(pid, Signal::KILL);
}

pub(crate) fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

pub(crate) async fn agent() -> AgentProcess {
    AgentProcess::spawn(Path::new(TRAINHEAD)).await.unwrap()
}

pub(crate) async fn next(agent: &mut AgentProcess) -> Option<FromAgent> {
    timeout(LIMIT, agent.recv()).await.expect("the agent says nothing").unwrap()
}

/// Starts the ranks and returns their pids in order.
pub(crate) async fn start(agent: &mut AgentProcess, ranks: Vec<RankSpec>) -> Vec<u32> {
    start_with(agent, CgroupUse::IfPossible, ranks).await
}

pub(crate) async fn start_with(
    agent: &mut AgentProcess,
    cgroup: CgroupUse,
    ranks: Vec<RankSpec>,
) -> Vec<u32> {
    let wanted: Vec<u32> = ranks.iter().map(|spec| spec.rank).collect();
    agent.send(&ToAgent::Start { ranks, cgroup }).await.unwrap();
    match next(agent).await {
        Some(FromAgent::Started { workers, .. }) => {
            assert_eq!(workers.iter().map(|worker| worker.rank).collect::<Vec<_>>(), wanted);
            workers.iter().map(|worker| worker.pid).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// (rank, code, signal) of each exit, and the report that follows; then the agent must exit with success.
pub(crate) async fn to_the_end(
    mut agent: AgentProcess,
) -> (Vec<(u32, Option<i32>, Option<i32>)>, StopReport) {
    let mut exits = Vec::new();
    loop {
        match next(&mut agent).await {
            Some(FromAgent::Exited { rank, code, signal, .. }) => exits.push((rank, code, signal)),
            Some(FromAgent::Ended { report }) => {
                assert_eq!(next(&mut agent).await, None);
                assert!(agent.finish().await.unwrap().success());
                exits.sort_unstable();
                return (exits, report);
            }
            other => panic!("{other:?}"),
        }
    }
}
