// What a run's record says, in words: its status mark, and why in one sentence.
// Pure. It never guesses: where nothing is known it says what is recorded and no more.
/** @import { Exit, TrainRun, Worker } from "../types.js" */

import { count, duration, integer, interval, rate as rateText } from "./format.js";

/** @typedef {"started" | "stalled" | "finished" | "errored" | "aborted" | "waiting"} Shape */
/** @typedef {{ shape: Shape, word: string, detail: string }} Mark */

export const STATUSES = /** @type {const} */ (["STARTED", "FINISHED", "ERRORED", "ABORTED"]);

/** `SHUTTING_DOWN` → `Shutting down`. @param {string} s */
export const word = (s) => s.charAt(0).toUpperCase() + s.slice(1).toLowerCase().replaceAll("_", " ");

/** Does the run still go on? @param {TrainRun} run */
export const isLive = (run) => run.run_status === "STARTED";

/** @param {TrainRun} run @returns {Mark} */
export function mark(run) {
  if (!isLive(run)) {
    const shape = /** @type {Shape} */ (run.run_status.toLowerCase());
    return { shape, word: word(run.run_status), detail: "" };
  }
  const stalled = run.evidence?.progress.stalled === true;
  return { shape: stalled ? "stalled" : "started", word: "Started", detail: liveDetail(run, stalled) };
}

/** @param {TrainRun} run @param {boolean} stalled */
function liveDetail(run, stalled) {
  if (run.stop_requested_at_ms !== null) return "stopping";
  if (stalled) return "stalled";
  const state = (run.controller_state ?? run.phase).toLowerCase().replaceAll("_", " ");
  const attempt = currentAttempt(run);
  return attempt > 0 ? `${state}, attempt ${attempt}` : state;
}

/**
 * Attempts are named by their ordinal, from 0, as in the API and in log paths. While one is
 * being replaced, the one to come is the news.
 * @param {TrainRun} run
 */
function currentAttempt(run) {
  const replacing = run.phase === "RESTARTING" || run.phase === "RESIZING";
  return replacing ? run.num_attempts : Math.max(0, run.num_attempts - 1);
}

/** @param {Worker[] | undefined} workers */
export function aliveOf(workers) {
  const all = workers ?? [];
  return { alive: all.filter((w) => w.status === "ALIVE").length, total: all.length };
}

/** How a worker ended: signals by name, codes as numbers. @param {Pick<Exit, "code" | "signal">} exit */
export function exitText(exit) {
  if (exit.signal) return exit.signal;
  return exit.code === null ? "unknown" : `code ${exit.code}`;
}

/** @param {TrainRun} run */
export function failures(run) {
  return run.num_failures.worker + run.num_failures.controller;
}

/**
 * What is happening and why, in one sentence.
 * @param {TrainRun} run @param {number} now @param {number | null} stepRate steps a second, if known
 */
export function why(run, now, stepRate) {
  return isLive(run) ? whyLive(run, now, stepRate) : whyEnded(run);
}

/** @param {TrainRun} run */
function whyEnded(run) {
  if (run.status_detail) return sentence(run.status_detail);
  const took = run.duration_ms === null ? "" : ` after ${duration(run.duration_ms)}`;
  if (run.run_status === "FINISHED") {
    const n = run.workers?.length ?? 0;
    return n > 0 ? `Finished${took}: ${count(n, "worker")} done.` : `Finished${took}.`;
  }
  const by = run.ended_by ? `, recorded by the ${run.ended_by}` : "";
  return `${word(run.run_status)}${took}${by}; no reason was given.`;
}

/** @param {TrainRun} run @param {number} now @param {number | null} stepRate */
function whyLive(run, now, stepRate) {
  const progress = run.evidence?.progress;
  if (run.stop_requested_at_ms !== null) {
    return `Stopping: asked ${duration(now - run.stop_requested_at_ms)} ago, waiting for the controller to end its workers.`;
  }
  if (progress?.stalled) {
    const since = progress.stalled_since_ms ?? progress.last_report_ms;
    const usual = progress.median_step_interval_ms;
    const every = usual ? `, where a step usually takes ${interval(usual)}` : "";
    const at = progress.last_step === null ? "" : ` after step ${integer(progress.last_step)}`;
    return `Stalled: no report${since === null ? "" : ` for ${duration(now - since)}`}${at}${every}.`;
  }
  if (run.status_detail) return sentence(`${word(run.controller_state ?? run.phase)}: ${run.status_detail}`);
  if (run.phase === "RUNNING") return whyRunning(run, stepRate);
  if (run.phase === "INITIALIZING") return "Registered: the controller is getting ready.";
  if (run.phase === "SCHEDULING")
    return `Waiting for the workers of attempt ${currentAttempt(run)} to be placed.`;
  return `${word(run.phase)}: attempt ${currentAttempt(run)} is being prepared.`;
}

/** @param {TrainRun} run @param {number | null} stepRate */
function whyRunning(run, stepRate) {
  const { alive, total } = aliveOf(run.workers);
  const step = run.evidence?.progress.last_step ?? null;
  const facts = [
    total > 0 ? `${alive} of ${count(total, "worker")} alive` : "no workers named yet",
    step === null ? "no step reported yet" : `at step ${integer(step)}`,
  ];
  const speed = rateText(stepRate);
  if (speed) facts.push(speed);
  return `Running: ${facts.join(", ")}.`;
}

/** The head's details start in lower case and may lack a full stop. @param {string} text */
function sentence(text) {
  const line = text.trim().split("\n", 1)[0];
  const first = line.charAt(0).toUpperCase() + line.slice(1);
  return /[.…?)\]]$/.test(first) ? first : `${first}.`;
}
