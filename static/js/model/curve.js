// What a chart draws of a series: its points along the chosen x-axis, smoothed or not, what a log
// scale cannot show, where attempts begin; the range of y; and what stands under the crosshair. Pure.
/** @import { Series } from "./series.js" */
/** @import { Scale, XAxis } from "./view.js" */

import { lastOfNewest } from "./series.js";

/** @typedef {(number | null)[]} Column null: nothing to draw there */
/** @typedef {{ x: number, before: number, attempt: number }} Restart `before`: where the attempt before it ended */
/**
 * `y` the points, `low` and `high` their band if there is one, `smooth` the smoothed curve if wanted.
 * `last`: index of the newest attempt's last point; what stands behind it an older attempt left there.
 * `odd`: not finite. `hidden`: where a log scale cannot show a point. `breaks`: indices at which no line
 * leads from the point before.
 * @typedef {{ x: number[], y: Column, low: Column | null, high: Column | null, smooth: Column | null, attempt: number[], last: number, odd: { x: number, value: number }[], hidden: number[], restarts: Restart[], breaks: Set<number> }} Curve
 */

/** @param {Series} series @param {{ x: XAxis, smooth: number, scale: Scale, start_ms: number }} options @returns {Curve} */
export function curve(series, { x, smooth, scale, start_ms }) {
  const order = series.step.map((_, i) => i);
  // By time, a merged curve runs back where an older attempt got further than the newest.
  if (x !== "step") order.sort((a, b) => series.time[a] - series.time[b]);
  const at = {
    step: (/** @type {number} */ i) => series.step[i],
    time: (/** @type {number} */ i) => (series.time[i] - start_ms) / 1000,
    wall: (/** @type {number} */ i) => series.time[i],
  }[x];
  const attempt = order.map((i) => series.attempt[i]);
  const raw = order.map((i) => (Number.isFinite(series.value[i]) ? series.value[i] : null));
  const last = lastOfNewest(attempt);
  const shown = scale === "log" ? above : (/** @type {Column} */ column) => column;
  const y = shown(raw);
  const banded = order.some((i) => series.low[i] < series.high[i]);
  const xs = order.map(at);
  /** @type {Curve} */
  const out = {
    x: xs,
    y,
    low: banded ? order.map((i, n) => (raw[n] === null ? null : series.low[i])) : null,
    high: banded ? shown(order.map((i, n) => (raw[n] === null ? null : series.high[i]))) : null,
    smooth: smooth > 0 ? shown(smoothed(raw.slice(0, last + 1), smooth)) : null,
    attempt,
    last,
    odd: [],
    hidden: [],
    restarts: [],
    breaks: new Set(),
  };
  for (let n = 0; n < order.length; n += 1) {
    if (raw[n] === null) out.odd.push({ x: xs[n], value: series.value[order[n]] });
    else if (scale === "log" && series.low[order[n]] <= 0) out.hidden.push(xs[n]);
    if (n === 0 || attempt[n] <= attempt[n - 1]) continue;
    out.restarts.push({ x: xs[n], before: xs[n - 1], attempt: attempt[n] });
    // By time, nothing was measured between two attempts.
    if (x !== "step") out.breaks.add(n);
  }
  return out;
}

/** @param {Column} column @returns {Column} */
const above = (column) => column.map((v) => (v !== null && v > 0 ? v : null));

/**
 * Exponential moving average, corrected for its start at zero. What is not finite is a gap and
 * does not enter the average: one NaN must not swallow the rest of the curve.
 * @param {Column} values @param {number} factor 0 (none) to just below 1 @returns {Column}
 */
export function smoothed(values, factor) {
  let mean = 0;
  let weight = 0;
  return values.map((v) => {
    if (v === null) return null;
    mean = mean * factor + v * (1 - factor);
    weight = weight * factor + (1 - factor);
    return mean / weight;
  });
}

/**
 * The range of y for what is shown between two x, with some room; on a log scale only of what is above 0.
 * @param {Curve[]} curves @param {[number, number]} between @param {Scale} scale @returns {[number, number]}
 */
export function rangeOfY(curves, [from, to], scale) {
  let [low, high] = [Infinity, -Infinity];
  const see = (/** @type {number | null | undefined} */ v) => {
    if (v === null || v === undefined || (scale === "log" && v <= 0)) return;
    if (v < low) low = v;
    if (v > high) high = v;
  };
  for (const c of curves) {
    const end = firstBeyond(c.x, to);
    see(crossing(c, from));
    see(crossing(c, to));
    for (let i = firstAt(c.x, from); i < end; i += 1) {
      see(c.y[i]);
      see(c.low?.[i]);
      see(c.high?.[i]);
      see(c.smooth?.[i]);
    }
  }
  if (low > high) return scale === "log" ? [0.1, 10] : [0, 1];
  if (scale === "log") {
    const room = low === high ? 2 : Math.max(1.02, (high / low) ** 0.06);
    return [Math.max(Number.MIN_VALUE, low / room), Math.min(Number.MAX_VALUE, high * room)];
  }
  // Halves, for the width of the range itself may be more than a number can be.
  const half = high / 2 - low / 2;
  const room = low === high ? Math.abs(low) * 0.1 || 1 : half * 0.12;
  return [Math.max(-Number.MAX_VALUE, low - room), Math.min(Number.MAX_VALUE, high + room)];
}

/** Where the line between two points crosses an edge. @param {Curve} c @param {number} x */
function crossing(c, x) {
  const i = firstAt(c.x, x);
  const [before, after] = [c.y[i - 1], c.y[i]];
  if (i === 0 || i === c.x.length || before === null || after === null || c.breaks.has(i)) return null;
  return before + ((after - before) * (x - c.x[i - 1])) / (c.x[i] - c.x[i - 1]);
}

/** Whether anything of it is drawn between two x. @param {Curve} c @param {[number, number]} between */
export function isSeen(c, [from, to]) {
  const i = firstAt(c.x, from);
  return i < c.x.length && (c.x[i] <= to || (i > 0 && !c.breaks.has(i)));
}

/** How many of these stand between two x. @param {number[]} xs sorted @param {[number, number]} between */
export const within = (xs, [from, to]) => firstBeyond(xs, to) - firstAt(xs, from);

/** First index with `x` or more; the length if there is none. @param {number[]} xs sorted @param {number} x */
export function firstAt(xs, x) {
  let [low, high] = [0, xs.length];
  while (low < high) {
    const mid = (low + high) >> 1;
    if (xs[mid] < x) low = mid + 1;
    else high = mid;
  }
  return low;
}

/** First index with more than `x`. @param {number[]} xs @param {number} x */
function firstBeyond(xs, x) {
  let [low, high] = [firstAt(xs, x), xs.length];
  while (low < high && xs[low] <= x) low += 1;
  return low;
}

/** Index of the point nearest to `x` in a sorted column; −1 if it is empty. @param {number[]} xs @param {number} x */
export function nearest(xs, x) {
  const i = firstAt(xs, x);
  if (i === xs.length) return i - 1;
  return i > 0 && x - xs[i - 1] <= xs[i] - x ? i - 1 : i;
}

/** @typedef {{ x: number, value: number | null, low: number | null, high: number | null, smooth: number | null, attempt: number, isLeft: boolean }} Reading */

/** The point under the crosshair; without one, the newest attempt's last. @param {Curve} c @param {number | null} x @returns {Reading | null} */
export function readingAt(c, x) {
  const i = x === null ? c.last : nearest(c.x, x);
  if (i < 0) return null;
  const odd = c.odd.find((o) => o.x === c.x[i]);
  const banded = c.low && c.high && c.low[i] !== c.high[i];
  return {
    x: c.x[i],
    value: c.y[i] ?? odd?.value ?? null,
    low: banded ? (c.low?.[i] ?? null) : null,
    high: banded ? (c.high?.[i] ?? null) : null,
    smooth: c.smooth?.[i] ?? null,
    attempt: c.attempt[i],
    isLeft: i > c.last,
  };
}
