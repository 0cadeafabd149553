//! What the controller says in words: how a worker failed, how a tree ended, what a group goes on from.

use super::{checkpoints::Resume, group::RankExit, process::signal_of_code};
use crate::{
    base::{ActorId, number},
    model::{
        StopReport,
        ledger::{Bundle, CPU},
        verbs::NewWorker,
    },
};

/// What is worth saying of the end of a tree.
pub(super) fn stop_words(report: &StopReport) -> Option<String> {
    let StopReport { processes_ended, forced, left } = report;
    (*forced || !left.is_empty()).then(|| {
        let by = if *forced { "by force" } else { "" };
        let rest = if left.is_empty() { String::new() } else { format!("; {left:?} could not be ended") };
        format!("{} processes ended {by}{rest}", processes_ended.len())
    })
}

/// How a rank failed, in one sentence.
pub(super) fn describe(exit: &RankExit, pid: Option<u32>, host: &str) -> String {
    let rank = exit.rank;
    let place = pid.map_or_else(String::new, |pid| format!(" (pid {pid} on {host})"));
    let how = match (&exit.signal, exit.code) {
        (Some(signal), _) => format!("rank {rank} was killed by {signal}{place}"),
        (None, Some(code)) => {
            let shell = signal_of_code(code).map(|signal| format!(", as shells do for {signal}"));
            format!("rank {rank} exited with code {code}{}{place}", shell.unwrap_or_default())
        }
        (None, None) => format!("rank {rank} failed{place}"),
    };
    let last_line = || exit.log_tail.iter().rev().find(|line| !line.trim().is_empty());
    match exit.out_of_memory.as_ref().or(exit.message.as_ref()).or_else(last_line) {
        Some(line) => format!("{how}: {}", line.trim()),
        None => how,
    }
}

/// `rank 2`, or `ranks 1, 3`.
pub(super) fn ranks(ranks: &[u32]) -> String {
    let list = ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if ranks.len() == 1 { format!("rank {list}") } else { format!("ranks {list}") }
}

/// `1 worker`, or `3 workers`.
pub(super) fn workers(n: u32) -> String {
    if n == 1 { "1 worker".to_owned() } else { format!("{n} workers") }
}

/// A worker of a group as the controller reports it, with what was reserved for it.
pub(crate) fn new_worker(rank: u32, pid: Option<u32>, host: &str, reserved: Option<&Bundle>) -> NewWorker {
    let resources =
        reserved.map_or_else(|| [(CPU.to_owned(), 1.0)].into(), |bundle| bundle.resources.clone());
    NewWorker {
        actor_id: ActorId::generate(),
        world_rank: rank,
        local_rank: rank,
        node_rank: 0,
        node_id: host.to_owned(),
        node_ip: "127.0.0.1".to_owned(),
        pid,
        gpu_ids: reserved.map(|bundle| bundle.gpu_ids.clone()).unwrap_or_default(),
        resources: resources.into_iter().map(|(name, amount)| (name, number_of(amount))).collect(),
    }
}

/// Whole amounts without a fraction, as people write them.
fn number_of(amount: f64) -> serde_json::Value {
    if amount.fract() == 0.0 { number::whole(amount).into() } else { amount.into() }
}

/// What is said of what a group goes on from; nothing if it begins anew and there is nothing to say about that.
pub(crate) fn resumes(resume: &Resume) -> Option<String> {
    let from =
        resume.from.as_ref().map(|c| format!("goes on from checkpoint {} (step {})", c.number, c.step));
    let words: Vec<String> = from.into_iter().chain(resume.notes.iter().cloned()).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_with_its_signal_by_name_and_the_best_reason_there_is() {
        let exit = |code, signal: Option<&str>| RankExit {
            rank: 2,
            code,
            signal: signal.map(str::to_owned),
            log_tail: vec!["loss 0.3".into(), "  ".into()],
            ..RankExit::default()
        };
        let killed = RankExit {
            out_of_memory: Some("out of memory (limit 512 MiB)".into()),
            ..exit(None, Some("SIGKILL"))
        };
        let raised = RankExit { message: Some("ValueError: boom".into()), ..exit(Some(1), None) };
        let cases = [
            (killed, "rank 2 was killed by SIGKILL (pid 7 on here): out of memory (limit 512 MiB)"),
            (raised, "rank 2 exited with code 1 (pid 7 on here): ValueError: boom"),
            (
                exit(Some(137), None),
                "rank 2 exited with code 137, as shells do for SIGKILL (pid 7 on here): loss 0.3",
            ),
            (exit(None, None), "rank 2 failed (pid 7 on here): loss 0.3"),
        ];
        for (exit, words) in cases {
            assert_eq!(describe(&exit, Some(7), "here"), words);
        }
    }
}
