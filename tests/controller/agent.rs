//! The agent as a real process with real workers: what it reports, and that nothing outlives it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use trainhead::controller::agent::{
    AgentError, AgentProcess, CgroupUse, FromAgent, RankSpec, ToAgent, sweep_orphans,
};
use trainhead::controller::process::become_subreaper;
use trainhead::model::StopReport;

use crate::stage::{
    LIMIT, MARK, STUBBORN, Stage, TERM, TRAINHEAD, agent, eventually, kill, next, start, start_with,
    state_of, to_the_end,
};

/// Says that this process runs one test alone, or plays the controller that is killed.
const ALONE: &str = "TRAINHEAD_TEST_ALONE";
const NO_CGROUP: &str = "TRAINHEAD_TEST_NO_CGROUP";

fn is_running(pid: u32) -> bool {
    !matches!(state_of(pid), None | Some('Z' | 'X'))
}

/// Runs the named test in a process of its own: for what concerns the whole process. True in that process.
fn alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    // The name is a suffix: the module's path comes before it when this file is a module of a bigger binary.
    let path =
        module_path!().split_once("::").map_or(test.to_owned(), |(_, module)| format!("{module}::{test}"));
    let status = command.args(["--exact", &path, "--nocapture"]).env(ALONE, "1").status().unwrap();
    assert!(status.success());
    false
}

#[tokio::test]
async fn an_exit_is_reported_at_once() {
    let stage = Stage::new("exits");
    let mut agent = agent().await;
    let pids = start(&mut agent, (0..21).map(|rank| stage.rank(rank, "exec sleep 1000")).collect()).await;
    let mut latencies = Vec::new();
    for (rank, pid) in (0..20).zip(pids) {
        let killed = Instant::now();
        kill(pid);
        let exited = next(&mut agent).await;
        latencies.push(killed.elapsed());
        assert_eq!(exited, Some(FromAgent::Exited { rank, pid, code: None, signal: Some(9), oom: None }));
    }
    latencies.sort_unstable();
    // The median: a busy machine may hold up any one of them.
    eprintln!("exit to noticed: median {:?}, longest {:?}", latencies[10], latencies[19]);
    assert!(latencies[10] < Duration::from_millis(100), "{latencies:?}");
}

#[tokio::test]
async fn a_group_ends_when_all_ranks_have_exited_and_none_ends_the_others() {
    let stage = Stage::new("group");
    let mut agent = agent().await;
    let finish = "until [ -e go ]; do sleep 0.01; done";
    start(&mut agent, vec![stage.rank(0, finish), stage.rank(1, "exit 3")]).await;
    let first = next(&mut agent).await;
    assert!(
        matches!(first, Some(FromAgent::Exited { rank: 1, code: Some(3), signal: None, .. })),
        "{first:?}"
    );
    fs::write(stage.directory.path().join("go"), "").unwrap();
    let (exits, report) = to_the_end(agent).await;
    assert_eq!(exits, [(0, Some(0), None)]);
    assert_eq!(report, StopReport::default());
}

#[tokio::test]
async fn a_worker_gets_its_environment_its_directory_and_its_log() {
    let stage = Stage::new("environment");
    fs::create_dir_all(stage.log(0).parent().unwrap()).unwrap();
    fs::write(stage.log(0), "kept\n").unwrap();
    let mut agent = agent().await;
    let script = "echo $RANK ${HOME-unset}; pwd >&2; cat; ls -l /proc/self/fd | grep -c socket; exit 0";
    start(&mut agent, vec![stage.rank(0, script)]).await;
    to_the_end(agent).await;
    let expected = format!("kept\n0 unset\n{}\n0\n", stage.directory.path().display());
    assert_eq!(stage.logged(0), expected);
}

#[tokio::test]
async fn a_worker_starts_with_default_signals_in_its_own_group() {
    let stage = Stage::new("signals");
    let mut agent = agent().await;
    // Not a shell, which would catch some.
    let sleep = RankSpec { program: "sleep".into(), args: vec!["1000".into()], ..stage.rank(0, "") };
    let pids = start(&mut agent, vec![sleep]).await;
    let status = fs::read_to_string(format!("/proc/{}/status", pids[0])).unwrap();
    for name in ["SigBlk:", "SigIgn:", "SigCgt:"] {
        let mask = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        // 32 and 33 belong to the C library, which lets nobody set them.
        let ours = u64::from_str_radix(mask.trim(), 16).unwrap() & !0x1_8000_0000;
        assert_eq!(ours, 0, "{name} {mask}");
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", pids[0])).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!((fields[1], fields[2]), (agent.pid().to_string().as_str(), pids[0].to_string().as_str()));
    agent.send(&ToAgent::Kill).await.unwrap();
    let (exits, report) = to_the_end(agent).await;
    assert_eq!(exits, [(0, None, Some(9))]);
    assert_eq!(report, StopReport { processes_ended: pids, forced: true, left: vec![] });
}

#[tokio::test]
async fn a_start_that_fails_for_good_says_why_and_leaves_nothing() {
    let stage = Stage::new("start");
    let path = stage.directory.path();
    fs::write(path.join("plain.sh"), "#!/bin/sh\n").unwrap();
    fs::write(path.join("lost.sh"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(path.join("lost.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(path.join("file"), "").unwrap();
    let with_program = |program: &str| RankSpec { program: program.into(), ..stage.rank(1, "") };
    let cases = [
        (with_program("/nonexistent"), "no program /nonexistent"),
        (with_program("nonexistent-program"), "no program named nonexistent-program is in PATH"),
        (with_program("./plain.sh"), "may not be executed"),
        (with_program("./lost.sh"), "the interpreter that it names does not"),
        (with_program("/tmp"), "is a directory"),
        (RankSpec { args: vec!["x".repeat(200_000)], ..stage.rank(1, "") }, "longer than the system allows"),
        (RankSpec { cwd: "/nonexistent".into(), ..stage.rank(1, "") }, "working directory /nonexistent"),
        (RankSpec { cwd: path.join("file"), ..stage.rank(1, "") }, "is not a directory"),
        (RankSpec { log_path: path.join("file/x.log"), ..stage.rank(1, "") }, "cannot be opened"),
    ];
    let closed = path.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    // Root may enter any directory.
    let closed =
        (!geteuid().is_root()).then(|| (RankSpec { cwd: closed, ..stage.rank(1, "") }, "cannot be entered"));
    for (broken, part) in cases.into_iter().chain(closed) {
        let mut agent = agent().await;
        let ranks = vec![stage.rank(0, STUBBORN), broken];
        agent.send(&ToAgent::Start { ranks, cgroup: CgroupUse::IfPossible }).await.unwrap();
        match next(&mut agent).await {
            Some(FromAgent::StartFailed { rank: 1, permanent: true, message }) => {
                assert!(message.contains(part), "{message}");
                assert_eq!(stage.marked(), [0; 0], "{part}");
            }
            other => panic!("{part}: {other:?}"),
        }
        assert_eq!(next(&mut agent).await, None);
        assert!(agent.finish().await.unwrap().success());
    }
}

#[tokio::test]
async fn a_stop_ends_what_ignores_it_by_force() {
    for cgroup in [CgroupUse::IfPossible, CgroupUse::Never] {
        stop_the_stubborn(cgroup).await;
    }
}

async fn stop_the_stubborn(cgroup: CgroupUse) {
    let stage = Stage::new("stubborn");
    let mut agent = agent().await;
    let pids = start_with(&mut agent, cgroup, vec![stage.rank(0, STUBBORN), stage.rank(1, STUBBORN)]).await;
    for rank in [0, 1] {
        stage.await_log(rank, &["worker", "child", "daemon"]).await;
    }
    let begun = Instant::now();
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 200 }).await.unwrap();
    let (exits, report) = to_the_end(agent).await;
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(exits, [(0, None, Some(9)), (1, None, Some(9))]);
    assert!(report.forced && report.left.is_empty(), "{report:?}");
    assert!(pids.iter().all(|pid| report.processes_ended.contains(pid)), "{report:?}");
    // A shell and a sleep for each of three.
    assert!(report.processes_ended.len() >= 12, "{report:?}");
    assert_eq!(stage.marked(), [0; 0]);
}

#[tokio::test]
async fn a_worker_that_needs_its_grace_gets_it() {
    let stage = Stage::new("grace");
    let mut agent = agent().await;
    let script = "trap 'sleep 1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    start(&mut agent, vec![stage.rank(0, script)]).await;
    stage.await_log(0, &["ready"]).await;
    let begun = Instant::now();
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 5000 }).await.unwrap();
    let (exits, report) = to_the_end(agent).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(exits, [(0, Some(0), None)]);
    assert!(!report.forced && report.left.is_empty(), "{report:?}");
    assert!(stage.logged(0).ends_with("saved\n"));
}

#[tokio::test]
async fn the_program_behind_a_shell_gets_the_signal_once_and_its_grace() {
    let stage = Stage::new("wrapper");
    fs::write(
        stage.directory.path().join("trap.sh"),
        "trap 'echo got; sleep 1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done",
    )
    .unwrap();
    let mut agent = agent().await;
    start(&mut agent, vec![stage.rank(0, "sh trap.sh; true")]).await;
    stage.await_log(0, &["ready"]).await;
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 5000 }).await.unwrap();
    let (exits, report) = to_the_end(agent).await;
    assert_eq!(exits, [(0, Some(0), None)], "the program's end, not the shell's");
    assert!(!report.forced && report.left.is_empty(), "{report:?}");
    assert_eq!(stage.logged(0).matches("got").count(), 1);
    assert!(stage.logged(0).ends_with("saved\n"));
}

#[tokio::test]
async fn a_daemon_outside_the_group_is_asked_before_it_is_killed() {
    let stage = Stage::new("daemon");
    let mut agent = agent().await;
    let daemon = "trap \"echo asked; exit 0\" TERM; echo daemon; while :; do sleep 0.01; done";
    start(&mut agent, vec![stage.rank(0, &format!("( setsid sh -c '{daemon}' & ); exec sleep 1000"))]).await;
    stage.await_log(0, &["daemon"]).await;
    let begun = Instant::now();
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 10_000 }).await.unwrap();
    let (_, report) = to_the_end(agent).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(!report.forced && report.left.is_empty(), "{report:?}");
    assert_eq!(stage.logged(0).matches("asked").count(), 1);
}

#[tokio::test]
async fn what_a_finished_group_leaves_behind_is_ended() {
    let stage = Stage::new("leftover");
    let mut agent = agent().await;
    start(
        &mut agent,
        vec![stage.rank(0, "( setsid sleep 1000 & ); exit 0"), stage.rank(1, "sleep 1000 & exit 0")],
    )
    .await;
    let (exits, report) = to_the_end(agent).await;
    assert_eq!(exits, [(0, Some(0), None), (1, Some(0), None)]);
    assert!(!report.forced && report.left.is_empty(), "{report:?}");
    assert_eq!(stage.marked(), [0; 0]);
}

#[tokio::test]
async fn a_stopped_worker_takes_the_stop_signal() {
    let stage = Stage::new("stopped");
    let mut agent = agent().await;
    let pids = start(&mut agent, vec![stage.rank(0, "exec sleep 1000")]).await;
    agent.send(&ToAgent::Signal { signal: 19 }).await.unwrap();
    eventually("the worker to be stopped", || state_of(pids[0]) == Some('T')).await;
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 10_000 }).await.unwrap();
    let (exits, report) = to_the_end(agent).await;
    assert_eq!((exits.as_slice(), report.forced), ([(0, None, Some(15))].as_slice(), false));
}

#[tokio::test]
async fn a_second_stop_can_shorten_the_grace() {
    let stage = Stage::new("hurry");
    let mut agent = agent().await;
    start(&mut agent, vec![stage.rank(0, STUBBORN)]).await;
    stage.await_log(0, &["worker", "child", "daemon"]).await;
    let begun = Instant::now();
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 60_000 }).await.unwrap();
    agent.send(&ToAgent::Kill).await.unwrap();
    let (_, report) = to_the_end(agent).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(report.forced && report.left.is_empty(), "{report:?}");
}

#[tokio::test]
async fn dropping_the_agent_ends_its_tree() {
    let stage = Stage::new("drop");
    let mut agent = agent().await;
    let pid = agent.pid();
    start(&mut agent, vec![stage.rank(0, STUBBORN)]).await;
    stage.await_log(0, &["worker", "child", "daemon"]).await;
    drop(agent);
    eventually("the tree to end", || stage.marked().is_empty()).await;
    eventually("the agent to be reaped", || state_of(pid).is_none()).await;
}

#[tokio::test]
async fn an_agent_minds_no_signal_but_kill() {
    let stage = Stage::new("deaf");
    let mut agent = agent().await;
    start(&mut agent, vec![stage.rank(0, "exec sleep 1000")]).await;
    let pid = Pid::from_raw(i32::try_from(agent.pid()).unwrap()).unwrap();
    for signal in
        [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::PIPE, Signal::TSTP]
    {
        kill_process(pid, signal).unwrap();
    }
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 10_000 }).await.unwrap();
    let (exits, _) = to_the_end(agent).await;
    assert_eq!(exits, [(0, None, Some(15))]);
}

#[tokio::test]
async fn another_program_is_not_taken_for_an_agent() {
    for program in ["/bin/true", "/nonexistent"] {
        assert!(AgentProcess::spawn(Path::new(program)).await.is_err(), "{program}");
    }
    let stage = Stage::new("imposter");
    let script = stage.directory.path().join("newer");
    let hello = r#"{"type":"hello","version":99,"pid":1}"#;
    fs::write(&script, format!("#!/bin/sh\necho '{hello}' >&0\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = AgentProcess::spawn(&script).await;
    assert!(matches!(refused, Err(AgentError::WrongVersion { found: 99 })), "{refused:?}");
    let status =
        Command::new(TRAINHEAD).arg("agent").stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[tokio::test]
async fn a_controller_that_talks_nonsense_is_as_good_as_gone() {
    let stage = Stage::new("nonsense");
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut agent = Command::new(TRAINHEAD)
        .arg("agent")
        .stdin(OwnedFd::from(theirs))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = ToAgent::Start { ranks: vec![stage.rank(0, STUBBORN)], cgroup: CgroupUse::IfPossible };
    writeln!(ours, "{}", serde_json::to_string(&start).unwrap()).unwrap();
    stage.await_log(0, &["worker", "child", "daemon"]).await;
    writeln!(ours, "{{\"type\":\"dance\"}}").unwrap();
    eventually("the tree to end", || stage.marked().is_empty()).await;
    assert!(agent.wait().unwrap().success());
}

/// Not a test by itself: the controller that is killed. It starts a group at the word and holds it.
#[tokio::test]
async fn plays_the_controller_that_is_killed() {
    let Some(mark) = std::env::var_os(MARK) else { return };
    let stage = Stage { directory: TempDir::new().unwrap(), mark: mark.into_string().unwrap() };
    let cgroup = if std::env::var_os(NO_CGROUP).is_some() { CgroupUse::Never } else { CgroupUse::IfPossible };
    println!("\ngo");
    let mut agent = agent().await;
    start_with(&mut agent, cgroup, vec![stage.rank(0, STUBBORN), stage.rank(1, STUBBORN)]).await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn nothing_outlives_a_controller_that_is_killed() {
    let path = module_path!().split_once("::").map_or(String::new(), |(_, module)| format!("{module}::"));
    // Controller, agent, and for each rank three shells with a sleep each.
    const WHOLE_TREE: usize = 14;
    let mut slowest = Duration::ZERO;
    for delay_ms in 0..50 {
        let stage = Stage::new(&format!("killed{delay_ms}"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        if delay_ms % 2 == 1 {
            command.env(NO_CGROUP, "1");
        }
        let mut controller = command
            .args(["--exact", &format!("{path}plays_the_controller_that_is_killed"), "--nocapture"])
            .env(MARK, &stage.mark)
            // Its temporary directory is never removed by itself.
            .env("TMPDIR", stage.directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut words = BufReader::new(controller.stdout.take().unwrap()).lines();
        assert!(words.any(|line| line.unwrap() == "go"));
        if delay_ms < 48 {
            // The moment of the kill is what is tried here; nothing waits for it.
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        } else {
            // At the end the whole tree, with a control group and without, however slow the machine is.
            eventually("the whole tree", || stage.marked().len() >= WHOLE_TREE).await;
        }
        controller.kill().unwrap();
        let killed = Instant::now();
        controller.wait().unwrap();
        eventually(&stage.mark, || stage.marked().is_empty()).await;
        slowest = slowest.max(killed.elapsed());
    }
    eprintln!("slowest end after the controller was killed: {slowest:?}");
}

#[tokio::test]
async fn workers_die_with_an_agent_that_is_killed() {
    let stage = Stage::new("bereft");
    let mut agent = agent().await;
    start_with(
        &mut agent,
        CgroupUse::Never,
        (0..4).map(|rank| stage.rank(rank, "exec sleep 1000")).collect(),
    )
    .await;
    kill(agent.pid());
    eventually("the workers to end", || stage.marked().is_empty()).await;
    assert_eq!(next(&mut agent).await, None);
    assert!(!agent.finish().await.unwrap().success());
}

#[test]
fn an_agent_that_is_killed_leaves_nothing_to_a_controller_that_sweeps() {
    if !alone("an_agent_that_is_killed_leaves_nothing_to_a_controller_that_sweeps") {
        return;
    }
    become_subreaper().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for cgroup in [CgroupUse::IfPossible, CgroupUse::Never] {
        runtime.block_on(sweep(cgroup));
    }
}

async fn sweep(cgroup: CgroupUse) {
    let stage = Stage::new("sweep");
    let spared = Stage::new("spared");
    let mut other = agent().await;
    let others = start(&mut other, vec![spared.rank(0, "exec sleep 1000")]).await;
    let mut agent = agent().await;
    let pids = start_with(&mut agent, cgroup, vec![stage.rank(0, STUBBORN)]).await;
    stage.await_log(0, &["worker", "child", "daemon"]).await;
    kill(agent.pid());
    assert_eq!(next(&mut agent).await, None);
    assert!(!agent.finish().await.unwrap().success());
    let except = [other.pid()];
    let swept = tokio::task::spawn_blocking(move || sweep_orphans(&except, LIMIT)).await.unwrap();
    assert!(swept.left.is_empty(), "{swept:?}");
    assert_eq!(stage.marked(), [0; 0]);
    assert!(pids.iter().all(|pid| state_of(*pid).is_none()), "reaped");
    assert!(is_running(others[0]) && is_running(other.pid()));
    other.send(&ToAgent::Kill).await.unwrap();
    to_the_end(other).await;
}

#[test]
fn many_short_runs_leave_no_zombie_and_no_descriptor() {
    if !alone("many_short_runs_leave_no_zombie_and_no_descriptor") {
        return;
    }
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let children = || {
        let this = std::process::id().to_string();
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(&this))
        })
        .count()
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let stage = Stage::new("short");
        let mut before = 0;
        let begun = Instant::now();
        for run in 0..100 {
            let mut agent = agent().await;
            start(&mut agent, vec![stage.rank(0, "( sleep 0.01 & ); exit 0"), stage.rank(1, "exit 3")]).await;
            // Every second one is dropped in the middle.
            if run % 2 == 0 {
                to_the_end(agent).await;
            }
            if run == 2 {
                eventually("the dropped agent to be reaped", || children() == 0).await;
                before = descriptors();
            }
        }
        eprintln!("100 short runs: {:?}", begun.elapsed());
        eventually("no child, not even a zombie", || children() == 0).await;
        assert_eq!(descriptors(), before);
        assert_eq!(stage.marked(), [0; 0]);
    });
}

#[tokio::test]
async fn many_ranks_start_and_stop_fast() {
    let stage = Stage::new("many");
    let begun = Instant::now();
    let mut agent = agent().await;
    let hello = begun.elapsed();
    let begun = Instant::now();
    let ranks = (0..64).map(|rank| stage.rank(rank, "exec sleep 1000")).collect();
    start(&mut agent, ranks).await;
    let started = begun.elapsed();
    let begun = Instant::now();
    agent.send(&ToAgent::Stop { signal: TERM, grace_ms: 10_000 }).await.unwrap();
    let (exits, report) = to_the_end(agent).await;
    eprintln!("agent up: {hello:?}; 64 ranks started: {started:?}, stopped: {:?}", begun.elapsed());
    assert_eq!(exits.len(), 64);
    assert_eq!(report.processes_ended.len(), 64);
    assert!(!report.forced);
}
