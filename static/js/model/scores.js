// The scores of checkpoints over the steps, as places in a box: which metric is the score, and the dots.
// Pure geometry; drawing is elsewhere.
/** @import { Checkpoint } from "../file_types.js" */

import { toNumber } from "./format.js";

/** `given`: the run's retention names it. @typedef {{ key: string, order: "max" | "min", given: boolean }} Score */
/** In fractions of the box, from its lower left. @typedef {{ checkpoint: Checkpoint, value: number, x: number, y: number }} Dot */
/** @typedef {{ dots: Dot[], low: number, high: number, from: number, to: number, missing: number }} Plot `missing`: without a score that can be drawn */

/** @param {Record<string, unknown>} settings of the run @param {Checkpoint[]} checkpoints @returns {Score | null} */
export function scoreOf(settings, checkpoints) {
  const kept = /** @type {Record<string, unknown>} */ (settings.checkpoints ?? {});
  const order = kept.score_order === "min" ? "min" : "max";
  if (typeof kept.score_attribute === "string" && kept.score_attribute)
    return { key: kept.score_attribute, order, given: true };
  const [first, ...rest] = checkpoints;
  const key = Object.keys(first?.metrics ?? {}).find((k) => rest.every((c) => k in c.metrics));
  return key ? { key, order, given: false } : null;
}

/** Room at the edges of the box, so that dots are whole. */
const MARGIN = { x: 0.02, y: 0.08 };

/** @param {Checkpoint[]} checkpoints @param {string} key @returns {Plot | null} null: there is nothing to draw */
export function plotOf(checkpoints, key) {
  const known = checkpoints
    .map((checkpoint) => ({ checkpoint, value: toNumber(checkpoint.metrics[key]) }))
    .filter(({ value }) => Number.isFinite(value))
    .sort((a, b) => a.checkpoint.step - b.checkpoint.step);
  if (known.length === 0) return null;
  const values = known.map((k) => k.value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const [from, to] = [known[0].checkpoint.step, known[known.length - 1].checkpoint.step];
  /** @param {number} v @param {number} a @param {number} b @param {number} margin */
  const at = (v, a, b, margin) => (b > a ? margin + ((v - a) / (b - a)) * (1 - 2 * margin) : 0.5);
  const dots = known.map((k) => ({
    ...k,
    x: at(k.checkpoint.step, from, to, MARGIN.x),
    y: at(k.value, low, high, MARGIN.y),
  }));
  return { dots, low, high, from, to, missing: checkpoints.length - known.length };
}
