// The loaded part of the list of runs: how changes, metric ticks and further pages enter it.
// Pure, on immutable rows, so that a row that did not change is the same object and is not
// drawn again. It does not know the server; it repeats its order and its `q`.
/** @import { MetricTick, RunChange, TrainRun } from "../types.js" */
/** @import { RunsView } from "./view.js" */

import { isTraining } from "./status.js";
import { NEWEST_FIRST } from "./view.js";

/** @typedef {TrainRun & { rate: number | null, measured: { step: number, time_ms: number } | null }} Row */
/** `complete`: there are no further pages, so a run that is older than the last row is new to us. */
/** @typedef {{ rows: Row[], complete: boolean }} Loaded */

/** @param {TrainRun} run @returns {Row} */
export function toRow(run) {
  const progress = run.evidence?.progress;
  const usual = progress?.median_step_interval_ms;
  return { ...run, rate: usual && isStepping(run) ? 1000 / usual : null, measured: measurement(progress) };
}

/** A run that stands still has no rate, whatever it had before. @param {TrainRun} run */
const isStepping = (run) => isTraining(run) && !run.evidence?.progress.stalled;

/** @param {{ last_step: number | null, last_report_ms: number | null } | undefined} p */
function measurement(p) {
  if (!p || p.last_step === null || p.last_report_ms === null) return null;
  return { step: p.last_step, time_ms: p.last_report_ms };
}

/** Newest start first, then by id. @param {TrainRun} a @param {TrainRun} b */
export function newestFirst(a, b) {
  return b.start_time_ms - a.start_time_ms || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}

/** @param {TrainRun} run @param {RunsView} view */
export function matches(run, view) {
  if (Boolean(run.trashed_at_ms) !== view.trashed) return false;
  if (view.status.length > 0 && !view.status.includes(run.run_status)) return false;
  if (view.experiment && run.experiment !== view.experiment) return false;
  const tags = Object.entries(run.tags).map(([k, v]) => `${k}:${v}`);
  if (!view.tag.every((tag) => tags.includes(tag))) return false;
  const q = view.q.trim().toLowerCase();
  if (!q) return true;
  return [run.name, run.id, run.job_id ?? "", ...tags].some((t) => t.toLowerCase().includes(q));
}

/** @param {Row[]} rows @param {TrainRun[]} page */
export function appendPage(rows, page) {
  const known = new Set(rows.map((r) => r.id));
  return [...rows, ...page.filter((r) => !known.has(r.id)).map(toRow)];
}

/** What the place of a run in an order depends on. @param {Row} row @param {string} sort such as `-metric:loss` */
export function placeOf(row, sort) {
  const key = sort.replace(/^-/, "");
  if (key.startsWith("metric:")) return row.last_metrics?.[key.slice("metric:".length)];
  if (key.startsWith("setting:")) return JSON.stringify(row.settings);
  /** @type {Record<string, unknown>} */
  const values = {
    name: row.name,
    experiment: row.experiment,
    job: row.job_id,
    status: row.run_status,
    duration: row.duration_ms,
    attempts: row.num_attempts,
    failures: row.num_failures.worker + row.num_failures.controller,
    workers: row.workers?.length,
    step: row.evidence?.progress.last_step,
  };
  return values[key];
}

/**
 * What is the same as before stays the same object. A rate that was measured here is newer than the
 * head's median; without one there is a reason.
 * @param {Row[]} before @param {Row[]} rows
 */
export function keepSame(before, rows) {
  const old = new Map(before.map((r) => [r.id, r]));
  return rows.map((row) => {
    const was = old.get(row.id);
    if (!was) return row;
    const next = row.rate === null ? row : { ...row, rate: was.rate ?? row.rate, measured: was.measured };
    return JSON.stringify(was) === JSON.stringify(next) ? was : next;
  });
}

/**
 * A run was added or changed. The change carries no evidence, so what is known of it stays;
 * a stall that was recorded ends with newer progress.
 * @param {Loaded} loaded @param {RunChange} change @param {RunsView} view @returns {Row[]}
 */
export function applyChange({ rows, complete }, change, view) {
  const at = rows.findIndex((r) => r.id === change.id);
  const fits = matches(change, view);
  if (at >= 0) {
    if (!fits) return rows.filter((_, i) => i !== at);
    return rows.with(at, merge(rows[at], change));
  }
  // In another order only the head knows where it belongs.
  if (!fits || view.sort !== NEWEST_FIRST) return rows;
  const before = rows.findIndex((r) => newestFirst(change, r) < 0);
  if (before >= 0) return rows.toSpliced(before, 0, toRow(change));
  return complete ? [...rows, toRow(change)] : rows;
}

/** What is too long for a list is null in a change, and not gone. @param {RunChange} change @returns {Partial<RunChange>} */
export const told = (change) =>
  Object.fromEntries(Object.entries(change).filter(([name]) => !change.omitted.includes(name)));

/** @param {Row} row @param {RunChange} change @returns {Row} */
function merge(row, change) {
  const { progress, ...said } = told(change);
  const merged = { ...row, ...said };
  if (!isStepping(merged)) merged.rate = null;
  return progress ? withProgress(merged, progress) : merged;
}

/** @param {Row} row @param {import("../types.js").ProgressNews} progress @returns {Row} */
function withProgress(row, progress) {
  const old = row.evidence?.progress;
  if (!row.evidence || !old) return row;
  // What is not said is not unsaid: the last change of a run may come without its progress.
  const next = { ...old, last_step: progress.last_step ?? old.last_step };
  next.last_report_ms = progress.last_report_ms ?? old.last_report_ms;
  // No step of the attempt that runs: it may still load.
  next.last_advance_ms = progress.last_advance_ms;
  if (next.last_advance_ms !== old.last_advance_ms || !isTraining(row))
    Object.assign(next, { stalled: false, stalled_since_ms: null });
  return { ...row, evidence: { ...row.evidence, progress: next } };
}

/** The head's rule (src/model/progress.rs): ten usual steps of time without a step, and at least ten seconds. */
const STALL_FACTOR = 10;
const STALL_MIN_MS = 10_000;

/**
 * That a run stalls is no event: it is seen by the clock. What moves on is no longer stalled by its next
 * step (`withProgress`).
 * @param {Row[]} rows @param {number} now @returns {Row[]}
 */
export function noticeStalls(rows, now) {
  return rows.map((row) => {
    const progress = row.evidence?.progress;
    const since = progress?.last_advance_ms;
    const usual = progress?.median_step_interval_ms ?? (row.rate ? 1000 / row.rate : null);
    if (!row.evidence || !progress || !isStepping(row) || !since || !usual) return row;
    if (now - since <= Math.max(STALL_MIN_MS, STALL_FACTOR * usual)) return row;
    const stalled = { ...progress, stalled: true, stalled_since_ms: since };
    return { ...row, rate: null, evidence: { ...row.evidence, progress: stalled } };
  });
}

/** @param {Row[]} rows @param {MetricTick} tick @returns {Row[]} */
export function applyTick(rows, tick) {
  const at = rows.findIndex((r) => r.id === tick.run_id);
  return at < 0 ? rows : rows.with(at, tickRow(rows[at], tick));
}

/** @param {Row} row @param {MetricTick} tick @returns {Row} */
export function tickRow(row, tick) {
  const next = { ...row, last_metrics: { ...row.last_metrics, ...tick.last_metrics } };
  if (tick.last_step === null) return next;
  Object.assign(next, speed(row, tick.last_step, tick.time_ms));
  const { last_step, last_advance_ms } = tick;
  const progress = { last_step, last_report_ms: tick.time_ms, last_advance_ms };
  if (next.evidence) return withProgress(next, progress);
  // A run that came by the stream alone has no evidence yet; its progress is known all the same.
  const unknown = { median_step_interval_ms: null, stalled: false, stalled_since_ms: null, ranks: [] };
  return { ...next, evidence: { ...NO_EVIDENCE, progress: { ...unknown, ...progress } } };
}

/** @type {Omit<import("../types.js").Evidence, "progress">} */
const NO_EVIDENCE = {
  process: { state: "unknown", pid: null, host: null, observed_by: null, observed_at_ms: null },
  contact: { last_contact_ms: 0, lease_ttl_ms: 0, lease_expires_ms: null, clock_skew_ms: null },
};

/**
 * Measured over at least half a second and averaged, so that the number can be read.
 * A step that goes back (a restart) starts the measurement anew.
 * @param {Row} row @param {number} step @param {number} time_ms
 */
function speed(row, step, time_ms) {
  const from = row.measured;
  if (!from || step < from.step) return { rate: row.rate, measured: { step, time_ms } };
  const ms = time_ms - from.time_ms;
  if (ms < 500) return { rate: row.rate, measured: from };
  const seen = ((step - from.step) * 1000) / ms;
  return { rate: row.rate === null ? seen : row.rate * 0.7 + seen * 0.3, measured: { step, time_ms } };
}
