// The series behind the charts of one run or of several: loaded when a chart comes into sight, and
// extended from their last step only while it is there. An overview of what was loaded stays, so that
// leaving a part that was looked at more finely asks for nothing. After a restart steps may have been
// replaced, so the overview is asked for anew.
/** @import { Look } from "./chart_details.js" */

import { signal } from "@preact/signals";
import { anyThinned, extended, questions } from "../model/lines.js";
import { MAX_HELD, resumeStep } from "../model/series.js";
import { ApiError, errorText } from "../server/api.js";
import { listen } from "../server/events.js";
import { openDetails } from "./chart_details.js";
import { fetchLines, fetchTail, pointsOf, portions, ranksOf } from "./chart_fetch.js";
import { openKeys } from "./chart_keys.js";
import { openShelf } from "./chart_shelf.js";
import { throttled } from "./frame.js";

/** @typedef {{ id: string, start_time_ms: number, num_attempts?: number }} RunRef */
/** @typedef {ReturnType<typeof openMetrics>} Metrics */

const EXTEND_EVERY_MS = 1000;
const RETRY_MS = 5000;

/** @param {RunRef[]} runs */
export function openMetrics(runs) {
  const closing = new AbortController();
  const state = new Map(
    runs.map(({ id, start_time_ms: start_ms, num_attempts = 1 }) => [
      id,
      { start_ms, attempts: num_attempts, ticks: 0, lastStep: /** @type {number | null} */ (null) },
    ]),
  );
  const ids = [...state.keys()];
  const startOf = (/** @type {string} */ id) => state.get(id)?.start_ms ?? 0;
  const known = openKeys(ids, closing.signal);
  const error = signal(/** @type {string | null} */ (null));
  /** @type {Look} */
  let look = { attempts: "merged", x: "step", zoom: null };
  /** Whose curve is shown, where it is not rank 0's: by run and key. @type {Map<string, number>} */
  const rankOf = new Map();
  /** @type {Set<string>} */
  const inSight = new Set();

  const rank = (/** @type {string} */ run, /** @type {string} */ key) => rankOf.get(`${run} ${key}`) ?? 0;
  const isCoarse = (/** @type {string} */ run, /** @type {string} */ key) =>
    anyThinned(shelf.get(run, key)?.lines ?? []);
  const details = openDetails({ ids, isCoarse, startOf, rank, signal: closing.signal });
  const shelf = openShelf(startOf, (key) => (look.zoom ? details.of(key) : undefined));

  /** Asks for all of what is not there; else, of what was replaced or has grown too long. @param {boolean} onlyNew */
  const loadWhole = async (onlyNew) => {
    const wants = (/** @type {string} */ run, /** @type {string} */ key) => {
      const held = shelf.get(run, key);
      if (onlyNew || !held) return onlyNew === !held;
      return held.stale || held.lines.some((line) => line.series.step.length > MAX_HELD);
    };
    for (const ask of questions(ids, inSight, wants, rank))
      for (const keys of portions(ask.keys, ask.runs.length)) await loadSome(ask.runs, keys, ask.rank);
  };

  /** @param {string[]} some runs @param {string[]} keys @param {number} r */
  const loadSome = async (some, keys, r) => {
    const seen = some.map((id) => state.get(id)?.ticks ?? 0);
    const { attempts } = look;
    const how = { rank: r, attempt: attempts };
    const found = await fetchLines(some, keys, how, pointsOf(ids.length), closing.signal);
    if (attempts !== look.attempts) return;
    shelf.put(some, keys, found, seen);
    keys.forEach(details.drop);
    for (const id of r === 0 ? some : []) {
      const there = new Set(found.filter((f) => f.run === id).map((f) => f.key));
      const missing = keys.filter((key) => !there.has(key) && known.has(id, key));
      if (missing.length > 0) await lookElsewhere(id, missing);
    }
    shelf.publish(keys);
  };

  /** What rank 0 does not report may be another's: then the first rank that has it is shown. @param {string} run @param {string[]} missing */
  const lookElsewhere = async (run, missing) => {
    const ranks = await ranksOf(run, missing, closing.signal);
    for (const [key, r] of ranks) rankOf.set(`${run} ${key}`, r);
    for (const r of new Set(ranks.values())) {
      const keys = missing.filter((key) => ranks.get(key) === r);
      if (r !== 0) await loadSome([run], keys, r);
    }
  };

  /** Whether ticks spoke of more than is shown. */
  const isBehind = () =>
    [...state].some(([run, { ticks }]) =>
      [...inSight].some((key) => {
        const held = shelf.get(run, key);
        return held && (held.stale || (held.seen < ticks && known.has(run, key)));
      }),
    );

  /** Extends what ticks spoke of since it was asked for. */
  const loadTails = async () => {
    for (const [run, { ticks, attempts }] of state) {
      const { attempts: kind } = look;
      const newest = Math.max(0, attempts - 1);
      /** @type {Map<string, { from: number | null, keys: string[] }>} */
      const byStep = new Map();
      for (const key of inSight) {
        const held = shelf.get(run, key);
        if (!held || held.seen >= ticks || !known.has(run, key)) continue;
        const steps = held.lines.map((line) => resumeStep(line.series, newest));
        const from = steps.find((step) => step !== null) ?? null;
        const name = `${rank(run, key)} ${from}`;
        const ask = byStep.get(name);
        if (ask) ask.keys.push(key);
        else byStep.set(name, { from, keys: [key] });
      }
      for (const { from, keys } of byStep.values()) {
        const how = { attempt: newest, rank: rank(run, keys[0]), from_step: from && Math.floor(from) };
        for (const some of portions(keys, 1)) {
          const found = await fetchTail(run, some, how, closing.signal);
          if (kind !== look.attempts) return;
          for (const key of some) {
            const held = shelf.get(run, key);
            const tail = found.find((f) => f.key === key)?.line;
            if (held) held.seen = ticks;
            if (held && tail) held.lines = extended(held.lines, tail, kind, from);
          }
          shelf.publish(some);
        }
      }
    }
  };

  const loadDetails = async () => {
    const mine = look;
    if (mine.zoom) await details.load(mine, [...inSight], () => mine !== look, shelf.publish);
  };

  /** @param {() => Promise<void>} work */
  const tried = (work) => async () => {
    try {
      await work();
      error.value = null;
    } catch (e) {
      if (closing.signal.aborted) return;
      error.value = errorText(e);
      // What is over makes no ticks that would have it asked for again.
      if (e instanceof ApiError && (e.status === 0 || e.status >= 500)) setTimeout(loadFirst, RETRY_MS);
    }
  };
  // Apart, so that a chart that comes into view does not wait for the next turn of the live ones.
  const loadFirst = throttled(
    tried(async () => {
      if (closing.signal.aborted) return;
      await loadWhole(true);
      await loadDetails();
      if (isBehind()) refresh();
    }),
    0,
  );
  const refresh = throttled(
    tried(async () => {
      if (document.hidden) return;
      await loadWhole(false);
      await loadTails();
      // What was asked for anew has lost its finer parts.
      if (look.zoom) loadFirst();
    }),
    EXTEND_EVERY_MS,
  );

  /** Steps of these runs may have been replaced. @param {string[]} some */
  const reload = (some) => {
    shelf.outdate(some);
    refresh();
  };

  const stopListening = listen({
    metrics: (tick) => {
      const run = state.get(tick.run_id);
      if (!run) return;
      run.ticks += 1;
      known.onTick(tick);
      const wentBack = run.lastStep !== null && tick.last_step !== null && tick.last_step < run.lastStep;
      run.lastStep = tick.last_step ?? run.lastStep;
      if (wentBack) reload([tick.run_id]);
      else refresh();
    },
    run: ({ id, num_attempts }) => {
      const run = state.get(id);
      if (!run || run.attempts === num_attempts) return;
      run.attempts = num_attempts;
      reload([id]);
      known.reload([id]);
    },
    resync: () => {
      known.reload(ids);
      reload(ids);
    },
  });
  document.addEventListener("visibilitychange", refresh);

  return {
    keys: known.keys,
    lost: known.lost,
    keysError: known.error,
    error,
    extents: shelf.extents,
    linesOf: shelf.linesOf,
    rankOf: rank,
    nansOf: known.nans,
    /** What is looked at. @param {Look} next */
    look: (next) => {
      const same = next.x === look.x && String(next.zoom) === String(look.zoom);
      if (same && next.attempts === look.attempts) return;
      if (next.attempts !== look.attempts || !next.zoom) details.clear();
      look = next;
      shelf.choose(next.attempts);
      shelf.publish();
      setTimeout(loadFirst);
    },
    /** A chart came into view. @param {string} key */
    show: (key) => {
      inSight.add(key);
      // After this turn, so that all charts that appear in it are asked for together.
      setTimeout(loadFirst);
    },
    /** @param {string} key */
    hide: (key) => {
      inSight.delete(key);
      shelf.tidy(inSight);
    },
    close: () => {
      closing.abort();
      stopListening();
      document.removeEventListener("visibilitychange", refresh);
    },
  };
}
