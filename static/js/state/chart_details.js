// Finer points for the part of the x-axis that is looked at. What was loaded for the part before stays
// until the next is here, so that nothing flickers.
/** @import { Line, Lines } from "../model/lines.js" */
/** @import { XAxis, Zoom } from "../model/view.js" */

import { questions } from "../model/lines.js";
import { spanOf } from "../model/zoom.js";
import { fetchLines, pointsOf, portions } from "./chart_fetch.js";

/** @typedef {{ attempts: "merged" | "all", x: XAxis, zoom: Zoom | null }} Look */

/**
 * @param {{ ids: string[], isCoarse: (run: string, key: string) => boolean, startOf: (run: string) => number, rank: (run: string, key: string) => number, signal: AbortSignal }} of
 */
export function openDetails({ ids, isCoarse, startOf, rank, signal }) {
  /** @type {Map<string, { look: Look, lines: Lines }>} */
  const held = new Map();
  return {
    /** @param {string} key */
    of: (key) => held.get(key)?.lines,
    /** @param {string} key */
    drop: (key) => held.delete(key),
    clear: () => held.clear(),
    /**
     * Only where the overview leaves points out.
     * @param {Look} look @param {string[]} wanted keys @param {() => boolean} isOver somebody looks elsewhere now
     * @param {(keys: string[]) => void} then
     */
    load: async (look, wanted, isOver, then) => {
      const coarse = (/** @type {string} */ key) => ids.some((id) => isCoarse(id, key));
      const keys = wanted.filter((key) => held.get(key)?.look !== look && coarse(key));
      // By relative time the same part is another one of each run.
      const together = look.x === "time" ? ids.map((id) => [id]) : [ids];
      for (const some of portions(keys, ids.length)) {
        /** @type {Map<string, Lines>} */
        const lines = new Map(some.map((key) => [key, new Map()]));
        for (const group of together) {
          const span = spanOf(look.zoom, look.x, startOf(group[0]));
          for (const ask of questions(group, some, isCoarse, rank)) {
            const how = { ...span, rank: ask.rank, attempt: look.attempts };
            const found = await fetchLines(ask.runs, ask.keys, how, pointsOf(ids.length), signal);
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
