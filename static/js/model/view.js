// The view and its place in the URL: what a page shows, as path and query, both ways. Each page is
// a table of fields; a field that has its default is left out of the URL. Pure: it does not touch
// the browser's history.
/** @import { RunStatus } from "../types.js" */

import { STATUSES } from "./status.js";

export const TABS = /** @type {const} */ ([
  "overview",
  "metrics",
  "checkpoints",
  "workers",
  "logs",
  "events",
]);
/** @typedef {typeof TABS[number]} Tab */
export const COMPARE_TABS = /** @type {const} */ (["charts", "settings", "sweep"]);
/** @typedef {"step" | "time" | "wall"} XAxis step, seconds since the start of the run, or UNIX ms */
/** @typedef {"linear" | "log"} Scale */
/** @typedef {[number, number]} Zoom in the unit of the x-axis */

/**
 * What all pages with charts have: `q` searches keys, `full` is the key that fills the window,
 * `closed` are the groups whose charts are folded away.
 * @typedef {{ q: string, smooth: number, x: XAxis, scale: Scale, zoom: Zoom | null, full: string, closed: string[] }} ChartsView
 */
/** `col`: the columns shown, none for the usual ones; `selected`: ids of runs. */
/** @typedef {{ page: "runs", status: RunStatus[], q: string, experiment: string, tag: string[], sort: string, col: string[], selected: string[], trashed: boolean }} RunsView */
/** `rank`: of the log; `find`: what is looked for in it, `at`: the byte of the line that is looked at. */
/** @typedef {{ page: "run", id: string, tab: Tab, attempts: "merged" | "all", attempt: number | null, rank: number | "all", find: string, at: number | null } & ChartsView} RunView */
/** `across` and `score`: what the sweep's charts set against each other, a setting and a metric, of which `take` is the value. */
/** `brush`: which parts of the axes of the parallel coordinates are picked, from 0 to 1, by their keys. */
/** @typedef {{ page: "compare", runs: string[], brush: [string, [number, number]][], tab: typeof COMPARE_TABS[number], rows: "differing" | "all", across: string, score: string, take: "last" | "min" | "max" } & ChartsView} CompareView */
/** @typedef {{ page: "experiments", q: string }} ExperimentsView */
/** @typedef {{ page: "nodes" }} NodesView */
/** @typedef {{ page: "missing", path: string }} MissingView */
/** @typedef {RunsView | RunView | CompareView | ExperimentsView | NodesView | MissingView} View */

export const NEWEST_FIRST = "-start_time";

/** How many runs can be selected: so many ids still make a URL that proxies let pass. */
export const MOST_SELECTED = 100;

/**
 * One field: how it is read from all values of its name, and how it is written. No values: default.
 * @typedef {{ read: (values: string[]) => any, write: (value: any) => string[] }} Field
 */

/** @type {Field} */
const text = { read: ([v = ""]) => v, write: (v) => (v ? [v] : []) };
/** @type {Field} Each value by itself, for they may hold any character. */
const texts = { read: (all) => [...new Set(all.filter(Boolean))], write: (all) => all };
/** @param {number} most @returns {Field} */
const idsUpTo = (most) => ({
  read: (all) => [...new Set(all.flatMap((v) => v.split(",")).filter(Boolean))].slice(0, most),
  write: (all) => (all.length > 0 ? [all.join(",")] : []),
});
/** @type {Field} */
const flag = { read: ([v]) => v === "1", write: (v) => (v ? ["1"] : []) };
/** @type {Field} */
const natural = {
  read: ([v]) => (v !== undefined && /^\d{1,15}$/.test(v) ? Number(v) : null),
  write: (v) => (v === null ? [] : [String(v)]),
};
/** @type {Field} */
const fraction = {
  read: ([v]) => (Number(v) > 0 && Number(v) < 1 ? Number(v) : 0),
  write: (v) => (v ? [String(v)] : []),
};
/** @type {Field} */
const span = {
  read: ([v = ""]) => {
    const [low, high] = v.split("..").map(Number);
    return Number.isFinite(low) && Number.isFinite(high) && low < high ? [low, high] : null;
  },
  write: (v) =>
    v === null ? [] : [v.map((/** @type {number} */ n) => Number(n.toPrecision(14))).join("..")],
};
/** @type {Field} */
const rank = {
  read: ([v]) => (v === "all" ? v : (natural.read([v]) ?? 0)),
  write: (v) => (v ? [String(v)] : []),
};
/** The first is the default. @param {readonly string[]} all @returns {Field} */
const oneOf = (all) => ({
  read: ([v]) => all.find((w) => w === v) ?? all[0],
  write: (v) => (v === all[0] ? [] : [v]),
});
/** @param {readonly string[]} all @returns {Field} */
const someOf = (all) => ({ read: (values) => all.filter((w) => values.includes(w)), write: (v) => v });
/** @type {Field} */
const order = {
  read: ([v = NEWEST_FIRST]) => v || NEWEST_FIRST,
  write: (v) => (v === NEWEST_FIRST ? [] : [v]),
};

const BRUSH = /^(0|1|0\.\d{1,4})\.\.(0|1|0\.\d{1,4}):(.*)$/s;
/** The key comes last, for it may hold any character. @type {Field} */
const brushes = {
  read: (all) =>
    all.flatMap((v) => {
      const [, from, to, key] = BRUSH.exec(v) ?? [];
      return Number(from) < Number(to) ? [[key, [Number(from), Number(to)]]] : [];
    }),
  write: (all) =>
    all.map((/** @type {[string, [number, number]]} */ [key, ends]) => {
      return `${ends.map((f) => Number(f.toFixed(4))).join("..")}:${key}`;
    }),
};

const CHARTS = {
  q: text,
  smooth: fraction,
  x: oneOf(["step", "time", "wall"]),
  scale: oneOf(["linear", "log"]),
  zoom: span,
  full: text,
  closed: texts,
};
/** @type {Record<string, Record<string, Field>>} In the order in which they stand in the URL. */
const PAGES = {
  runs: {
    status: someOf(STATUSES),
    q: text,
    experiment: text,
    tag: texts,
    sort: order,
    col: texts,
    trashed: flag,
    selected: idsUpTo(MOST_SELECTED),
  },
  run: {
    tab: oneOf(TABS),
    ...CHARTS,
    attempts: oneOf(["merged", "all"]),
    attempt: natural,
    rank,
    find: text,
    at: natural,
  },
  compare: {
    // One too many is kept, so that the page can say that it leaves some out.
    runs: idsUpTo(MOST_SELECTED + 1),
    tab: oneOf(COMPARE_TABS),
    ...CHARTS,
    rows: oneOf(["differing", "all"]),
    across: text,
    score: text,
    take: oneOf(["last", "min", "max"]),
    brush: brushes,
  },
  experiments: { q: text },
  nodes: {},
};

/** @param {string} page @param {URLSearchParams} query @returns {any} */
function fieldsOf(page, query) {
  return Object.fromEntries(
    Object.entries(PAGES[page]).map(([name, field]) => [name, field.read(query.getAll(name))]),
  );
}

const NO_QUERY = new URLSearchParams();

/** @type {RunsView} */
export const ALL_RUNS = { page: "runs", ...fieldsOf("runs", NO_QUERY) };

/** @param {string} id @returns {RunView} */
export const runView = (id) => ({ page: "run", id, ...fieldsOf("run", NO_QUERY) });

/** @param {string[]} runs @returns {CompareView} */
export const compareView = (runs) => ({ page: "compare", ...fieldsOf("compare", NO_QUERY), runs });

/** @param {string} path below the head's base, without a leading slash @param {URLSearchParams} query @returns {View} */
export function parseView(path, query) {
  const page = path === "index.html" ? "" : path.replace(/\/$/, "");
  if (page === "") return { page: "runs", ...fieldsOf("runs", query) };
  if (page === "compare") return { page, ...fieldsOf(page, query) };
  if (page === "experiments") return { page, ...fieldsOf(page, query) };
  if (page === "nodes") return { page };
  const run = /^runs\/([^/]+)$/.exec(page);
  const id = run && decode(run[1]);
  return id ? { page: "run", id, ...fieldsOf("run", query) } : { page: "missing", path };
}

/** The relative URL of a view, to be resolved against the base. @param {View} view */
export function formatView(view) {
  if (view.page === "missing") return view.path;
  const query = new URLSearchParams();
  for (const [name, field] of Object.entries(PAGES[view.page]))
    for (const value of field.write(/** @type {any} */ (view)[name])) query.append(name, value);
  const path =
    view.page === "runs" ? "./" : view.page === "run" ? `runs/${encodeURIComponent(view.id)}` : view.page;
  // A comma may stand in a query as it is, and a list of ids is shorter and more legible so.
  const text = query.toString().replaceAll("%2C", ",");
  return text ? `${path}?${text}` : path;
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
