// The small curves in the list of runs: asked for when their rows come into sight, a few points each,
// many runs in one question, and then only extended by what the event stream brings.
/** @import { Spark } from "../model/spark.js" */

import { signal } from "@preact/signals";
import { toNumber } from "../model/format.js";
import { extendSpark, sparkOf } from "../model/spark.js";
import { listen } from "../server/events.js";
import { querySeries } from "../server/series.js";
import { throttled } from "./frame.js";
import { isFinal, isNotThere, openRetry } from "./retry.js";

const POINTS = 40;
const RUNS_A_REQUEST = 60;
const MOST_HELD = 5000;

/** The newest asked for last. @type {Map<string, import("@preact/signals").Signal<Spark | null>>} */
const held = new Map();
/** Counts up when curves that are shown have to be asked for anew. */
const epoch = signal(0);
/** @type {Map<string, Set<string>>} keys by run */
const wanted = new Map();

/** @param {string} run @param {string} key */
const nameOf = (run, key) => `${run}\n${key}`;

/** The curve, asked for if it is not there yet. @param {string} run @param {string} key */
export function sparkline(run, key) {
  void epoch.value;
  const name = nameOf(run, key);
  const known = held.get(name);
  if (known) return known;
  const fresh = signal(/** @type {Spark | null} */ (null));
  held.set(name, fresh);
  if (held.size > MOST_HELD) held.delete(held.keys().next().value ?? "");
  wanted.set(run, (wanted.get(run) ?? new Set()).add(key));
  load();
  return fresh;
}

const retry = openRetry(() => (epoch.value += 1));

/** Fewer while the one of them is looked for that is not there any more. */
let many = RUNS_A_REQUEST;

const load = throttled(async () => {
  // What is drawn together is asked for together.
  await null;
  while (wanted.size > 0) {
    // Those that came into sight last are likely to be still there.
    const runs = [...wanted.keys()].slice(-many);
    const asked = runs.map((run) => /** @type {const} */ ([run, wanted.get(run) ?? new Set()]));
    const keys = [...new Set(asked.flatMap(([, of]) => [...of]))];
    for (const run of runs) wanted.delete(run);
    try {
      for (const { run_id, series } of await querySeries(runs, keys, { max_points: POINTS })) {
        for (const s of series) {
          const into = held.get(nameOf(run_id, s.key));
          if (into) into.value = sparkOf(s.step, s.value.map(toNumber));
        }
      }
    } catch (e) {
      if (isNotThere(e)) {
        // One that was deleted for good is no reason to have none of the others.
        many = runs.length > 1 ? Math.ceil(runs.length / 2) : RUNS_A_REQUEST;
        if (runs.length > 1)
          for (const [run, of] of asked) wanted.set(run, new Set([...of, ...(wanted.get(run) ?? [])]));
        continue;
      }
      // A list without small curves is still a list: they are asked for again in a while.
      if (isFinal(e)) continue;
      for (const run of runs) for (const key of keys) held.delete(nameOf(run, key));
      retry();
    }
  }
}, 150);

listen({
  metrics: ({ run_id, last_step, last_metrics }) => {
    if (last_step === null) return;
    for (const [key, value] of Object.entries(last_metrics)) {
      const known = held.get(nameOf(run_id, key));
      if (known?.peek())
        known.value = extendSpark(/** @type {Spark} */ (known.peek()), last_step, toNumber(value));
    }
  },
  // What was missed is asked for again.
  resync: () => {
    held.clear();
    wanted.clear();
    epoch.value += 1;
  },
});
