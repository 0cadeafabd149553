// A run as the head lists it, to be varied by the tests.
/** @import { TrainRun, Worker } from "../../../static/js/types.js" */

/** @param {Partial<TrainRun>} [change] @returns {TrainRun} */
export function makeRun(change = {}) {
  return {
    id: "r1",
    name: "mnist",
    job_id: null,
    experiment: null,
    controller_actor_id: "c1",
    controller_actor_status: "ALIVE",
    controller_state: "RUNNING",
    run_status: "STARTED",
    phase: "RUNNING",
    status_detail: null,
    ended_by: null,
    start_time_ms: 1000,
    end_time_ms: null,
    duration_ms: null,
    noticed_at_ms: null,
    stop_requested_at_ms: null,
    num_attempts: 1,
    num_failures: { worker: 0, controller: 0, preemption: 0 },
    tags: {},
    settings: {},
    omitted: [],
    notes: null,
    datasets: [],
    workers: [makeWorker(0), makeWorker(1)],
    evidence: {
      process: { state: "running", pid: 1, host: "h", observed_by: "head", observed_at_ms: 1 },
      contact: { last_contact_ms: 1, lease_ttl_ms: 30_000, lease_expires_ms: 1, clock_skew_ms: null },
      progress: {
        last_step: 10,
        last_report_ms: 5000,
        last_advance_ms: 5000,
        median_step_interval_ms: 500,
        stalled: false,
        stalled_since_ms: null,
        ranks: [],
      },
    },
    last_metrics: {},
    ...change,
  };
}

/** @param {number} rank @returns {Worker} */
export function makeWorker(rank) {
  return {
    actor_id: `w${rank}`,
    world_rank: rank,
    local_rank: rank,
    node_rank: 0,
    node_id: "n",
    node_ip: "127.0.0.1",
    pid: 100 + rank,
    gpu_ids: [],
    status: "ALIVE",
    exit: null,
  };
}
