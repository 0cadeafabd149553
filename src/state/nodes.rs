//! Nodes: what they have, what is reserved of it, and who is on them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::Serialize;
use utoipa::ToSchema;

use super::{StateError, StateHandle, blocking::blocking};
use crate::{
    base::{RunId, host::HostDevices, limits, sampler::HostSampler},
    model::{
        RunRecord, WorkerStatus,
        ledger::{CPU, Ledger, NodeOffer, Resources},
        view::StatsOf,
    },
};

/// This host as a node: its name, a CPU slot for each processor that this process may use, its GPUs. Blocks.
#[must_use]
pub fn own_node() -> NodeOffer {
    let devices = HostSampler::new().devices();
    NodeOffer {
        node_id: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        node_ip: "127.0.0.1".to_owned(),
        resources: Resources::from([(CPU.to_owned(), f64::from(devices.cpu_count))]),
        gpu_ids: devices.gpus.iter().map(|gpu| gpu.index.to_string()).collect(),
    }
}

/// A node that workers are on, were on, or could be placed on.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NodeView {
    /// Identity, the host's name as a rule.
    pub node_id: String,
    /// Address.
    pub node_ip: String,
    /// Whether the head runs on it.
    pub is_head: bool,
    /// What it has; empty if nobody said.
    #[schema(value_type = Object)]
    pub capacity: Resources,
    /// What attempts have reserved of it.
    #[schema(value_type = Object)]
    pub reserved: Resources,
    /// What can still be reserved.
    #[schema(value_type = Object)]
    pub free: Resources,
    /// Its GPUs by the ids that workers see.
    pub gpu_ids: Vec<String>,
    /// Who has reserved what.
    pub reservations: Vec<ReservationView>,
    /// Workers that live on it.
    pub workers: Vec<WorkerOnNode>,
    /// What the head measures of it right now; null for other hosts.
    pub devices: Option<HostDevices>,
}

/// What one attempt has reserved on a node.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ReservationView {
    /// The run.
    pub run_id: RunId,
    /// For how many workers.
    pub num_workers: usize,
    /// How much in all.
    #[schema(value_type = Object)]
    pub resources: Resources,
    /// Which GPUs.
    pub gpu_ids: Vec<String>,
}

/// A worker that lives on a node.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkerOnNode {
    /// The run.
    pub run_id: RunId,
    /// Ordinal of its attempt.
    pub attempt: u32,
    /// Rank in the group.
    pub world_rank: u32,
    /// Process id on the node.
    pub pid: Option<u32>,
    /// Devices it was given.
    pub gpu_ids: Vec<String>,
}

impl StateHandle {
    /// All nodes, by id.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn nodes(&self) -> Result<Vec<NodeView>, StateError> {
        self.reconcile_to_read().await?;
        let most = u32::try_from(limits::WORKERS).unwrap_or(u32::MAX);
        let mut workers: BTreeMap<String, Vec<WorkerOnNode>> = BTreeMap::new();
        for w in self.shared.reader.placed_workers(most).await? {
            let worker = WorkerOnNode {
                run_id: w.run_id,
                attempt: w.attempt,
                world_rank: w.world_rank,
                pid: w.pid,
                gpu_ids: w.gpu_ids,
            };
            workers.entry(w.node_id).or_default().push(worker);
        }
        let sampler = Arc::clone(&self.shared.sampler);
        let mut devices = Some(blocking(move || sampler.devices()).await?);
        let ledger = self.shared.ledger.read();
        let mut reserved = reservations(&ledger);
        let nodes = ledger.nodes().map(|node| {
            let id = &node.offer.node_id;
            NodeView {
                node_id: id.clone(),
                node_ip: node.offer.node_ip.clone(),
                is_head: ledger.is_own(id),
                capacity: node.capacity(),
                reserved: node.reserved(),
                free: node.free(),
                gpu_ids: node.offer.gpu_ids.clone(),
                reservations: reserved.remove(id).map(|of| of.into_values().collect()).unwrap_or_default(),
                workers: workers.remove(id).unwrap_or_default(),
                devices: if ledger.is_own(id) { devices.take() } else { None },
            }
        });
        Ok(nodes.collect())
    }
}

/// What is reserved, by node and run.
fn reservations(ledger: &Ledger) -> BTreeMap<String, BTreeMap<RunId, ReservationView>> {
    let mut by_node: BTreeMap<String, BTreeMap<RunId, ReservationView>> = BTreeMap::new();
    for (run, bundle) in ledger.reserved() {
        let of_node = by_node.entry(bundle.node_id.clone()).or_default();
        let view = of_node.entry(run.clone()).or_insert_with(|| ReservationView {
            run_id: run.clone(),
            num_workers: 0,
            resources: Resources::new(),
            gpu_ids: Vec::new(),
        });
        view.num_workers += 1;
        for (name, amount) in &bundle.resources {
            *view.resources.entry(name.clone()).or_default() += amount;
        }
        view.gpu_ids.extend(bundle.gpu_ids.iter().cloned());
    }
    by_node
}

impl StateHandle {
    /// What the workers of these runs use right now, as far as they live on the head's host.
    ///
    /// # Errors
    /// When the head is stopping.
    pub(super) async fn stats(&self, records: &[RunRecord]) -> Result<HashMap<RunId, StatsOf>, StateError> {
        let here = |record: &&RunRecord| {
            record.controller.process.as_ref().is_some_and(|process| self.shared.processes.is_here(process))
        };
        let mut places = Vec::new();
        let mut pids = Vec::new();
        for record in records.iter().filter(here) {
            let Some(attempt) = record.live_attempt() else { continue };
            for worker in attempt.workers.values().filter(|w| w.status == WorkerStatus::Alive) {
                if let Some(pid) = worker.pid.filter(|_| worker.node_id == self.shared.node.node_id) {
                    places.push((record.run.id.clone(), (attempt.ordinal, worker.world_rank)));
                    pids.push(pid);
                }
            }
        }
        if pids.is_empty() {
            return Ok(HashMap::new());
        }
        let sampler = Arc::clone(&self.shared.sampler);
        let stats = blocking(move || sampler.workers(&pids)).await?;
        let mut of_runs: HashMap<RunId, StatsOf> = HashMap::new();
        for ((run, place), stats) in places.into_iter().zip(stats) {
            of_runs.entry(run).or_default().insert(place, stats);
        }
        Ok(of_runs)
    }
}
