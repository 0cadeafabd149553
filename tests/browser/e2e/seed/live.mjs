// Runs that live: one in each phase, one that stands still, one with a rank that lags behind, and one that
// trains on. Their controllers are handed to the caller, who may go on with them.
/** @import { Api, Node } from "../controller.mjs" */

import { chance, noise, strides, training } from "./curves.mjs";

/** Longer than any test takes. */
const LEASE_MS = 3_600_000;
const MINUTE = 60_000;
export const pause = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

/** Hosts with eight GPUs each, that controllers place workers on. @type {Node[]} */
export const NODES = [1, 2, 3, 4].map((n) => ({
  node_id: `gpu-node-${n}`,
  node_ip: `10.0.0.${n}`,
  resources: { CPU: 64 },
  gpu_ids: Array.from({ length: 8 }, (_, i) => String(i)),
}));

/** @param {Api} head @param {string} name @param {Record<string, unknown>} [more] */
const begin = (head, name, more = {}) =>
  head.register(
    {
      name,
      experiment: "language-pretraining",
      start_time_ms: Date.now() - 20 * MINUTE,
      settings: { optimizer: { name: "adamw", lr: 0.001 }, data: { batch_size: 256 } },
      framework_versions: { torch: "2.6.0", python: "3.12.4" },
      tags: { team: "language", owner: "grace" },
      ...more,
    },
    LEASE_MS,
  );

/** Trains on: the one that tests add points to. @param {Api} head */
async function running(head) {
  const run = await begin(head, "gpt2-medium-live", {
    settings: { num_workers: 8, optimizer: { name: "adamw", lr: 0.003 }, data: { batch_size: 256 } },
  });
  await run.run(8, NODES);
  const step = strides(400, 10);
  const time_ms = step.map((s) => Date.now() - 20 * MINUTE + s * 300);
  await run.columns({
    step,
    time_ms,
    metrics: training(step, { total: 8_000, lr: 0.003, batch: 256, seed: 5 }),
  });
  return run;
}

/** Sixteen ranks, of which one is slow. @param {Api} head */
async function straggler(head) {
  const run = await begin(head, "conformer-straggler");
  await run.run(16, NODES);
  const next = chance(11);
  for (let rank = 0; rank < 16; rank++) {
    const slow = rank === 5;
    const step = strides(slow ? 62 : 96, 5);
    const per_step = slow ? 4_700 : 3_000;
    const time_ms = step.map((s) => Math.round(Date.now() - 5 * MINUTE + (s / 5) * per_step));
    const of = (/** @type {(s: number) => number} */ f) => step.map((s) => Number(f(s).toPrecision(5)));
    const metrics = {
      "perf/step_time_s": of(() => (per_step / 5_000) * (1 + 0.05 * noise(next))),
      "perf/wait_s": of(() => (slow ? 0.01 : 0.3) * (1 + 0.3 * next())),
      "train/loss": of((s) => 2 * Math.exp(-s / 200) + 0.05 * noise(next) + 0.3),
    };
    await run.columns({ step, time_ms, metrics }, rank);
  }
  return run;
}

/** Has reported quickly, and then no more: stalled 10 s later. @param {Api} head */
async function stalled(head) {
  const run = await begin(head, "ecapa-stalled");
  await run.run(2);
  for (let step = 0; step < 6; step++) {
    await run.report([{ step, metrics: { "train/loss": 1 / (1 + step) } }]);
    await pause(100);
  }
  return run;
}

/** @param {Api} head */
async function initializing(head) {
  return begin(head, "unet-initializing", { start_time_ms: Date.now() - 5_000 });
}

/** Has asked for workers that do not run yet. @param {Api} head */
async function scheduling(head) {
  const run = await begin(head, "llama-scheduling", { start_time_ms: Date.now() - 2 * MINUTE });
  await run.state("SCHEDULING", "waiting for 4 nodes");
  await run.placeAttempt(4);
  return run;
}

/** @param {Api} head */
async function restarting(head) {
  const run = await begin(head, "vit-restarting");
  await run.run(2);
  await run.workerEnded(1, { signal: "SIGKILL" });
  await run.endAttempt("ERRORED", "worker_failed", "rank 1 was killed by SIGKILL");
  await run.state("RESTARTING", "attempt 1 begins in 8 s");
  return run;
}

/** @param {Api} head */
async function preempting(head) {
  const run = await begin(head, "resnet50-preempting");
  await run.run(2);
  await run.state("PREEMPTING", "node gpu-node-3 goes away in 2 minutes");
  return run;
}

/** @param {Api} head */
async function resizing(head) {
  const run = await begin(head, "gpt2-resizing");
  await run.run(4);
  await run.endAttempt("ABORTED", "resized", "2 of 4 nodes were given to another run");
  await run.state("RESIZING", "from 4 workers to 2");
  return run;
}

/** Somebody wants it to stop; it has not yet. @param {Api} head */
async function stopping(head) {
  const run = await begin(head, "unet-stopping");
  await run.run(2);
  await head.call("POST", `api/train/runs/${run.id}/stop`, { reason: "the data was wrong" });
  return run;
}

export const LIVE = {
  running,
  straggler,
  stalled,
  initializing,
  scheduling,
  restarting,
  preempting,
  resizing,
  stopping,
};
