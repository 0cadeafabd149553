// Series as the head sends them, to be decoded by the tests.
/** @import { WireSeries } from "../../../static/js/types.js" */

/**
 * @param {[number, number | string, number?][]} points step, value, attempt
 * @param {Partial<WireSeries>} [change] @returns {WireSeries}
 */
export function wire(points, change = {}) {
  return {
    key: "k",
    attempt: "merged",
    rank: 0,
    count: points.length,
    step: points.map((p) => p[0]),
    time_ms: points.map((p) => p[0] * 1000),
    value: /** @type {any[]} */ (points.map((p) => p[1])),
    attempt_at: points.map((p) => p[2] ?? 0),
    ...change,
  };
}
