// Which metrics there are, of one run or of several together: asked for once, then kept up by ticks.
/** @import { Lost, MetricTick } from "../types.js" */

import { signal } from "@preact/signals";
import { errorText } from "../server/api.js";
import { listening } from "../server/events.js";
import { listMetrics } from "../server/series.js";
import { throttled } from "./frame.js";

const AGAIN_MS = 1000;
/** Runs that are asked at a time. */
const HANDS = 4;

/** @param {string[]} ids of runs @param {AbortSignal} closing */
export function openKeys(ids, closing) {
  const keys = signal(/** @type {string[] | null} */ (null));
  const lost = signal(/** @type {Lost | null} */ (null));
  const error = signal(/** @type {string | null} */ (null));
  /** @type {Map<string, Set<string>>} */
  const ofRun = new Map(ids.map((id) => [id, new Set()]));
  const outdated = new Set(ids);
  /** By run and key. @type {Map<string, number>} */
  const nans = new Map();

  /** @param {string} id */
  const loadOne = async (id) => {
    outdated.delete(id);
    try {
      const answer = await listMetrics(id, closing);
      const known = /** @type {Set<string>} */ (ofRun.get(id));
      // Keys that a tick brought meanwhile are kept.
      for (const { key, nan_count } of answer.metrics) {
        known.add(key);
        if (nan_count > 0) nans.set(`${id} ${key}`, nan_count);
      }
      if (ids.length === 1) lost.value = answer.lost;
    } catch (e) {
      outdated.add(id);
      throw e;
    }
  };

  const publish = () => {
    const all = new Set([...ofRun.values()].flatMap((some) => [...some]));
    if (all.size !== keys.peek()?.length) keys.value = [...all];
  };

  const load = throttled(async () => {
    try {
      await listening;
      const queue = [...outdated];
      const work = async () => {
        for (let id = queue.pop(); id !== undefined; id = queue.pop()) await loadOne(id);
      };
      await Promise.all(Array.from({ length: HANDS }, work));
      publish();
      error.value = null;
    } catch (e) {
      if (!closing.aborted) error.value = errorText(e);
    }
  }, AGAIN_MS);

  load();
  return {
    keys,
    lost,
    error,
    /** @param {string} id @param {string} key */
    has: (id, key) => ofRun.get(id)?.has(key) ?? false,
    /** How many values were NaN when it was asked for. @param {string} id @param {string} key */
    nans: (id, key) => nans.get(`${id} ${key}`) ?? 0,
    /** @param {MetricTick} tick */
    onTick: (tick) => {
      const known = ofRun.get(tick.run_id);
      if (!known) return;
      const fresh = Object.keys(tick.last_metrics).filter((key) => !known.has(key));
      if (fresh.length === 0) return;
      fresh.forEach((key) => known.add(key));
      if (keys.peek()) publish();
      // A tick names only some of many keys.
      outdated.add(tick.run_id);
      load();
    },
    /** @param {string[]} some */
    reload: (some) => {
      some.forEach((id) => outdated.add(id));
      load();
    },
  };
}
