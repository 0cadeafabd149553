// What the Workers tab shows beyond the run itself: what the workers use right now, while they live and
// somebody looks, and when each rank reported which step.
/** @import { Worker } from "../types.js" */
/** @import { RankSeries } from "../model/straggle.js" */

import { signal } from "@preact/signals";
import { getEvidence } from "../server/api.js";
import { listen } from "../server/events.js";
import { getSeries, listMetrics } from "../server/series.js";
import { throttled } from "./frame.js";
import { openFailing } from "./retry.js";

const STATS_EVERY_MS = 2000;
const STEPS_EVERY_MS = 5000;
/** Keys that are tried: those with the most points, for what all ranks report has more than what one does. */
const TRIED_KEYS = 12;
/** Stretches of steps that are compared. */
export const COLUMNS = 60;

/** @typedef {Pick<Worker, "process_stats" | "gpus">} Stat */
/** By rank. @typedef {Map<number, Stat>} Stats */

/** @param {string} id @param {() => boolean} live */
export function openStats(id, live) {
  const stats = signal(/** @type {Stats | null} */ (null));
  const closing = new AbortController();
  let busy = false;
  let before = "";
  const load = async () => {
    if (busy || document.hidden || !live()) return;
    busy = true;
    try {
      const { stats: found = [] } = await getEvidence(id, closing.signal, true);
      const said = JSON.stringify(found);
      if (said !== before) stats.value = new Map(found.map((w) => [w.world_rank, w]));
      before = said;
    } catch {
      // The page says by itself when the head does not answer.
    }
    busy = false;
  };
  const timer = setInterval(load, STATS_EVERY_MS);
  void load();
  return {
    stats,
    close: () => {
      closing.abort();
      clearInterval(timer);
    },
  };
}

/** `key`: by which the ranks are compared. @typedef {{ key: string | null, series: RankSeries[] }} Steps */

/** @param {string} id @param {number} attempt */
export function openSteps(id, attempt) {
  const steps = signal(/** @type {Steps | null} */ (null));
  const error = signal(/** @type {string | null} */ (null));
  const closing = new AbortController();
  /** @type {string | null} */
  let key = null;

  const load = throttled(async () => {
    try {
      key ??= await commonKey();
      const series = key === null ? [] : await seriesOf([key], COLUMNS);
      steps.value = { key, series };
      error.value = null;
    } catch (e) {
      failed(e);
    }
  }, STEPS_EVERY_MS);
  const failed = openFailing(closing.signal, (text) => (error.value = text), load);

  /** @param {string[]} keys @param {number} max_points */
  const seriesOf = async (keys, max_points) => {
    const wanted = /** @type {const} */ ({ rank: "all", mode: "mean", x: "step", attempt, max_points });
    return (await getSeries(id, keys, wanted, closing.signal)).series;
  };

  const commonKey = async () => {
    const { metrics } = await listMetrics(id, closing.signal);
    const keys = metrics.toSorted((a, b) => b.count - a.count).slice(0, TRIED_KEYS);
    if (keys.length === 0) return null;
    const series = await seriesOf(
      keys.map((m) => m.key),
      2,
    );
    const ranks = (/** @type {string} */ k) => series.filter((s) => s.key === k).length;
    const [best] = keys.map((m) => m.key).sort((a, b) => ranks(b) - ranks(a));
    return ranks(best) > 1 ? best : null;
  };

  const stopListening = listen({
    metrics: (tick) => tick.run_id === id && load(),
    resync: load,
  });
  load();
  return {
    steps,
    error,
    close: () => {
      closing.abort();
      stopListening();
    },
  };
}
