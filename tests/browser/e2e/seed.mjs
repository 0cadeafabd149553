// Fills a running head, over its API, with what a team would have there: several hundred runs of all
// statuses, live ones in every phase, sweeps, and runs that are special. For the browser tests and for people:
//
//   node tests/browser/e2e/seed.mjs http://127.0.0.1:8420 DATA_DIR
//
// Without the data directory no logs are written. It starts no head. What it makes is the same each time,
// but for ids and times.

import { pathToFileURL } from "node:url";
import { Api } from "./controller.mjs";
import { strides, training } from "./seed/curves.mjs";
import { ENDED } from "./seed/ended.mjs";
import { HOSTILE } from "./seed/hostile.mjs";
import { LIVE, pause } from "./seed/live.mjs";
import { smallLog, sparseLog } from "./seed/log.mjs";
import { ordinary } from "./seed/many.mjs";

/** @import { Controller } from "./controller.mjs" */

/** Ordinary runs, besides the special ones. */
const ORDINARY = 320;
/** Requests at a time. */
const HANDS = 16;
/** The shortest lease, and a little. */
const LOST_AFTER_MS = 5_500;

/** @typedef {keyof typeof LIVE | keyof typeof ENDED | keyof typeof HOSTILE} Special */
/**
 * Ids of the runs that are special, and of whole groups; and the controllers of all special ones, to go on with
 * those that live.
 * @typedef {Record<Special, string> & { sweep: string[], ordinary: string[], trashed: string[], controllers: Record<Special, Controller> }} Seeded
 */

/**
 * @param {string} url of the head @param {string | null} [dir] its data directory, for logs
 * @returns {Promise<Seeded>}
 */
export async function seed(url, dir = null) {
  const head = new Api(url);
  const now = Date.now();
  // What takes its own time goes beside the crowd.
  const special = Object.entries({ ...ENDED, ...LIVE, ...HOSTILE }).map(async ([name, make]) => [
    name,
    await make(head),
  ]);
  const [made, ordinaryIds, sweep] = await Promise.all([
    Promise.all(special),
    each(ORDINARY, (i) => ordinary(head, i, now)),
    each(SWEEP.length, (i) => trial(head, SWEEP[i], now)),
  ]);
  /** @type {Record<Special, Controller>} */
  const controllers = Object.fromEntries(made);
  const ids = /** @type {Record<Special, string>} */ (
    Object.fromEntries(Object.entries(controllers).map(([name, run]) => [name, run.id]))
  );
  const trashed = ordinaryIds.slice(-4);
  for (const id of trashed) await head.call("DELETE", `api/train/runs/${id}`);
  if (dir) writeLogs(dir, ids);
  await pause(Math.max(0, now + LOST_AFTER_MS - Date.now()));
  return { ...ids, sweep, ordinary: ordinaryIds.slice(0, -4), trashed, controllers };
}

/** @param {string} dir @param {Record<Special, string>} ids */
function writeLogs(dir, ids) {
  sparseLog(dir, ids.sparseLog);
  for (const id of [ids.sparseLog, ids.failed, ids.hostile, ids.running]) {
    for (const rank of [0, 1]) if (id !== ids.sparseLog || rank > 0) smallLog(dir, id, rank);
  }
  for (const attempt of [0, 1, 2, 3]) smallLog(dir, ids.restarted, 0, attempt);
}

/** Learning rate by batch size by depth, as a grid. */
const SWEEP = [0.0003, 0.003, 0.03].flatMap((lr) =>
  [64, 256].flatMap((batch) => [6, 12].map((depth) => ({ lr, batch, depth }))),
);

/** @param {Api} head @param {typeof SWEEP[number]} of @param {number} now */
async function trial(head, { lr, batch, depth }, now) {
  const start_time_ms = now - 9 * 3_600_000 + depth * 60_000;
  const run = await head.register({
    name: `sweep-lr${lr}-bs${batch}-d${depth}`,
    experiment: "lr-batch-depth",
    start_time_ms,
    settings: {
      num_workers: 2,
      model: { name: "vit-b16", depth },
      optimizer: { name: "adamw", lr, weight_decay: 0.05 },
      data: { batch_size: batch, dataset: "imagenet-1k" },
    },
    framework_versions: { torch: "2.6.0", python: "3.12.4" },
    tags: { team: "vision", owner: "ada", sweep: "lr-batch-depth" },
  });
  await run.beginAttempt(2);
  const step = strides(400, 25);
  const time_ms = step.map((s) => start_time_ms + s * (800 + depth * 20));
  await run.columns({
    step,
    time_ms,
    metrics: training(step, { total: 10_000, lr, batch, seed: batch + depth }),
  });
  await run.close({ run_status: "FINISHED", end_time_ms: time_ms[step.length - 1] });
  return run.id;
}

/** A bounded number at a time, answers in order. @template T @param {number} count @param {(i: number) => Promise<T>} make @returns {Promise<T[]>} */
async function each(count, make) {
  /** @type {T[]} */
  const made = Array(count);
  let next = 0;
  const hand = async () => {
    while (next < count) {
      const i = next++;
      made[i] = await make(i);
    }
  };
  await Promise.all(Array.from({ length: HANDS }, hand));
  return made;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [url, dir] = process.argv.slice(2);
  if (!url) {
    console.error("usage: node seed.mjs http://127.0.0.1:8420 [DATA_DIR]");
    process.exit(2);
  }
  const { controllers, ordinary: many, ...ids } = await seed(url, dir ?? null);
  console.log(JSON.stringify(ids, null, 2));
  console.log(`${many.length} ordinary runs and ${Object.keys(controllers).length} special ones`);
}
