// Some 330 ordinary runs of a team over the last three weeks: sweeps and single trainings of several
// experiments, most of them ended, one way or another. All that the head lets a controller date is dated
// back (the start and the end of a run, the times of its points); attempts begin when they are said to.
/** @import { Api } from "../controller.mjs" */

import { chance, strides, training } from "./curves.mjs";

const DAY = 86_400_000;
const EXPERIMENTS = [
  { experiment: "imagenet-baselines", model: "resnet50", data: "imagenet-1k", team: "vision" },
  { experiment: "vit-distillation", model: "vit-b16", data: "imagenet-1k", team: "vision" },
  { experiment: "segmentation", model: "unet", data: "cityscapes", team: "vision" },
  { experiment: "language-pretraining", model: "gpt2-small", data: "openwebtext", team: "language" },
  { experiment: "instruction-tuning", model: "llama-1b", data: "dolly-15k", team: "language" },
  { experiment: "speech-to-text", model: "conformer-m", data: "librispeech", team: "speech" },
  { experiment: "speaker-id", model: "ecapa", data: "voxceleb2", team: "speech" },
];
const PEOPLE = ["ada", "grace", "alan", "barbara", "edsger"];
const NOTES = [
  "Baseline for the **warm-up** study. See the [report](https://example.org/warmup).\n\n- lr from the sweep\n- two seeds",
  "## What I wanted to know\n\nWhether a *larger batch* hurts after epoch 30.\n\n```\nval/accuracy 0.871 -> 0.869\n```\n\n> No.",
  "Started again with the tokeniser of `v2`; compare with run 14.\n\n1. vocabulary 32k\n2. no dropout",
];
/** What rank 1 died of. */
const FAILURES = [
  { message: "rank 1 was killed by SIGKILL: out of memory (cgroup limit 64 GiB)", signal: "SIGKILL" },
  { message: "rank 1 exited with code 1: RuntimeError: CUDA error: an illegal memory access", exit_code: 1 },
  { message: "rank 1 exited with code 1: FileNotFoundError: shards/train-00417.tar", exit_code: 1 },
  { message: "rank 1 made no progress for 600 s while waiting in all_reduce", signal: "SIGABRT" },
];

/** A registration with all that real ones carry. @param {number} i @param {number} now */
function described(i, now) {
  const next = chance(1000 + i);
  const kind = EXPERIMENTS[i % EXPERIMENTS.length];
  const lr = [0.0003, 0.001, 0.003, 0.01, 0.03][Math.floor(next() * 5)];
  const batch = [64, 128, 256, 512][Math.floor(next() * 4)];
  const depth = [6, 12, 18, 24][Math.floor(next() * 4)];
  const total = [4_000, 10_000, 30_000][Math.floor(next() * 3)];
  // Denser towards now, as in life.
  const age = 21 * DAY * (i / 330) ** 1.5 + 3_600_000 * (1 + next());
  return {
    how: { total, lr, batch, seed: i },
    took_ms: Math.min(age - 60_000, 600_000 + next() * 7 * 3_600_000),
    body: {
      name: `${kind.model}-lr${lr}-bs${batch}-${String(i).padStart(3, "0")}`,
      experiment: kind.experiment,
      job_id: `slurm-${48_000 + Math.floor(i / 4)}`,
      start_time_ms: Math.round(now - age),
      settings: {
        entrypoint: ["python3", "train.py", "--config", `configs/${kind.model}.yaml`],
        num_workers: 2,
        seed: Math.floor(next() * 5),
        checkpoints: { num_to_keep: 2, score_attribute: "val/accuracy", score_order: "max" },
        model: { name: kind.model, depth, dropout: next() < 0.5 ? 0 : 0.1 },
        optimizer: { name: next() < 0.7 ? "adamw" : "sgd", lr, weight_decay: 0.05 },
        data: { batch_size: batch, loader_workers: 8 },
      },
      datasets: [{ name: "train", dataset_name: kind.data, dataset_uuid: `ds-${kind.data}` }],
      framework_versions: { torch: next() < 0.8 ? "2.6.0" : "2.5.1", python: "3.12.4", cuda: "12.4" },
      tags: { team: kind.team, owner: PEOPLE[Math.floor(next() * PEOPLE.length)], git: hex(next, 7) },
    },
  };
}

/** @param {() => number} next @param {number} digits */
const hex = (next, digits) =>
  Array.from({ length: digits }, () => Math.floor(next() * 16).toString(16)).join("");

/** One of them from its registration to its end. @param {Api} head @param {number} i @param {number} now */
export async function ordinary(head, i, now) {
  const { body, how, took_ms } = described(i, now);
  const run = await head.register(body);
  const fate = chance(7000 + i)();
  const [status, share] =
    fate < 0.72
      ? ["FINISHED", 1]
      : fate < 0.88
        ? ["ERRORED", 0.1 + 0.8 * fate]
        : ["ABORTED", 0.2 + 0.5 * fate];
  const workers = i % 5 === 0 ? 4 : 2;
  await run.beginAttempt(workers);
  const steps = strides(Math.ceil(100 * share), how.total / 100);
  const time_ms = steps.map((s) => Math.round(body.start_time_ms + (took_ms * s) / how.total / share));
  await run.columns({ step: steps, time_ms, metrics: training(steps, how) });
  if (i % 23 === 0) await run.annotate({ notes: NOTES[(i / 23) % NOTES.length] });
  const end_time_ms = Math.round(body.start_time_ms + took_ms);
  if (status === "ERRORED") await fails(run, i, end_time_ms);
  else
    await run.close({
      run_status: status,
      status_detail: status === "ABORTED" ? "stopped: no better than the last one" : null,
      end_time_ms,
    });
  return run.id;
}

/** @param {import("../controller.mjs").Controller} run @param {number} i @param {number} time_ms */
async function fails(run, i, time_ms) {
  const failure = FAILURES[i % FAILURES.length];
  await run.close({
    run_status: "ERRORED",
    status_detail: failure.message,
    end_time_ms: time_ms,
    first_failure: {
      rank: 1,
      attempt: 0,
      pid: 4712,
      host: "node-a",
      exit_code: null,
      signal: null,
      ...failure,
      log_tail: ["step 1840  loss 0.4113", "step 1850  loss 0.4071", failure.message],
      time_ms,
      consequences: i % 2 ? [{ rank: 0, exit_code: null, signal: "SIGTERM" }] : [],
    },
  });
}
