// The questions that charts ask: series as overviews or in finer parts, as few requests as can be, and
// the means that go with what was thinned out. It keeps nothing.
/** @import { WireSeries } from "../types.js" */
/** @import { Line } from "../model/lines.js" */
/** @import { Zoom } from "../model/view.js" */
/** @import { Wanted } from "../server/series.js" */

import { bucketWidth, decode } from "../model/series.js";
import { getSeries, querySeries } from "../server/series.js";

/** @typedef {{ run: string, key: string, line: Line }} Found */

const KEYS_A_REQUEST = 40;
/** Of one answer, so that the first charts are drawn while others load. */
const POINTS_AN_ANSWER = 200_000;

/** Points of a curve: where there are many curves, each needs fewer. @param {number} runs */
export const pointsOf = (runs) => (runs <= 4 ? 1000 : runs <= 20 ? 500 : 300);

/** Above this many points held for a curve, the head is asked to thin out anew. @param {number} runs */
export const mostHeld = (runs) => 4 * pointsOf(runs);

/** Keys in portions of one request. @param {string[]} keys @param {number} runs */
export function portions(keys, runs) {
  const size = Math.max(1, Math.min(KEYS_A_REQUEST, Math.floor(POINTS_AN_ANSWER / (runs * pointsOf(runs)))));
  return Array.from({ length: Math.ceil(keys.length / size) }, (_, i) =>
    keys.slice(i * size, (i + 1) * size),
  );
}

/**
 * Whole series or a part of them, of one run or of several on one grid.
 * @param {string[]} runs @param {string[]} keys @param {Wanted} wanted @param {number} max_points @param {AbortSignal} signal
 * @param {Zoom | null} [whole] first and last step of all of them, where a part is asked for
 * @returns {Promise<Found[]>}
 */
export async function fetchLines(runs, keys, wanted, max_points, signal, whole = null) {
  const alone = runs.length === 1;
  const ask = async (/** @type {string[]} */ some, /** @type {Wanted} */ how) =>
    alone
      ? [{ run_id: runs[0], series: (await getSeries(runs[0], some, how, signal)).series }]
      : querySeries(runs, some, how, signal);
  const answers = await ask(keys, { ...wanted, mode: "minmax", max_points });
  const all = answers.flatMap((a) => a.series);
  const thinned = all.filter((s) => s.count > s.step.length);
  // On the grid of least and greatest values: several runs have one in common, by all that is asked for.
  const buckets = Math.max(2, Math.floor(max_points / 2));
  const meansOf =
    thinned.length > 0
      ? await ask(alone ? [...new Set(thinned.map((s) => s.key))] : keys, {
          ...wanted,
          mode: "mean",
          max_points: buckets,
        })
      : [];
  const common = alone ? null : widthOf(all, buckets, part(wanted, whole));
  return answers.flatMap(({ run_id, series }, i) =>
    series.map((wire) => {
      const means = meansOf[i]?.series.find((m) => m.key === wire.key && m.attempt === wire.attempt) ?? null;
      const decoded = decode(wire, { width: common ?? widthOf([wire], buckets), means });
      return { run: run_id, key: wire.key, line: { attempt: wire.attempt, series: decoded } };
    }),
  );
}

/**
 * The grid that several runs share spans the part that is asked for also where no point stands at its end,
 * if there are points beyond it.
 * @param {Wanted} wanted @param {Zoom | null} whole @returns {Zoom}
 */
function part({ from_step, to_step }, whole) {
  const from = from_step ?? -Infinity;
  const to = to_step ?? Infinity;
  return [whole && whole[0] < from ? from : Infinity, whole && whole[1] > to ? to : -Infinity];
}

/** @param {WireSeries[]} all @param {number} buckets @param {Zoom} [least] what is spanned in any case */
function widthOf(all, buckets, [from, to] = [Infinity, -Infinity]) {
  const some = all.filter((s) => s.step.length > 0);
  const first = Math.min(from, ...some.map((s) => s.step[0]));
  const last = Math.max(to, ...some.map((s) => s.step[s.step.length - 1]));
  return some.length > 0 ? bucketWidth(first, last, buckets) : 1;
}

/** What is new of one attempt. @param {string} run @param {string[]} keys @param {Wanted} wanted @param {AbortSignal} signal @returns {Promise<Found[]>} */
export async function fetchTail(run, keys, wanted, signal) {
  const { series } = await getSeries(run, keys, { ...wanted, max_points: 1000 }, signal);
  return series.map((wire) => {
    const width = widthOf([wire], 500);
    return { run, key: wire.key, line: { attempt: wire.attempt, series: decode(wire, { width }) } };
  });
}

/** The lowest rank that reports each of these keys, where rank 0 does not. @param {string} run @param {string[]} keys @param {AbortSignal} signal */
export async function ranksOf(run, keys, signal) {
  const { series } = await getSeries(run, keys, { rank: "all", max_points: 2 }, signal);
  /** @type {Map<string, number>} */
  const ranks = new Map();
  for (const { key, rank } of series) ranks.set(key, Math.min(rank, ranks.get(key) ?? rank));
  return ranks;
}
