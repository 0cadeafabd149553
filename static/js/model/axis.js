// Where the ticks of an axis stand and what is written at them: whole steps, times that people count in,
// times of day, and powers of ten. Pure.
/** @import { XAxis } from "./view.js" */

import { clock, day, elapsed, integer, tick, ticks } from "./format.js";

/** Whole steps. */
const STEPS = Array.from({ length: 16 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();
const PARTS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const SECONDS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
].concat([1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => days * 86_400));

/** What ticks of x may be apart, in its unit. @param {XAxis} x */
export const apart = (x) =>
  x === "step" ? STEPS : [...PARTS, ...SECONDS].map((s) => (x === "wall" ? Math.round(s * 1000) : s));

/** Whether some label needs more room. @param {XAxis} x */
export const labelRoom = (x) => (x === "wall" ? 88 : 72);

/** Times of day at whole minutes, hours or days of this place, not of Greenwich. @param {number} low @param {number} high @param {number} by in ms */
export function wallSplits(low, high, by) {
  const offset = offsetAt(low);
  const out = [];
  for (let local = Math.ceil((low - offset) / by) * by; local + offset - SHIFT <= high; local += by) {
    // Where the clocks were changed since, midnight is not a whole number of days later. Whole hours stay.
    const t = local + (by > 3_600_000 ? offsetAt(local + offset) : offset);
    if (t >= low && t <= high && t > (out[out.length - 1] ?? -Infinity)) out.push(t);
  }
  return out;
}

/** More than clocks are changed by. */
const SHIFT = 7_200_000;

/** Greenwich less the time of this place, in ms. @param {number} t */
const offsetAt = (t) => new Date(t).getTimezoneOffset() * 60_000;

/** Time of day; the date where the day changes, and at the first. @param {number[]} at UNIX ms */
export function wallLabels(at) {
  const by = at.length > 1 ? at[1] - at[0] : 1000;
  return at.map((t, i) => {
    const midnight = /^00:00:00/.test(clock(t)) && by >= 60_000;
    const changes = i === 0 ? at.length > 1 && day(t) !== day(at[at.length - 1]) : day(t) !== day(at[i - 1]);
    if (midnight || by >= 86_400_000) return day(t).slice(5);
    const time = by >= 60_000 ? clock(t).slice(0, 5) : by >= 1000 ? clock(t) : `${clock(t)}${part(t, by)}`;
    return changes ? `${day(t).slice(5)} ${time}` : time;
  });
}

/** @param {number} t @param {number} by */
const part = (t, by) => (((t % 1000) + 1000) / 1000).toFixed(by >= 100 ? 1 : by >= 10 ? 2 : 3).slice(1);

/** @param {number[]} at @param {XAxis} x */
export function labelsOfX(at, x) {
  if (x === "step") return at.map(integer);
  if (x === "wall") return wallLabels(at);
  const fine = at.length > 1 && at[1] - at[0] < 1;
  return fine ? ticks(at).map((t) => `${t}\u202fs`) : at.map((s) => (s < 0 ? `−${elapsed(-s)}` : elapsed(s)));
}

/**
 * Ticks of a log scale: powers of ten, fewer of them where there are many, 1-2-5 where there are few;
 * within less than one decade as on a linear scale.
 * @param {number} low above 0 @param {number} high @param {number} room how many there is room for
 */
export function logTicks(low, high, room) {
  const [from, to] = [Math.log10(low), Math.log10(high)];
  if (to - from < 1) return niceTicks(low, high, room);
  const decades = Math.floor(to) - Math.ceil(from) + 1;
  const each = Math.max(1, Math.ceil(decades / Math.max(1, room)));
  const steps = each === 1 && decades * 3 <= room ? [1, 2, 5] : [1];
  const out = [];
  for (let e = Math.floor(from / each) * each; e <= to; e += each)
    for (const n of steps) {
      const v = Number(`${n}e${e}`);
      if (v >= low && v <= high) out.push(v);
    }
  return out;
}

/** @param {number} low @param {number} high @param {number} room */
function niceTicks(low, high, room) {
  const least = (high - low) / Math.max(1, room);
  if (!(least > 0)) return [low];
  const e = Math.floor(Math.log10(least));
  const by = [1, 2, 5, 10].map((n) => Number(`${n}e${e}`)).find((n) => n >= least) ?? least;
  const out = [];
  for (let n = Math.ceil(low / by); n * by <= high; n += 1) out.push(Number((n * by).toPrecision(12)));
  return out;
}

/** @param {number[]} at @param {boolean} log */
export function labelsOfY(at, log) {
  // Within a decade ticks are evenly apart also on a log scale.
  const even = !log || at.length < 2 || Math.max(...at) < 10 * Math.min(...at);
  return even ? ticks(at) : at.map(power);
}

/** @param {number} v */
const power = (v) =>
  v >= 1e-3 && v < 1e5 ? tick(v) : v.toExponential(0).replace("e+", "e").replace("-", "−");
