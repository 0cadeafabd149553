// The columns of the list of runs: which there are, which are shown when nobody has chosen, and by
// what each can be sorted. `metric:KEY` and `setting:KEY` are columns of their own. Pure.
/** @import { TrainRun } from "../types.js" */

import { choose } from "./metric_keys.js";
import { flatten } from "./tree.js";

/**
 * `sort`: the head's name of its order, if it has one; `width` in rem; `num`: right-aligned.
 * @typedef {{ id: string, title: string, sort: string | null, num: boolean, width: number }} Column
 */

/** Always there, in front of the others. @type {Column[]} */
export const FIRST = [
  { id: "status", title: "Status", sort: "status", num: false, width: 15.5 },
  { id: "name", title: "Name", sort: "name", num: false, width: 18 },
];

/** @type {Column[]} */
const KNOWN = [
  { id: "experiment", title: "Experiment", sort: "experiment", num: false, width: 9.5 },
  { id: "started", title: "Started", sort: "start_time", num: true, width: 5.75 },
  { id: "duration", title: "Duration", sort: "duration", num: true, width: 6.5 },
  { id: "attempts", title: "Attempts", sort: "attempts", num: true, width: 6.5 },
  { id: "workers", title: "Workers", sort: "workers", num: true, width: 5 },
  { id: "step", title: "Step", sort: "step", num: true, width: 5 },
  { id: "rate", title: "Rate", sort: null, num: true, width: 5.5 },
  { id: "tags", title: "Tags", sort: null, num: false, width: 12 },
  { id: "failures", title: "Failures", sort: "failures", num: true, width: 5.5 },
  { id: "job", title: "Job", sort: "job", num: false, width: 9 },
  { id: "id", title: "Id", sort: "id", num: false, width: 17 },
];

export const KNOWN_IDS = KNOWN.map((c) => c.id);
/** How many metrics are shown when nobody has chosen. */
export const USUAL_METRICS = 2;
const USUAL = ["experiment", "started", "duration", "attempts", "workers", "step", "rate"];
const METRIC_REM = 10.5;
const SETTING_REM = 7;

/** @param {string} id */
export const metricOf = (id) => (id.startsWith("metric:") ? id.slice("metric:".length) : null);
/** @param {string} id */
export const settingOf = (id) => (id.startsWith("setting:") ? id.slice("setting:".length) : null);

/** @param {string} id @returns {Column | null} */
export function columnOf(id) {
  const metric = metricOf(id);
  if (metric !== null) return { id, title: metric, sort: id, num: true, width: METRIC_REM };
  const setting = settingOf(id);
  if (setting !== null) return { id, title: setting, sort: id, num: true, width: SETTING_REM };
  return KNOWN.find((c) => c.id === id) ?? null;
}

/** Which of the usual ones leave first where it is narrow; metrics by their place. */
const MISSED_LEAST = ["tags", "metric 1", "rate", "attempts", "experiment", "metric 0", "workers", "started"];
/** Boxes, actions, and the space around. */
const EDGES_REM = 9;
/** Below this a run is two lines (css/runs_narrow.css), which have room for these. */
export const PHONE_REM = 46;
const PHONE = ["started", "duration", "step"];

/**
 * The columns to show, after those that always are. What somebody has chosen is shown whatever the room,
 * and the table scrolls sideways; else what fits. Metrics have their place before it is known which.
 * @param {string[]} chosen @param {string[]} metrics what to show when nobody has chosen
 * @param {number} room the width that there is, rem
 * @returns {Column[]}
 */
export function columns(chosen, metrics, room) {
  if (room < PHONE_REM) return PHONE.map(columnOf).filter((c) => c !== null);
  if (chosen.length > 0) return chosen.map(columnOf).filter((c) => c !== null);
  const places = [
    ...USUAL.map((id) => ({ place: id, column: columnOf(id) })),
    ...Array.from({ length: USUAL_METRICS }, (_, i) => ({
      place: `metric ${i}`,
      column: metricAt(metrics, i),
    })),
    { place: "tags", column: columnOf("tags") },
  ];
  let width = widthOf(places.flatMap((p) => p.column ?? []));
  const left = new Set();
  for (const place of MISSED_LEAST) {
    if (width <= room) break;
    left.add(place);
    width -= places.find((p) => p.place === place)?.column?.width ?? 0;
  }
  return places.flatMap(({ place, column }) => (column && !left.has(place) ? [column] : []));
}

/** @param {string[]} metrics @param {number} i @returns {Column | null} */
const metricAt = (metrics, i) =>
  metrics[i] === undefined
    ? { id: `room:${i}`, title: "", sort: null, num: true, width: METRIC_REM }
    : columnOf(`metric:${metrics[i]}`);

/** How wide a table of these columns is, rem. @param {Column[]} all */
export const widthOf = (all) => [...FIRST, ...all].reduce((sum, c) => sum + c.width, EDGES_REM);

/** The ids of what is shown when nobody has chosen, to begin a choice with. @param {string[]} metrics */
export const usualIds = (metrics) => [...USUAL, ...metrics.map((m) => `metric:${m}`), "tags"];

/**
 * The metrics that most of these runs have, those first that people look at. What was chosen once
 * stays: a column must not change under the reader's eyes.
 * @param {{ last_metrics?: Record<string, unknown> }[]} runs @param {string[]} before
 */
export function usualMetrics(runs, before) {
  if (before.length === USUAL_METRICS) return before;
  const most = tally(runs.map((r) => Object.keys(r.last_metrics ?? {})));
  const often = most.length > 0 ? most[0][1] / 4 : 0;
  const common = most.filter(([, n]) => n >= often).map(([key]) => key);
  return [...new Set([...before, ...choose(common, USUAL_METRICS)])].slice(0, USUAL_METRICS);
}

/** Metric and setting keys of these runs, the commonest first. @param {TrainRun[]} runs */
export function keysOf(runs) {
  return {
    metrics: tally(runs.map((r) => Object.keys(r.last_metrics ?? {}))).map(([key]) => key),
    settings: tally(runs.map((r) => flatten(r.settings ?? {}).map(([key]) => key))).map(([key]) => key),
  };
}

/** @param {string[][]} lists @returns {[string, number][]} */
function tally(lists) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  for (const key of lists.flat()) seen.set(key, (seen.get(key) ?? 0) + 1);
  return [...seen].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
}

/** What a click on a column's head asks for: first the way most people want, then the other, then neither. @param {Column} column @param {string} sort @param {string} usual */
export function nextSort({ id, sort: key }, sort, usual) {
  const upwards = ["name", "experiment", "job", "id"].includes(id) || settingOf(id) !== null;
  const ways = upwards ? [`${key}`, `-${key}`] : [`-${key}`, `${key}`];
  const at = ways.indexOf(sort);
  return at < 0 ? ways[0] : (ways[at + 1] ?? usual);
}

/** @param {Column} column @param {string} sort @returns {"ascending" | "descending" | undefined} */
export function sortedBy({ sort: key }, sort) {
  if (key === null) return undefined;
  return sort === key ? "ascending" : sort === `-${key}` ? "descending" : undefined;
}
