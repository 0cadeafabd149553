//! What the controller says in words about workers: how one failed, how a tree ended.

use super::group::RankExit;
use crate::{
    base::ActorId,
    model::{StopReport, verbs::NewWorker},
};

/// What a failed rank left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) log_tail: Vec<String>,
    /// What the rank itself said was wrong.
    pub(crate) message: Option<String>,
}

/// What is worth saying of the end of a tree.
pub(super) fn stop_words(report: &StopReport) -> Option<String> {
    let StopReport { processes_ended, forced, left } = report;
    (*forced || !left.is_empty()).then(|| {
        let by = if *forced { "by force" } else { "" };
        let rest = if left.is_empty() { String::new() } else { format!("; {left:?} could not be ended") };
        format!("{} processes ended {by}{rest}", processes_ended.len())
    })
}

pub(super) fn describe(exit: &RankExit, pid: Option<u32>, host: &str, evidence: &Evidence) -> String {
    let rank = exit.rank;
    let place = pid.map_or_else(String::new, |pid| format!(" (pid {pid} on {host})"));
    let how = match (&exit.signal, exit.code) {
        (Some(signal), _) => format!("rank {rank} was killed by {signal}{place}"),
        (None, Some(code)) => format!("rank {rank} exited with code {code}{place}"),
        (None, None) => format!("rank {rank} failed{place}"),
    };
    let said = exit.message.as_ref().or(evidence.message.as_ref());
    match said.or_else(|| evidence.log_tail.iter().rev().find(|line| !line.trim().is_empty())) {
        Some(line) => format!("{how}: {}", line.trim()),
        None => how,
    }
}

/// A worker of a group as the controller reports it.
pub(crate) fn new_worker(rank: u32, pid: Option<u32>, host: &str) -> NewWorker {
    NewWorker {
        actor_id: ActorId::generate(),
        world_rank: rank,
        local_rank: rank,
        node_rank: 0,
        node_id: host.to_owned(),
        node_ip: "127.0.0.1".to_owned(),
        pid,
        gpu_ids: Vec::new(),
        resources: serde_json::Map::from_iter([("CPU".to_owned(), 1.into())]),
    }
}
