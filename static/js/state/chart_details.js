// Finer points for the part of the x-axis that is looked at. What was loaded for the part before stays
// until the next is here, so that nothing flickers.
/** @import { Line, Lines } from "../model/lines.js" */
/** @import { XAxis, Zoom } from "../model/view.js" */

import { anyThinned, extentsOf, questions } from "../model/lines.js";
import { spanOf } from "../model/zoom.js";
import { fetchLines, pointsOf, portions } from "./chart_fetch.js";

/** @typedef {{ attempts: "merged" | "all", x: XAxis, zoom: Zoom | null }} Look */

/** Keys that are kept when they are out of sight: more than a window shows. */
const MOST_KEYS = 24;

/**
 * `overview`: what is held of all of it.
 * @param {{ ids: () => string[], overview: (run: string, key: string) => Line[], startOf: (run: string) => number, rank: (run: string, key: string) => number, signal: AbortSignal }} of
 */
export function openDetails({ ids, overview, startOf, rank, signal }) {
  /** @type {Map<string, { look: Look, lines: Lines }>} */
  const held = new Map();
  const isCoarse = (/** @type {string} */ run, /** @type {string} */ key) => anyThinned(overview(run, key));

  /** First and last step of all that is asked for. @param {string[]} runs @param {string[]} keys */
  const reach = (runs, keys) => {
    const lines = runs.flatMap((run) => keys.flatMap((key) => overview(run, key)));
    return extentsOf(lines.map((line) => ({ line, start_ms: 0 })))?.step ?? null;
  };

  return {
    /** @param {string} key */
    of: (key) => held.get(key)?.lines,
    /** @param {string} key */
    drop: (key) => held.delete(key),
    clear: () => held.clear(),
    /** Room for others. @param {{ has: (key: string) => boolean }} inSight @returns {string[]} keys that have no finer points any more */
    tidy: (inSight) => {
      const over = Math.max(0, held.size - MOST_KEYS);
      const dropped = [...held.keys()].filter((key) => !inSight.has(key)).slice(0, over);
      for (const key of dropped) held.delete(key);
      return dropped;
    },
    /**
     * Only where the overview leaves points out.
     * @param {Look} look @param {string[]} wanted keys @param {() => boolean} isOver somebody looks elsewhere now
     * @param {(keys: string[]) => void} then
     */
    load: async (look, wanted, isOver, then) => {
      const all = ids();
      const coarse = (/** @type {string} */ key) => all.some((id) => isCoarse(id, key));
      const keys = wanted.filter((key) => held.get(key)?.look !== look && coarse(key));
      // By relative time the same part is another one of each run; and by any time, the head makes the grid
      // that several runs share from all of their steps, not from those of the part: it would be no finer.
      const together = look.x === "step" ? [all] : all.map((id) => [id]);
      for (const some of portions(keys, all.length)) {
        /** @type {Map<string, Lines>} */
        const lines = new Map(some.map((key) => [key, new Map()]));
        for (const group of together) {
          const span = spanOf(look.zoom, look.x, startOf(group[0]));
          for (const ask of questions(group, some, isCoarse, rank)) {
            const how = { ...span, rank: ask.rank, attempt: look.attempts };
            const whole = reach(ask.runs, ask.keys);
            const found = await fetchLines(ask.runs, ask.keys, how, pointsOf(all.length), signal, whole);
            if (isOver()) return;
            for (const { run, key, line } of found) {
              const of = /** @type {Lines} */ (lines.get(key));
              of.set(run, [.../** @type {Line[]} */ (of.get(run) ?? []), line]);
            }
          }
        }
        for (const key of some) held.set(key, { look, lines: /** @type {Lines} */ (lines.get(key)) });
        then(some);
      }
    },
  };
}
