// Parallel coordinates: an axis a setting and one for the score, a line a run. Pure geometry in fractions;
// what is brushed and drawn is the caller's affair.
/** @import { Axis, Value } from "./sweep_axis.js" */

import { axisOf, place } from "./sweep_axis.js";

/** @typedef {{ key: string, axis: Axis, places: (number | null)[] }} Column */
/** By the column's key: from where to where. @typedef {Map<string, [number, number]>} Brushes */

/** More axes than this are not told apart; the first ones are shown. */
export const MOST_AXES = 16;

/** @param {{ key: string, values: Value[], measured?: boolean }[]} dimensions @returns {Column[]} */
export function columnsOf(dimensions) {
  return dimensions.map(({ key, values, measured }) => {
    const axis = axisOf(values, measured ? { measured, decades: 3 } : {});
    return { key, axis, places: values.map((v) => place(axis, v)) };
  });
}

/** Is the run in every brush? One without a value is in none of that axis. @param {Column[]} columns @param {Brushes} brushes @param {number} run */
export function inBrushes(columns, brushes, run) {
  return columns.every(({ key, places }) => {
    const brush = brushes.get(key);
    const at = places[run];
    return !brush || (at !== null && at >= brush[0] && at <= brush[1]);
  });
}

/** So near its end, the end of an axis is meant, where many values are. */
const SNAP = 0.02;

/** A drag from one place to another, whichever is higher; one that hardly moved is none. @param {number} from @param {number} to @returns {[number, number] | null} */
export function brushOf(from, to) {
  const [a, b] = [from, to].map((f) => (f < SNAP ? 0 : f > 1 - SNAP ? 1 : f));
  return Math.abs(a - b) < 0.01 ? null : [Math.min(a, b), Math.max(a, b)];
}

/** A key moves by a part in so many. */
const STEPS = 20;

/**
 * What a key makes of a brush: arrows move its lower end, with Shift its upper one. One that is as long as the
 * axis picks out nothing, and is none; no other key has to do with it.
 * @param {[number, number] | null} brush @param {string} key @param {boolean} shift @returns {[number, number] | null | undefined}
 */
export function brushBy(brush, key, shift) {
  if (key === "Delete" || key === "Backspace") return null;
  const by = key === "ArrowUp" ? 1 : key === "ArrowDown" ? -1 : 0;
  if (by === 0) return undefined;
  const [low, high] = (brush ?? [0, 1]).map((f) => f * STEPS);
  const next = shift
    ? [low, Math.min(STEPS, Math.max(low + 1, Math.round(high + by)))]
    : [Math.max(0, Math.min(high - 1, Math.round(low + by))), high];
  return next[0] <= 0 && next[1] >= STEPS ? null : [next[0] / STEPS, next[1] / STEPS];
}

/** The stops of the colour ramp, css/compare.css has the colours. */
const RAMP = 4;

/** The ramp's colour at a fraction, as CSS. @param {number} f */
export function rampColor(f) {
  const at = Math.min(1, Math.max(0, f)) * (RAMP - 1);
  const i = Math.min(RAMP - 2, Math.floor(at));
  return `color-mix(in oklab, var(--ramp-${i}), var(--ramp-${i + 1}) ${Math.round((at - i) * 100)}%)`;
}
