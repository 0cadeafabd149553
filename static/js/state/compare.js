// The runs that are compared: each is loaded once and kept current by the event stream. What a change does
// not carry (last metrics, settings that are long) is asked for again, and evidence of a stall by itself, a
// few runs at a time.
/** @import { Evidence, FullRun, MetricTick, RunChange } from "../types.js" */

import { signal } from "@preact/signals";
import { told } from "../model/run_list.js";
import { isLive } from "../model/status.js";
import { ApiError, errorText, getEvidence, getRun } from "../server/api.js";
import { connection, listen, listening } from "../server/events.js";
import { setServerTime } from "./clock.js";
import { perFrame, throttled } from "./frame.js";

/** `run` is what was last known of it, also when asking again failed. @typedef {{ run: FullRun | null, error: string, missing: boolean }} Entry */

const AT_ONCE = 6;
const TICKS_EVERY_MS = 1000;
/** A stall comes without any event. */
const EVIDENCE_EVERY_MS = 15_000;

/**
 * Runs `work` on each, a few at a time: a hundred requests at once would stand in each other's way.
 * @template T @param {Iterable<T>} items @param {(item: T) => Promise<void>} work
 */
export async function eachOf(items, work) {
  const queue = [...items];
  const one = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

export function openCompare() {
  const entries = signal(/** @type {Map<string, Entry>} */ (new Map()));
  const closing = new AbortController();
  /** @type {Set<string>} */
  const due = new Set();
  /** @type {string[]} */
  let shown = [];
  /** How often each was had whole. @type {Map<string, number>} */
  const loads = new Map();
  let looking = false;

  const put = perFrame((/** @type {[string, Entry][]} */ news) => {
    if (!closing.signal.aborted) entries.value = new Map([...entries.peek(), ...news]);
  });

  /** @param {string} id */
  const load = async (id) => {
    try {
      const run = await getRun(id, closing.signal);
      setServerTime(run.server_time_ms);
      loads.set(id, (loads.get(id) ?? 0) + 1);
      put([id, { run, error: "", missing: false }]);
    } catch (e) {
      if (closing.signal.aborted) return;
      const missing = e instanceof ApiError && e.status === 404;
      put([id, { run: entries.peek().get(id)?.run ?? null, error: errorText(e), missing }]);
    }
  };

  const loadDue = throttled(async () => {
    await listening;
    const ids = [...due];
    due.clear();
    await eachOf(ids, load);
  }, 300);

  /** @param {string[]} ids */
  const again = (ids) => {
    for (const id of ids) due.add(id);
    if (ids.length > 0) loadDue();
  };

  const absorbEvidence = perFrame((/** @type {[string, Evidence][]} */ news) => {
    const next = new Map(entries.peek());
    for (const [id, evidence] of news) {
      const entry = next.get(id);
      if (entry?.run) next.set(id, { ...entry, run: { ...entry.run, evidence } });
    }
    entries.value = next;
  });

  /** @param {string} id */
  const look = async (id) => {
    const before = loads.get(id);
    try {
      const { evidence, server_time_ms } = await getEvidence(id, closing.signal);
      setServerTime(server_time_ms);
      // It may be older than the whole that came meanwhile.
      if (loads.get(id) === before) absorbEvidence([id, evidence]);
    } catch {
      if (!closing.signal.aborted) again([id]);
    }
  };

  const absorb = perFrame((/** @type {RunChange[]} */ changes) => {
    const next = new Map(entries.peek());
    for (const change of changes) {
      const entry = next.get(change.id);
      if (entry?.run) next.set(change.id, { ...entry, run: changed(entry.run, change) });
    }
    entries.value = next;
    again([...new Set(changes.map((c) => c.id))]);
  });

  /** @type {Map<string, MetricTick>} */
  const ticks = new Map();
  const absorbTicks = throttled(async () => {
    const next = new Map(entries.peek());
    for (const [id, tick] of ticks) {
      const entry = next.get(id);
      if (entry?.run) next.set(id, { ...entry, run: ticked(entry.run, tick) });
    }
    ticks.clear();
    entries.value = next;
  }, TICKS_EVERY_MS);

  const stopListening = listen({
    run: (run) => shown.includes(run.id) && absorb(run),
    metrics: (tick) => {
      if (!shown.includes(tick.run_id)) return;
      ticks.set(tick.run_id, tick);
      absorbTicks();
    },
    // The answer says so in the head's own words.
    gone: (id) => shown.includes(id) && again([id]),
    resync: () => again(shown),
  });

  const timer = setInterval(() => {
    if (document.hidden || connection.peek().state !== "live") return;
    const of = (/** @type {string} */ id) => entries.peek().get(id);
    // What could not be had is asked for whole.
    again(shown.filter((id) => !of(id)?.missing && (!of(id)?.run || of(id)?.error)));
    if (looking) return;
    looking = true;
    const live = shown.filter((id) => {
      const entry = of(id);
      return entry?.run && !entry.error && isLive(entry.run);
    });
    void eachOf(live, look).finally(() => (looking = false));
  }, EVIDENCE_EVERY_MS);

  return {
    entries,
    /** These are compared from now on; what is known already is not asked for again. @param {string[]} ids */
    show: (ids) => {
      const fresh = ids.filter((id) => !shown.includes(id));
      shown = ids;
      again(fresh);
    },
    close: () => {
      closing.abort();
      stopListening();
      clearInterval(timer);
    },
  };
}

/** @param {FullRun} run @param {RunChange} change @returns {FullRun} */
function changed(run, change) {
  const { progress: _, ...said } = told(change);
  return /** @type {FullRun} */ ({ ...run, ...said, evidence: run.evidence });
}

/** @param {FullRun} run @param {MetricTick} tick @returns {FullRun} */
function ticked(run, tick) {
  return { ...run, last_metrics: { ...run.last_metrics, ...tick.last_metrics } };
}
