//! How a rank has ended, where that is not plain: behind a wrapper, and for want of memory.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use trainhead::controller::agent::{CgroupUse, FromAgent, OutOfMemory, RankSpec, ToAgent};

use crate::small_memory::SmallMemory;
use crate::stage::{Stage, TERM, agent, eventually, next, start, start_with, to_the_end};

/// A program that saves its work when it is asked to end.
const SAVES: &str =
    "trap 'echo got; sleep 1; echo saved; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
/// One that does not end by being asked.
const IGNORES: &str = "trap '' TERM; echo ready; while :; do sleep 0.01; done";

fn script(stage: &Stage, text: &str) {
    fs::write(stage.directory.path().join("train.sh"), text).unwrap();
}

#[tokio::test]
async fn the_rank_behind_wrappers_ends_as_its_program_does() {
    for wrapper in ["sh train.sh; true", "sh -c 'sh train.sh; true'; true"] {
        let stage = Stage::new("wrapped");
        script(&stage, SAVES);
        let mut agent = agent().await;
        // A daemon in a session of its own, which ends later, is not the rank.
        let daemon =
            "( setsid sh -c 'trap \"sleep 2; exit 3\" TERM; echo daemon; while :; do sleep 0.01; done' & );";
        let wrapped = stage.rank(0, &format!("{daemon} {wrapper}"));
        let pids = start(&mut agent, vec![wrapped, stage.rank(1, "exec sleep 1000")]).await;
        stage.await_log(0, &["ready", "daemon"]).await;
        let begun = Instant::now();
        agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 10_000 }).await.unwrap();
        let plain = FromAgent::Exited { rank: 1, pid: pids[1], code: None, signal: Some(TERM), oom: None };
        assert_eq!(next(&mut agent).await, Some(plain), "a plain leader is reported at once");
        assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
        let wrapped = FromAgent::Exited { rank: 0, pid: pids[0], code: Some(7), signal: None, oom: None };
        assert_eq!(next(&mut agent).await, Some(wrapped), "{wrapper}");
        let (exits, report) = to_the_end(agent).await;
        assert_eq!(exits, []);
        assert!(!report.forced && report.left.is_empty(), "{report:?}");
        assert_eq!(stage.logged(0).matches("got").count(), 1);
    }
}

#[tokio::test]
async fn what_a_wrapper_has_started_and_ignores_the_stop_is_killed_as_the_rank() {
    for cgroup in [CgroupUse::IfPossible, CgroupUse::Never] {
        let stage = Stage::new("ignoring");
        script(&stage, IGNORES);
        let mut agent = agent().await;
        start_with(&mut agent, cgroup, vec![stage.rank(0, "sh train.sh; true")]).await;
        stage.await_log(0, &["ready"]).await;
        agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 200 }).await.unwrap();
        let (exits, report) = to_the_end(agent).await;
        assert_eq!(exits, [(0, None, Some(9))]);
        assert!(report.forced && report.left.is_empty(), "{report:?}");
    }
}

#[tokio::test]
async fn a_wrapper_that_ends_by_itself_is_reported_at_once() {
    let stage = Stage::new("early");
    script(&stage, SAVES);
    let mut agent = agent().await;
    start(
        &mut agent,
        vec![stage.rank(0, "sh train.sh & sleep 0.1; exit 5"), stage.rank(1, "exec sleep 1000")],
    )
    .await;
    let first = next(&mut agent).await;
    assert!(matches!(first, Some(FromAgent::Exited { rank: 0, code: Some(5), .. })), "{first:?}");
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 10_000 }).await.unwrap();
    let (exits, _) = to_the_end(agent).await;
    assert_eq!(exits, [(1, None, Some(TERM))]);
}

const SMALL: u64 = 48 << 20;

/// How a rank ended in a group of little memory that ran `script`, with what the agent says about memory.
async fn starved(name: &str, ranks: impl Fn(&Stage) -> Vec<RankSpec>) -> Option<(Stage, FromAgent, PathBuf)> {
    let small = SmallMemory::make(name, SMALL)?;
    let stage = Stage::new(name);
    let mut agent = agent().await;
    fs::write(small.procs(), agent.pid().to_string()).unwrap();
    start(&mut agent, ranks(&stage)).await;
    let first = next(&mut agent).await.unwrap();
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 10_000 }).await.unwrap();
    to_the_end(agent).await;
    Some((stage, first, small.path().to_owned()))
}

#[tokio::test]
async fn a_rank_that_the_kernel_kills_for_memory_is_known_as_that() {
    // Reads a line without an end into its memory.
    let greedy = |stage: &Stage| vec![stage.rank(0, "exec tail /dev/zero"), stage.rank(1, "exec sleep 1000")];
    let Some((_stage, first, group)) = starved("greedy", greedy).await else { return };
    let FromAgent::Exited { rank: 0, code: None, signal: Some(9), oom: Some(oom), .. } = first else {
        panic!("{first:?}")
    };
    let place = group.display().to_string();
    assert_eq!(oom, OutOfMemory { limit_bytes: Some(SMALL), place, killed_this: true });
    assert_eq!(oom.sentence(), format!("out of memory (limit 48 MiB of {})", group.display()));
}

#[tokio::test]
async fn a_rank_whose_child_the_kernel_kills_for_memory_can_be_told_from_a_killed_one() {
    for (script, killed_this) in [("tail /dev/zero || exit 1", false), ("tail /dev/zero; exit $?", true)] {
        let ranks = |stage: &Stage| vec![stage.rank(0, script)];
        let Some((_stage, first, _)) = starved("loader", ranks).await else { return };
        let FromAgent::Exited { signal: None, oom: Some(oom), .. } = first else { panic!("{first:?}") };
        assert_eq!((oom.limit_bytes, oom.killed_this), (Some(SMALL), killed_this), "{script}");
    }
}

#[tokio::test]
async fn a_rank_that_somebody_kills_is_not_short_of_memory() {
    let stage = Stage::new("killed");
    let mut agent = agent().await;
    let pids = start(&mut agent, vec![stage.rank(0, "exec sleep 1000")]).await;
    crate::stage::kill(pids[0]);
    let first = next(&mut agent).await;
    assert!(matches!(first, Some(FromAgent::Exited { signal: Some(9), oom: None, .. })), "{first:?}");
    to_the_end(agent).await;
    eventually("nothing to be left", || stage.marked().is_empty()).await;
}
