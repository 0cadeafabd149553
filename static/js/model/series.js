// One metric of one run as columns: decoding, extending by what is new, smoothing, and the
// arrays that a chart draws. Pure. Downsampling is the server's; here every point it sent is kept.
/** @import { WireSeries } from "../types.js" */
/** @import { XAxis } from "./view.js" */

import { toNumber } from "./format.js";

/** @typedef {{ step: number[], time: number[], value: number[], attempt: number[], rank: number }} Series */
/** @typedef {{ x: number, before: number, attempt: number }} Restart `before`: where the attempt before it ended */
/** In a Plot, `last` is the index of the newest attempt's last point; `left` is what an older one left beyond it. */
/** @typedef {{ x: number[], raw: (number | null)[], smooth: (number | null)[] | null, left: (number | null)[] | null, last: number, odd: { x: number, value: number }[], restarts: Restart[] }} Plot */

/** Above this many points held for a chart, the server is asked to sample anew. */
export const MAX_HELD = 4000;

/** @type {Series} */
export const EMPTY = { step: [], time: [], value: [], attempt: [], rank: 0 };

/** @param {WireSeries} wire @returns {Series} */
export function decode(wire) {
  return {
    step: wire.step,
    time: wire.time_ms,
    value: wire.value.map(toNumber),
    attempt: wire.attempt_at,
    rank: wire.rank,
  };
}

/**
 * The step from which to ask for more: the last one of the newest attempt. Beyond it there may
 * be steps of an older attempt, which the newest has yet to reach and will then replace.
 * @param {Series} series
 */
export function resumeStep(series) {
  return series.step[lastOfNewest(series.attempt)] ?? null;
}

/** Which attempt the newest points are of; −1 if there are none. @param {Series} series */
export function newestAttempt(series) {
  return series.attempt[lastOfNewest(series.attempt)] ?? -1;
}

/** Index of the last point of the newest attempt; −1 if there is none. @param {number[]} attempts */
function lastOfNewest(attempts) {
  let last = -1;
  for (let i = 0; i < attempts.length; i += 1) if (last < 0 || attempts[i] >= attempts[last]) last = i;
  return last;
}

/** Everything from `from` on is replaced by what the server says now. @param {Series} old @param {Series} tail @param {number} from @returns {Series} */
export function extend(old, tail, from) {
  let keep = old.step.length;
  while (keep > 0 && old.step[keep - 1] >= from) keep -= 1;
  return {
    step: [...old.step.slice(0, keep), ...tail.step],
    time: [...old.time.slice(0, keep), ...tail.time],
    value: [...old.value.slice(0, keep), ...tail.value],
    attempt: [...old.attempt.slice(0, keep), ...tail.attempt],
    rank: tail.rank,
  };
}

/**
 * Exponential moving average, corrected for its start at zero. What is not finite is a gap and
 * does not enter the average: one NaN must not swallow the rest of the curve.
 * @param {(number | null)[]} values @param {number} factor 0 (none) to just below 1
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

/** @param {Series} series @param {{ x: XAxis, smooth: number, start_ms: number }} options @returns {Plot} */
export function plot(series, { x, smooth, start_ms }) {
  const order = series.step.map((_, i) => i);
  // By time, a merged curve runs back where an older attempt got further than the newest.
  if (x === "time") order.sort((a, b) => series.time[a] - series.time[b]);
  const xs = order.map((i) => (x === "step" ? series.step[i] : (series.time[i] - start_ms) / 1000));
  const raw = order.map((i) => (Number.isFinite(series.value[i]) ? series.value[i] : null));
  const last = lastOfNewest(order.map((i) => series.attempt[i]));
  const left = last < raw.length - 1 ? raw.map((v, i) => (i >= last ? v : null)) : null;
  if (left) raw.fill(null, last + 1);
  const odd = [];
  const restarts = [];
  for (let n = 0; n < order.length; n += 1) {
    const value = series.value[order[n]];
    if (!Number.isFinite(value)) odd.push({ x: xs[n], value });
    const attempt = series.attempt[order[n]];
    if (n > 0 && attempt > series.attempt[order[n - 1]])
      restarts.push({ x: xs[n], before: xs[n - 1], attempt });
  }
  return { x: xs, raw, smooth: smooth > 0 ? smoothed(raw, smooth) : null, left, last, odd, restarts };
}

/** Index of the point nearest to `x` in a sorted column. @param {number[]} xs @param {number} x */
export function nearest(xs, x) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const mid = (low + high) >> 1;
    if (xs[mid] <= x) low = mid;
    else high = mid;
  }
  return high >= 0 && Math.abs(xs[high] - x) < Math.abs(xs[low] - x) ? high : low;
}
