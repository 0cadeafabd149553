// One axis of a sweep's charts: numbers on a linear or a logarithmic scale, words evenly apart. Pure
// geometry in fractions of the axis, from 0 (low) to 1; drawing is elsewhere. Axes of curves are in axis.js.

import { tick } from "./format.js";

/** @typedef {number | string | null} Value null: there is none */
/** `labels`: the words of a category; `stops`: the values themselves where they are few. */
/** @typedef {{ kind: "number" | "category", log: boolean, low: number, high: number, labels: string[], stops: number[], missing: number }} Axis */
/** @typedef {{ at: number, label: string }} Tick */

/** So many different values are marked one by one: those of a setting are chosen, not measured. */
const FEW = 7;

/**
 * A number axis if all values that are there are numbers. Values spread further than `decades` get a log scale.
 * @param {Value[]} values @param {{ decades?: number, pad?: number, measured?: boolean }} [options] `pad`: room at both ends, in fractions @returns {Axis}
 */
export function axisOf(values, { decades = 1.5, pad = 0, measured = false } = {}) {
  const known = values.filter((v) => v !== null);
  const missing = values.length - known.length;
  const numbers = /** @type {number[]} */ (known.filter((v) => typeof v === "number"));
  const none = { log: false, low: 0, high: 1, labels: [], stops: [], missing };
  if (known.length === 0 || numbers.length < known.length) {
    const words = [...new Set(known.map(String))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    return { ...none, kind: "category", labels: words };
  }
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const log = least > 0 && Math.log10(most / least) >= decades;
  const distinct = [...new Set(numbers)].sort((a, b) => a - b);
  const stops = distinct.length === 1 || (distinct.length <= FEW && !measured) ? distinct : [];
  const [from, to] = log ? [Math.log10(least), Math.log10(most)] : [least, most];
  // A single value stands in the middle.
  const room = from === to ? Math.abs(from) * 0.1 || 1 : (to - from) * pad;
  return { ...none, kind: "number", log, low: from - room, high: to + room, stops };
}

/** Where a value is on its axis. @param {Axis} axis @param {Value} value @returns {number | null} */
export function place(axis, value) {
  if (value === null) return null;
  if (axis.kind === "category") {
    const i = axis.labels.indexOf(String(value));
    return i < 0 ? null : (i + 0.5) / axis.labels.length;
  }
  if (typeof value !== "number" || (axis.log && value <= 0)) return null;
  return ((axis.log ? Math.log10(value) : value) - axis.low) / (axis.high - axis.low);
}

/** At most about `most` of them, none closer than there is room for. @param {Axis} axis @param {number} most @returns {Tick[]} */
export function ticksOf(axis, most) {
  const room = Math.max(1, most);
  if (axis.kind === "category") {
    const stride = Math.ceil(axis.labels.length / room);
    return axis.labels
      .map((label, i) => ({ at: (i + 0.5) / axis.labels.length, label }))
      .filter((_, i) => i % stride === 0);
  }
  const marks = axis.stops.length > 0 ? axis.stops : axis.log ? logMarks(axis) : linearMarks(axis, room);
  const all = marks.map((v) => ({ at: place(axis, v) ?? 0, label: tick(v) }));
  return thinned(all, 1 / room);
}

/** The first one and those that are far enough from the one before. @param {Tick[]} marks @param {number} least */
function thinned(marks, least) {
  /** @type {Tick[]} */
  const kept = [];
  for (const mark of marks)
    if (kept.length === 0 || mark.at - kept[kept.length - 1].at >= least - 1e-9) kept.push(mark);
  return kept;
}

/** Powers of ten, with parts of them where there are few. @param {Axis} axis */
function logMarks({ low, high }) {
  const [first, last] = [Math.floor(low), Math.ceil(high)];
  const powers = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  const parts = high - low >= 3 ? [1] : [1, 2, 5];
  const marks = powers.flatMap((p) => parts.map((n) => Number(`${n}e${p}`)));
  return marks.filter((v) => Math.log10(v) >= low - 1e-9 && Math.log10(v) <= high + 1e-9);
}

/** @param {Axis} axis @param {number} most */
function linearMarks({ low, high }, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((n) => n * power >= rough * (1 - 1e-9)) ?? 10) * power;
  // The difference of two numbers may be more, or less, than a number can be.
  if (!Number.isFinite(step) || step === 0) return [low, high];
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  // Cut to the digits that a step has, so that 0.3 is not 0.30000000000000004.
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
