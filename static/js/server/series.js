// Metrics as the head sends them: which there are, and their series, of one run or of several.
/** @import { Lost, MetricSummary, WireSeries } from "../types.js" */

import { ask, runUrl } from "./api.js";

/** @param {string} id @param {AbortSignal} [signal] @returns {Promise<{ metrics: MetricSummary[], lost: Lost }>} */
export async function listMetrics(id, signal) {
  return (await ask(`${runUrl(id)}/metrics`, { signal })).json();
}

/**
 * Which part of which series; times are UNIX ms.
 * @typedef {object} Wanted
 * @property {number | null} [from_step]
 * @property {number | null} [to_step]
 * @property {number | null} [from_ms]
 * @property {number | null} [to_ms]
 * @property {"step" | "time"} [x]
 * @property {"minmax" | "mean" | "raw"} [mode]
 * @property {"merged" | "all" | number} [attempt]
 * @property {number | "all"} [rank]
 * @property {number} [max_points]
 */

/** @param {string[]} keys @param {Wanted} wanted */
function queryOf(keys, wanted) {
  const query = new URLSearchParams();
  for (const key of keys) query.append("key", key);
  for (const [name, value] of Object.entries(wanted))
    if (value !== null && value !== undefined) query.set(name, String(value));
  return query;
}

/** @param {string} id @param {string[]} keys @param {Wanted} wanted @param {AbortSignal} signal @returns {Promise<{ series: WireSeries[] }>} */
export async function getSeries(id, keys, wanted, signal) {
  return (await ask(`${runUrl(id)}/metrics/series?${queryOf(keys, wanted)}`, { signal })).json();
}

/** Where a spreadsheet finds the points. @param {string} id @param {string[]} keys @param {Wanted} wanted */
export function csvUrl(id, keys, wanted) {
  const query = queryOf(keys, wanted);
  query.set("format", "csv");
  return `${runUrl(id)}/metrics/series?${query}`;
}

/**
 * Series of several runs on one grid, in the order asked for.
 * @param {string[]} runs @param {string[]} keys @param {Wanted} wanted @param {AbortSignal} [signal]
 * @returns {Promise<{ run_id: string, series: WireSeries[] }[]>}
 */
export async function querySeries(runs, keys, wanted, signal) {
  const said = Object.entries(wanted).filter(([, value]) => value !== null && value !== undefined);
  const body = JSON.stringify({ runs, keys, ...Object.fromEntries(said) });
  const headers = { "content-type": "application/json" };
  const response = await ask("api/train/metrics/query", { method: "POST", headers, body, signal });
  const lines = (await response.text()).split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line));
}
