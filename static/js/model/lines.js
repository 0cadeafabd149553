// The curves behind one chart: of each run one, or one of each attempt. How they are extended and made
// finer, how far they reach, and which of them to ask for together. Pure.
/** @import { Extent, Series } from "./series.js" */
/** @import { XAxis, Zoom } from "./view.js" */

import { EMPTY, extend, extentOf, isThinned, refined } from "./series.js";

/** @typedef {{ attempt: number | "merged", series: Series }} Line */
/** @typedef {Map<string, Line[]>} Lines by the id of the run; what has none is not there yet */
/** @typedef {Record<XAxis, Zoom>} Extents what all charts have as their x-axis, so that they can be compared */

/** @param {Line[]} lines */
export const anyThinned = (lines) => lines.some((line) => isThinned(line.series));

/** With the finer part of each in its place. @param {Line[]} lines @param {Line[] | undefined} finer */
export function fine(lines, finer) {
  if (!finer || finer.length === 0) return lines;
  return lines.map((line) => {
    const part = finer.find((f) => f.attempt === line.attempt);
    return part && isThinned(line.series) ? { ...line, series: refined(line.series, part.series) } : line;
  });
}

/** With the newest points of one attempt. @param {Line[]} lines @param {Line} tail @param {"merged" | "all"} kind @param {number | null} from @returns {Line[]} */
export function extended(lines, tail, kind, from) {
  const attempt = kind === "merged" ? "merged" : tail.attempt;
  const old = lines.find((line) => line.attempt === attempt);
  const next = { attempt, series: extend(old?.series ?? EMPTY, tail.series, from) };
  return old ? lines.map((line) => (line === old ? next : line)) : [...lines, next];
}

/** From the first to the last of all of them, in the unit of each x-axis. @param {Iterable<{ line: Line, start_ms: number }>} all @returns {Extents | null} */
export function extentsOf(all) {
  /** @type {Extents} */
  const out = { step: [Infinity, -Infinity], time: [Infinity, -Infinity], wall: [Infinity, -Infinity] };
  const add = (/** @type {XAxis} */ x, /** @type {Zoom} */ [from, to]) => {
    out[x][0] = Math.min(out[x][0], from);
    out[x][1] = Math.max(out[x][1], to);
  };
  for (const { line, start_ms } of all) {
    const extent = extentOf(line.series);
    if (!extent) continue;
    add("step", extent.step);
    add("wall", extent.time);
    add("time", /** @type {Extent["time"]} */ (extent.time.map((t) => (t - start_ms) / 1000)));
  }
  return out.step[0] <= out.step[1] ? out : null;
}

/**
 * What several runs want alike is one question.
 * @param {string[]} runs @param {Iterable<string>} keys @param {(run: string, key: string) => boolean} wants
 * @param {(run: string, key: string) => number} rank @returns {{ runs: string[], keys: string[], rank: number }[]}
 */
export function questions(runs, keys, wants, rank) {
  /** @type {Map<string, { runs: string[], keys: string[], rank: number }>} */
  const asks = new Map();
  for (const run of runs) {
    /** @type {Map<number, string[]>} */
    const byRank = new Map();
    for (const key of keys) {
      if (!wants(run, key)) continue;
      const some = byRank.get(rank(run, key));
      if (some) some.push(key);
      else byRank.set(rank(run, key), [key]);
    }
    for (const [r, some] of byRank) {
      const name = JSON.stringify([r, some]);
      const ask = asks.get(name);
      if (ask) ask.runs.push(run);
      else asks.set(name, { runs: [run], keys: some, rank: r });
    }
  }
  return [...asks.values()];
}
