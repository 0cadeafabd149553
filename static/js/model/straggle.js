// How late each rank is: when it reported a step, compared with the rank that reported it first. Pure.
// Ranks report at steps of their own, and what is asked for are means of stretches, so the time at a step
// is read off the line between two points.

import { integer, interval } from "./format.js";

/** One rank's points. @typedef {{ rank: number, step: number[], time_ms: number[] }} RankSeries */
/** `late`: ms behind the first, for each stretch; null: it did not report then. `last`: its last step. */
/** @typedef {{ rank: number, late: (number | null)[], last: number }} HeatRow */
/** @typedef {{ steps: number[], rows: HeatRow[], first: (number | null)[], most: number }} Heat `first`: which rank was first; `most`: what the darkest colour stands for, ms */

/** @param {RankSeries[]} series @param {number} columns @returns {Heat | null} null: nothing to compare */
export function heat(series, columns) {
  const some = series.filter((s) => s.step.length > 1).sort((a, b) => a.rank - b.rank);
  if (some.length < 2) return null;
  const from = Math.min(...some.map((s) => s.step[0]));
  const to = Math.max(...some.map((s) => s.step[s.step.length - 1]));
  const n = Math.max(1, Math.min(columns, Math.round(to - from)));
  const steps = Array.from({ length: n }, (_, i) => from + ((to - from) * (i + 1)) / n);
  const times = some.map((s) => timesAt(s, steps));
  const earliest = steps.map((_, c) => Math.min(...times.map((t) => t[c] ?? Infinity)));
  const rows = some.map((s, r) => ({
    rank: s.rank,
    late: times[r].map((t, c) => (t === null ? null : t - earliest[c])),
    last: s.step[s.step.length - 1],
  }));
  const first = steps.map((_, c) => rows.find((row) => row.late[c] === 0)?.rank ?? null);
  return { steps, rows, first, most: upperOf(rows.flatMap((r) => r.late)) };
}

/** @param {RankSeries} series @param {number[]} steps ascending */
function timesAt({ step, time_ms }, steps) {
  let i = 0;
  return steps.map((at) => {
    while (i < step.length - 1 && step[i + 1] < at) i += 1;
    if (at < step[0] || at > step[step.length - 1]) return null;
    const next = Math.min(i + 1, step.length - 1);
    const width = step[next] - step[i];
    return width <= 0 ? time_ms[i] : time_ms[i] + ((time_ms[next] - time_ms[i]) * (at - step[i])) / width;
  });
}

/** Nearly the largest: one that stands out must not make all others look alike. @param {(number | null)[]} all */
function upperOf(all) {
  const sorted = all.filter((v) => v !== null).sort((a, b) => a - b);
  return sorted.length > 0 ? Math.max(1, sorted[Math.floor((sorted.length - 1) * 0.99)]) : 1;
}

/** Behind by so much of what all did, a rank hangs rather than lags. */
const HANGS = 0.1;
/** Last in so many stretches, a rank is no victim of chance. */
const OFTEN = 0.4;

/** Who holds up the others, in a sentence. @param {Heat} heat */
export function straggler({ steps, rows }) {
  const leader = Math.max(...rows.map((r) => r.last));
  const span = leader - (steps[0] ?? 0);
  const hanging = rows.filter((r) => leader - r.last > Math.max(1, span * HANGS));
  if (hanging.length > 0 && hanging.length < rows.length) {
    const [worst] = hanging.toSorted((a, b) => a.last - b.last);
    const others = hanging.length > 1 ? `, and ${hanging.length - 1} more are behind,` : "";
    return `Rank ${worst.rank} has come to about step ${integer(worst.last)}${others} where the first is at about ${integer(leader)}.`;
  }
  /** @type {Map<HeatRow, number>} */
  const lasts = new Map();
  for (let c = 0; c < steps.length; c += 1) {
    /** @type {HeatRow | null} */
    let last = null;
    for (const row of rows) if ((row.late[c] ?? -1) > (last?.late[c] ?? 0)) last = row;
    if (last) lasts.set(last, (lasts.get(last) ?? 0) + 1);
  }
  const [top] = [...lasts].sort((a, b) => b[1] - a[1]);
  if (!top) return "All ranks reported at the same time.";
  const [row, times] = top;
  const often = `last in ${times} of ${steps.length} stretches, ${interval(meanOf(row.late))} behind on average`;
  return times >= steps.length * OFTEN
    ? `Rank ${row.rank} was ${often}.`
    : `No rank stands out: rank ${row.rank}, the most often last, was ${often}.`;
}

/** @param {(number | null)[]} values */
function meanOf(values) {
  const known = values.filter((v) => v !== null);
  return known.reduce((a, b) => a + b, 0) / Math.max(1, known.length);
}
