// The metrics of one run: which keys there are, and the series of those that are in sight. A
// series is loaded when its chart comes into view and then only extended from its last step;
// after a restart of the training its steps may have been replaced, so it is asked for anew.
/** @import { Signal } from "@preact/signals" */
/** @import { Lost, MetricTick } from "../types.js" */
/** @import { Series } from "../model/series.js" */

import { signal } from "@preact/signals";
import { decode, EMPTY, extend, MAX_HELD, newestAttempt, resumeStep } from "../model/series.js";
import { errorText, getSeries, listMetrics } from "../server/api.js";
import { listen, listening } from "../server/events.js";
import { throttled } from "./frame.js";

const KEYS_A_REQUEST = 40;
const EXTEND_EVERY_MS = 1000;

/** @typedef {{ step: [number, number], time: [number, number] }} Extent */
/** @typedef {{ rank: number, from: number | null, keys: string[] }} Ask `from`: where to extend; null: all of it */

/** @param {string} id @param {number} attempts how many there have been */
export function openMetrics(id, attempts) {
  const keys = signal(/** @type {string[] | null} */ (null));
  const lost = signal(/** @type {Lost | null} */ (null));
  const error = signal(/** @type {string | null} */ (null));
  const extent = signal(/** @type {Extent | null} */ (null));
  const closing = new AbortController();
  /** @type {Map<string, Signal<Series | null>>} */
  const held = new Map();
  /** Whose curve is shown, where it is not rank 0's. @type {Map<string, number>} */
  const rankOf = new Map();
  /** @type {Set<string>} */
  const inSight = new Set();
  /** @type {Set<string>} */
  const outdated = new Set();
  /** @type {number | null} */
  let lastStep = null;
  let ticks = 0;

  /** @param {string} key */
  const seriesOf = (key) => {
    const known = held.get(key);
    if (known) return known;
    const fresh = signal(/** @type {Series | null} */ (null));
    held.set(key, fresh);
    return fresh;
  };

  /** What to ask for, in as few questions as can be. @param {boolean} first @returns {Ask[]} */
  const plan = (first) => {
    /** @type {Map<string, Ask>} */
    const groups = new Map();
    for (const key of inSight) {
      const series = seriesOf(key).peek();
      if (first !== (series === null)) continue;
      // An attempt of which nothing is held yet may begin anywhere, also before where the last one ended.
      const behind = series && newestAttempt(series) < attempts - 1;
      const whole = !series || behind || outdated.has(key) || series.step.length > MAX_HELD;
      const from = whole ? null : resumeStep(series);
      const rank = rankOf.get(key) ?? 0;
      const group = groups.get(`${rank} ${from}`);
      if (group) group.keys.push(key);
      else groups.set(`${rank} ${from}`, { rank, from, keys: [key] });
    }
    return [...groups.values()];
  };

  /** @param {Ask} wanted */
  const fetchSome = async ({ rank, from, keys: some }) => {
    if (from === null) for (const key of some) outdated.delete(key);
    const answer = await getSeries(id, some, { from_step: from, rank, signal: closing.signal });
    for (const wire of answer.series) {
      const into = seriesOf(wire.key);
      const next = decode(wire);
      into.value = from === null ? next : extend(into.peek() ?? EMPTY, next, from);
    }
    extent.value = extentOf([...held.values()].map((s) => s.peek()));
    const missing = some.filter((key) => !answer.series.some((s) => s.key === key));
    if (from === null && rank === 0 && missing.length > 0) await lookElsewhere(missing);
  };

  /** What rank 0 does not report may be another's: then the first rank that has it is shown. @param {string[]} missing */
  const lookElsewhere = async (missing) => {
    const { series } = await getSeries(id, missing, { rank: "all", max_points: 2, signal: closing.signal });
    for (const { key, rank } of series) rankOf.set(key, Math.min(rank, rankOf.get(key) ?? rank));
    for (const key of missing) if (!rankOf.has(key)) seriesOf(key).value = EMPTY;
    const ranks = [...new Set(missing.map((key) => rankOf.get(key)).filter((rank) => rank !== undefined))];
    await Promise.all(
      ranks.map((rank) =>
        fetchSome({ rank, from: null, keys: missing.filter((key) => rankOf.get(key) === rank) }),
      ),
    );
  };

  /** @param {boolean} first */
  const fetchAll = async (first) => {
    try {
      for (const ask of plan(first)) {
        for (let i = 0; i < ask.keys.length; i += KEYS_A_REQUEST) {
          await fetchSome({ ...ask, keys: ask.keys.slice(i, i + KEYS_A_REQUEST) });
        }
      }
      error.value = null;
    } catch (e) {
      if (!closing.signal.aborted) error.value = errorText(e);
    }
  };
  // Apart, so that a chart that comes into view does not wait for the next turn of the live ones.
  const loadFirst = throttled(async () => {
    const before = ticks;
    await fetchAll(true);
    if (ticks !== before) refresh();
  }, 0);
  const refresh = throttled(() => fetchAll(false), EXTEND_EVERY_MS);

  const reload = () => {
    for (const key of held.keys()) outdated.add(key);
    refresh();
  };

  const loadKeys = throttled(async () => {
    try {
      await listening;
      const { metrics, lost: thrownAway } = await listMetrics(id, closing.signal);
      lost.value = thrownAway;
      // Keys that a tick brought meanwhile are kept.
      keys.value = [...new Set([...metrics.map((m) => m.key), ...(keys.peek() ?? [])])];
    } catch (e) {
      if (!closing.signal.aborted) error.value = errorText(e);
    }
  }, EXTEND_EVERY_MS);

  /** @param {MetricTick} tick */
  const onTick = (tick) => {
    if (tick.run_id !== id) return;
    ticks += 1;
    const known = keys.peek() ?? [];
    const fresh = Object.keys(tick.last_metrics).filter((k) => !known.includes(k));
    if (fresh.length > 0) {
      keys.value = [...known, ...fresh];
      // A tick names only some of many keys.
      loadKeys();
    }
    const wentBack = lastStep !== null && tick.last_step !== null && tick.last_step < lastStep;
    lastStep = tick.last_step ?? lastStep;
    if (wentBack) reload();
    else refresh();
  };

  const stopListening = listen({
    metrics: onTick,
    run: (run) => {
      if (run.id !== id) return;
      if (run.num_attempts !== attempts) {
        reload();
        loadKeys();
      }
      attempts = run.num_attempts;
    },
    resync: () => {
      loadKeys();
      reload();
    },
  });

  loadKeys();
  return {
    keys,
    lost,
    error,
    extent,
    seriesOf,
    /** A chart came into view. @param {string} key */
    show: (key) => {
      inSight.add(key);
      // After this turn, so that all charts that appear in it are asked for together.
      setTimeout(seriesOf(key).peek() ? refresh : loadFirst);
    },
    /** @param {string} key */
    hide: (key) => void inSight.delete(key),
    close: () => {
      closing.abort();
      stopListening();
    },
  };
}

/** What all charts have as their x-axis, so that they can be compared. @param {(Series | null)[]} all @returns {Extent | null} */
function extentOf(all) {
  /** @type {Extent} */
  const found = { step: [Infinity, -Infinity], time: [Infinity, -Infinity] };
  for (const series of all) {
    if (!series || series.step.length === 0) continue;
    found.step[0] = Math.min(found.step[0], series.step[0]);
    found.step[1] = Math.max(found.step[1], series.step[series.step.length - 1]);
    for (const t of series.time) {
      if (t < found.time[0]) found.time[0] = t;
      if (t > found.time[1]) found.time[1] = t;
    }
  }
  return found.step[0] <= found.step[1] ? found : null;
}
