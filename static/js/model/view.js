// The view and its place in the URL: what a page shows, as path and query, both ways.
// Defaults are left out of the URL. Pure: it does not touch the browser's history.
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
/** @typedef {"step" | "time"} XAxis */

/** @typedef {{ page: "runs", status: RunStatus[], q: string }} RunsView */
/** @typedef {{ page: "run", id: string, tab: Tab, q: string, smooth: number, x: XAxis, attempt: number | null, rank: number }} RunView */
/** @typedef {{ page: "missing", path: string }} MissingView */
/** @typedef {RunsView | RunView | MissingView} View */

/** @type {RunsView} */
export const ALL_RUNS = { page: "runs", status: [], q: "" };

/** @param {string} id @returns {RunView} */
export function runView(id) {
  return { page: "run", id, tab: "overview", q: "", smooth: 0, x: "step", attempt: null, rank: 0 };
}

/** @param {string} path below the head's base, without a leading slash @param {URLSearchParams} query @returns {View} */
export function parseView(path, query) {
  if (path === "" || path === "index.html") {
    const wanted = query.getAll("status");
    return { page: "runs", status: STATUSES.filter((s) => wanted.includes(s)), q: query.get("q") ?? "" };
  }
  const run = /^runs\/([^/]+)\/?$/.exec(path);
  const id = run && decode(run[1]);
  if (!id) return { page: "missing", path };
  return {
    ...runView(id),
    tab: TABS.find((t) => t === query.get("tab")) ?? "overview",
    q: query.get("q") ?? "",
    smooth: fraction(query.get("smooth")),
    x: query.get("x") === "time" ? "time" : "step",
    attempt: natural(query.get("attempt")),
    rank: natural(query.get("rank")) ?? 0,
  };
}

/** The relative URL of a view, to be resolved against the base. @param {View} view */
export function formatView(view) {
  const query = new URLSearchParams();
  if (view.page === "missing") return view.path;
  if (view.page === "runs") {
    for (const s of view.status) query.append("status", s);
    if (view.q) query.set("q", view.q);
    return withQuery("./", query);
  }
  if (view.tab !== "overview") query.set("tab", view.tab);
  if (view.tab === "metrics") {
    if (view.q) query.set("q", view.q);
    if (view.smooth) query.set("smooth", String(view.smooth));
    if (view.x !== "step") query.set("x", view.x);
  }
  if (view.tab === "logs") {
    if (view.attempt !== null) query.set("attempt", String(view.attempt));
    if (view.rank) query.set("rank", String(view.rank));
  }
  return withQuery(`runs/${encodeURIComponent(view.id)}`, query);
}

/** @param {string} path @param {URLSearchParams} query */
function withQuery(path, query) {
  const text = query.toString();
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

/** @param {string | null} text */
function natural(text) {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

/** @param {string | null} text */
function fraction(text) {
  const n = Number(text);
  return n > 0 && n < 1 ? n : 0;
}
