// Runs that ended and are special: by how they went, or by what they carry.
/** @import { Api, Controller } from "../controller.mjs" */

import { strides, training } from "./curves.mjs";
import { NODES, pause } from "./live.mjs";

const hoursAgo = (/** @type {number} */ n) => Date.now() - n * 3_600_000;

/** @param {number} from @param {number} to @param {number} seed points of one attempt, as it goes on from a checkpoint */
function part(from, to, seed) {
  const all = strides(Math.ceil(to / 25), 25);
  const metrics = training(all, { total: 9_000, lr: 0.002, batch: 128, seed });
  const at = all.findIndex((s) => s >= from);
  return {
    step: all.slice(at),
    metrics: Object.fromEntries(Object.entries(metrics).map(([key, values]) => [key, values.slice(at)])),
  };
}

/** @param {Controller} run @param {number} first @param {number} from @param {number} to a checkpoint every 1000 steps */
async function checkpoints(run, first, from, to) {
  for (let step = from, n = first; step <= to; step += 1_000, n++) {
    await run.checkpoint(
      n,
      n % 3 === 2 ? "VALIDATED" : "COMMITTED",
      0.5 + 0.05 * Math.sqrt(n) - (n === 4 ? 0.1 : 0),
      {
        step,
        attempt: run.attempt,
        ranks: [0, 1],
        uri: `s3://training/gpt2/checkpoint_${String(n).padStart(6, "0")}`,
        num_files: 6,
        size_bytes: 1_503_238_554,
        committed_at_ms: Date.now(),
      },
    );
  }
}

/** A failed attempt, a preempted one, one that was made smaller, and a last one that got through. @param {Api} head */
async function restarted(head) {
  const run = await head.register({
    name: "gpt2-small-restarted",
    experiment: "language-pretraining",
    settings: {
      num_workers: 4,
      checkpoints: { num_to_keep: 3, score_attribute: "accuracy", score_order: "max" },
    },
    tags: { team: "language", owner: "ada" },
  });
  await run.run(4, NODES);
  await run.columns(part(0, 3_400, 3));
  await checkpoints(run, 0, 1_000, 3_000);
  await pause(900);
  await run.workerEnded(2, { signal: "SIGKILL" });
  await run.endAttempt("ERRORED", "worker_failed", "rank 2 was killed by SIGKILL: out of memory");
  await run.state("RESTARTING", "attempt 1 begins in 1 s");
  await pause(300);

  await run.run(4, NODES);
  await run.columns(part(3_000, 5_600, 4));
  await checkpoints(run, 3, 4_000, 5_000);
  await pause(700);
  await run.state("PREEMPTING", "gpu-node-1 goes away in 30 s");
  await run.endAttempt("ABORTED", "preempted", "gpu-node-1 was preempted");
  await run.state("RESTARTING");
  await pause(200);

  await run.run(4, NODES);
  await run.columns(part(5_000, 7_100, 5));
  await checkpoints(run, 5, 6_000, 7_000);
  await pause(700);
  await run.endAttempt("ABORTED", "resized", "from 4 workers to 2: gpu-node-2 is wanted by another run");
  await run.state("RESIZING");
  await pause(100);

  await run.run(2, NODES);
  await run.columns(part(7_000, 9_000, 6));
  await checkpoints(run, 7, 8_000, 9_000);
  await pause(600);
  await run.end("FINISHED");
  await head.call("PUT", `api/train/runs/${run.id}/checkpoints/1/pin`);
  return run;
}

/** An end with everything that can be known about it. @param {Api} head */
async function failed(head) {
  const run = await head.register({ name: "resnet50-failed", experiment: "imagenet-baselines" });
  await run.run(4);
  await run.columns(part(0, 2_000, 8));
  await pause(300);
  const time_ms = Date.now();
  await run.workerEnded(2, { code: 1 });
  const message = "rank 2 exited with code 1: RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB";
  for (const rank of [0, 1, 3]) await run.workerEnded(rank, { signal: "SIGABRT" });
  await run.endAttempt("ERRORED", "worker_failed", message);
  await run.state("SHUTTING_DOWN");
  await run.close({
    run_status: "ERRORED",
    status_detail: `${message}; no retry is left`,
    first_failure: {
      rank: 2,
      attempt: 0,
      pid: 4713,
      host: "gpu-node-2",
      exit_code: 1,
      signal: null,
      message,
      log_tail: [
        "step 1975  loss 0.3121",
        "Traceback (most recent call last):",
        '  File "train.py", line 141, in <module>',
        "    loss.backward()",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB",
      ],
      time_ms,
      consequences: [0, 1, 3].map((rank) => ({ rank, exit_code: null, signal: "SIGABRT" })),
    },
  });
  return run;
}

/** @param {Api} head */
async function stopped(head) {
  const run = await head.register({ name: "vit-stopped", experiment: "vit-distillation" });
  await run.run(2);
  await run.columns(part(0, 900, 9));
  await head.call("POST", `api/train/runs/${run.id}/stop`, { reason: "wrong learning rate" });
  await run.end("ABORTED", "stopped by a user: wrong learning rate");
  return run;
}

/** Its controller is not heard of any more: lost when the shortest lease is over. @param {Api} head */
async function lost(head) {
  const run = await head.register({ name: "unet-lost", experiment: "segmentation" }, 5_000);
  await run.run(2);
  await run.columns(part(0, 1_200, 10));
  return run;
}

/** @param {Api} head @param {string} name @param {(step: number, loss: number) => number | string} value */
async function notFinite(head, name, value) {
  const start_time_ms = hoursAgo(3);
  const run = await head.register({
    name,
    start_time_ms,
    experiment: "language-pretraining",
    tags: { team: "language" },
  });
  await run.run(2);
  const { step, metrics } = part(0, 3_000, 12);
  const loss = metrics["train/loss"].map((v, i) => value(step[i], v));
  await run.columns({ step, metrics: { ...metrics, "train/loss": loss } });
  await run.end("ERRORED", "rank 0 exited with code 1: FloatingPointError: the loss is not finite");
  return run;
}

/** Forty groups of three hundred keys. @param {Api} head */
async function keys12k(head) {
  const run = await head.register({
    name: "llama-12000-keys",
    experiment: "instruction-tuning",
    start_time_ms: hoursAgo(5),
  });
  await run.run(1);
  const step = strides(5, 100);
  /** @type {Record<string, number[]>} */
  const metrics = {};
  for (let group = 0; group < 40; group++) {
    for (let k = 0; k < 300; k++) {
      const key = `layer_${String(group).padStart(2, "0")}/head_${String(k).padStart(3, "0")}`;
      metrics[key] = step.map((s) => Number(Math.sin((group * 300 + k + s) / 77).toFixed(3)));
    }
  }
  await run.columns({ step, metrics });
  await run.end("FINISHED");
  return run;
}

/** For its log, which is written by whoever knows the data directory. @param {Api} head */
async function sparseLog(head) {
  const run = await head.register({
    name: "conformer-5gb-log",
    experiment: "speech-to-text",
    start_time_ms: hoursAgo(4),
  });
  await run.run(2);
  await run.columns(part(0, 500, 14));
  await run.end("ERRORED", "rank 0 exited with code 1: FloatingPointError: loss is nan at step 41999");
  return run;
}

export const ENDED = {
  restarted,
  failed,
  stopped,
  lost,
  nan: (/** @type {Api} */ head) =>
    notFinite(head, "gpt2-nan", (step, loss) => (step >= 2_400 ? "NaN" : loss)),
  infinite: (/** @type {Api} */ head) =>
    notFinite(head, "gpt2-inf", (step, loss) => (step > 2_900 ? "Infinity" : loss)),
  onlyNan: (/** @type {Api} */ head) => notFinite(head, "gpt2-only-nan", () => "NaN"),
  keys12k,
  sparseLog,
};
