// The series behind the charts of one run or of several: loaded when a chart comes into sight, and
// extended from their last step only while it is there. An overview of what was loaded stays, so that
// leaving a part that was looked at more finely asks for nothing. After a restart steps may have been
// replaced, so the overview is asked for anew.
/** @import { Look } from "./chart_details.js" */

import { signal } from "@preact/signals";
import { extended, questions } from "../model/lines.js";
import { resumeStep } from "../model/series.js";
import { listen } from "../server/events.js";
import { openDetails } from "./chart_details.js";
import { fetchLines, fetchTail, mostHeld, pointsOf, portions, ranksOf } from "./chart_fetch.js";
import { openKeys } from "./chart_keys.js";
import { openShelf } from "./chart_shelf.js";
import { throttled } from "./frame.js";
import { openTries } from "./retry.js";

/** @typedef {{ id: string, start_time_ms: number, num_attempts?: number, run_status?: string }} RunRef */
/** @typedef {ReturnType<typeof openMetrics>} Metrics */

/** Each run is asked for its own new points, so many runs are extended less often. @param {number} runs */
const extendEvery = (runs) => Math.min(5000, Math.max(1000, 250 * runs));

/** @param {RunRef[]} runs */
export function openMetrics(runs) {
  const closing = new AbortController();
  const state = new Map(
    runs.map(({ id, start_time_ms: start_ms, num_attempts = 1, run_status = "STARTED" }) => {
      const lastStep = /** @type {number | null} */ (null);
      return [id, { start_ms, attempts: num_attempts, status: run_status, ticks: 0, lastStep }];
    }),
  );
  const ids = [...state.keys()];
  const startOf = (/** @type {string} */ id) => state.get(id)?.start_ms ?? 0;
  // What is new of a run that is extended already belongs to what is asked for.
  const known = openKeys(ids, closing.signal, () => refresh());
  /** One run that was deleted would spoil the answer for all. */
  const there = () => ids.filter((id) => !known.isGone(id));
  const error = signal(/** @type {string | null} */ (null));
  /** @type {Look} */
  let look = { attempts: "merged", x: "step", zoom: null };
  /** Whose curve is shown, where it is not rank 0's: by run and key. @type {Map<string, number>} */
  const rankOf = new Map();
  /** How many charts show a key: in the grid and full screen it may be two. @type {Map<string, number>} */
  const inSight = new Map();

  const rank = (/** @type {string} */ run, /** @type {string} */ key) => rankOf.get(`${run} ${key}`) ?? 0;
  const overview = (/** @type {string} */ run, /** @type {string} */ key) => shelf.get(run, key)?.lines ?? [];
  const details = openDetails({ ids: there, overview, startOf, rank, signal: closing.signal });
  const shelf = openShelf(startOf, (key) => (look.zoom ? details.of(key) : undefined));

  /** Asks for all of what is not there; else, of what was replaced or has grown too long. @param {boolean} onlyNew */
  const loadWhole = async (onlyNew) => {
    const most = mostHeld(ids.length);
    const wants = (/** @type {string} */ run, /** @type {string} */ key) => {
      const held = shelf.get(run, key);
      if (onlyNew || !held) return onlyNew === !held;
      // What a run has begun to report may come from another rank than the first.
      const isNew = held.lines.length === 0 && isBehindOn(run, key);
      return held.stale || isNew || held.lines.some((line) => line.series.step.length > most);
    };
    for (const ask of questions(there(), [...inSight.keys()], wants, rank))
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

  /** Whether ticks spoke of more than is shown. @param {string} run @param {string} key */
  const isBehindOn = (run, key) => {
    const seen = shelf.get(run, key)?.seen ?? Infinity;
    return seen < (state.get(run)?.ticks ?? 0) && known.has(run, key);
  };
  const isBehind = () =>
    there().some((run) =>
      [...inSight.keys()].some((key) => shelf.get(run, key)?.stale || isBehindOn(run, key)),
    );

  /** Extends what ticks spoke of since it was asked for. */
  const loadTails = async () => {
    for (const run of there()) {
      const { ticks, attempts } = /** @type {NonNullable<ReturnType<typeof state.get>>} */ (state.get(run));
      const { attempts: kind } = look;
      const newest = Math.max(0, attempts - 1);
      /** @type {Map<string, { from: number | null, keys: string[] }>} */
      const byStep = new Map();
      for (const key of inSight.keys()) {
        const held = shelf.get(run, key);
        if (!held || !isBehindOn(run, key)) continue;
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
    if (mine.zoom) await details.load(mine, [...inSight.keys()], () => mine !== look, shelf.publish);
  };

  const again = () => {
    loadFirst();
    refresh();
  };
  // One of several runs may be gone: the others are there to be asked for without it.
  const tried = openTries(error, closing.signal, again, () => known.reload(there()));
  // Apart, so that a chart that comes into view does not wait for the next turn of the live ones.
  const loadFirst = throttled(
    tried("first", async () => {
      if (closing.signal.aborted) return;
      await loadWhole(true);
      await loadDetails();
      if (isBehind()) refresh();
    }),
    0,
  );
  const refresh = throttled(
    tried("refresh", async () => {
      if (document.hidden) return;
      await loadWhole(false);
      await loadTails();
      // What was asked for anew has lost its finer parts.
      if (look.zoom) loadFirst();
    }),
    extendEvery(ids.length),
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
    run: ({ id, num_attempts, run_status }) => {
      const run = state.get(id);
      if (!run) return;
      const restarted = run.attempts !== num_attempts;
      // Of a run that ends the head may not tell any more of its last points, nor of their keys.
      const ended = run.status === "STARTED" && run_status !== "STARTED";
      run.attempts = num_attempts;
      run.status = run_status;
      if (ended) run.ticks += 1;
      if (restarted) reload([id]);
      else if (ended) refresh();
      if (restarted || ended) known.reload([id]);
    },
    gone: (id) => state.has(id) && known.reload([id]),
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
      inSight.set(key, (inSight.get(key) ?? 0) + 1);
      // After this turn, so that all charts that appear in it are asked for together.
      setTimeout(loadFirst);
    },
    /** @param {string} key */
    hide: (key) => {
      const left = (inSight.get(key) ?? 0) - 1;
      if (left > 0) inSight.set(key, left);
      else inSight.delete(key);
      const coarser = details.tidy(inSight);
      if (coarser.length > 0) shelf.publish(coarser);
      shelf.tidy(inSight);
    },
    close: () => {
      closing.abort();
      stopListening();
      document.removeEventListener("visibilitychange", refresh);
    },
  };
}
