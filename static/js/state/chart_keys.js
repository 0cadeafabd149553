// Which metrics there are, of one run or of several together: asked for once, then kept up by ticks. A run
// whose names cannot be had does not hold up the others.
/** @import { Lost, MetricTick } from "../types.js" */

import { signal } from "@preact/signals";
import { errorText } from "../server/api.js";
import { listening } from "../server/events.js";
import { listMetrics } from "../server/series.js";
import { throttled } from "./frame.js";
import { isFinal, isNotThere, openRetry } from "./retry.js";

const AGAIN_MS = 1000;
/** Runs that are asked at a time. */
const HANDS = 4;
/** A tick names no more keys than this: of a run with as many, further ones may have come unnamed. */
const NAMED = 64;
const UNNAMED_EVERY_MS = 30_000;

/** @param {string[]} ids of runs @param {AbortSignal} closing @param {() => void} onFresh a run has keys that it had not */
export function openKeys(ids, closing, onFresh) {
  const keys = signal(/** @type {string[] | null} */ (null));
  const lost = signal(/** @type {Lost | null} */ (null));
  const error = signal(/** @type {string | null} */ (null));
  /** @type {Map<string, Set<string>>} */
  const ofRun = new Map(ids.map((id) => [id, new Set()]));
  const outdated = new Set(ids);
  /** By run and key. @type {Map<string, number>} */
  const nans = new Map();
  /** @type {Map<string, string>} */
  const faults = new Map();
  /** @type {Set<string>} */
  const gone = new Set();
  /** When a run was asked last. @type {Map<string, number>} */
  const asked = new Map();

  /** @param {string} id */
  const loadOne = async (id) => {
    outdated.delete(id);
    asked.set(id, Date.now());
    try {
      const answer = await listMetrics(id, closing);
      faults.delete(id);
      gone.delete(id);
      const known = /** @type {Set<string>} */ (ofRun.get(id));
      const before = known.size;
      // Keys that a tick brought meanwhile are kept.
      for (const { key, nan_count } of answer.metrics) {
        known.add(key);
        if (nan_count > 0) nans.set(`${id} ${key}`, nan_count);
      }
      if (ids.length === 1) lost.value = answer.lost;
      if (known.size > before) onFresh();
    } catch (e) {
      if (closing.aborted) return;
      faults.set(id, errorText(e));
      if (isNotThere(e)) gone.add(id);
      if (isFinal(e)) return;
      outdated.add(id);
      retry();
    }
  };

  const publish = () => {
    if (faults.size === ids.length) return;
    const all = new Set([...ofRun.values()].flatMap((some) => [...some]));
    if (all.size !== keys.peek()?.length) keys.value = [...all];
  };

  const load = throttled(async () => {
    await listening;
    const queue = [...outdated];
    const work = async () => {
      for (let id = queue.pop(); id !== undefined; id = queue.pop()) await loadOne(id);
    };
    await Promise.all(Array.from({ length: HANDS }, work));
    if (closing.aborted) return;
    publish();
    // What is not there any more is told where the runs are listed; of a single run it is told here.
    const told = [...faults].find(([id]) => !gone.has(id) || gone.size === ids.length);
    error.value = told?.[1] ?? null;
  }, AGAIN_MS);
  const retry = openRetry(load, closing);

  load();
  return {
    keys,
    lost,
    error,
    /** @param {string} id @param {string} key */
    has: (id, key) => ofRun.get(id)?.has(key) ?? false,
    /** Whether a run was deleted for good. @param {string} id */
    isGone: (id) => gone.has(id),
    /** How many values were NaN when it was asked for. @param {string} id @param {string} key */
    nans: (id, key) => nans.get(`${id} ${key}`) ?? 0,
    /** @param {MetricTick} tick */
    onTick: ({ run_id: id, last_metrics }) => {
      const known = ofRun.get(id);
      if (!known) return;
      const named = Object.keys(last_metrics);
      const fresh = named.filter((key) => !known.has(key));
      fresh.forEach((key) => known.add(key));
      if (fresh.length > 0 && keys.peek()) publish();
      const mayHaveMore = named.length >= NAMED && Date.now() - (asked.get(id) ?? 0) >= UNNAMED_EVERY_MS;
      // A tick names only some of many keys; and who reports is there, perhaps anew under the same id.
      if (fresh.length === 0 && !mayHaveMore && !gone.has(id)) return;
      outdated.add(id);
      load();
    },
    /** @param {string[]} some */
    reload: (some) => {
      some.forEach((id) => outdated.add(id));
      load();
    },
  };
}
