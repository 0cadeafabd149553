// What a run's record says, in words: its status mark, and why in one sentence.
// Pure. It never guesses: where nothing is known it says what is recorded and no more.
/** @import { Exit, TrainRun, Worker } from "../types.js" */

import { count, duration, integer, interval, stepRate } from "./format.js";
import { firstLine } from "./text.js";

/** @typedef {"started" | "stalled" | "finished" | "errored" | "aborted" | "waiting"} Shape */
/** @typedef {{ shape: Shape, word: string, detail: string }} Mark */

export const STATUSES = /** @type {const} */ (["STARTED", "FINISHED", "ERRORED", "ABORTED"]);

/** `SHUTTING_DOWN` → `Shutting down`. @param {string} s */
export const word = (s) => s.charAt(0).toUpperCase() + s.slice(1).toLowerCase().replaceAll("_", " ");

/** Does the run still go on? @param {TrainRun} run */
export const isLive = (run) => run.run_status === "STARTED";

/** Controller states in which the run is still going on and no step is to be expected. */
const DRAINS = ["PREEMPTING", "SHUTTING_DOWN"];

/** Do its workers train? @param {TrainRun} run */
export const isTraining = (run) => run.phase === "RUNNING" && !DRAINS.includes(run.controller_state ?? "");

/** Only what trains can stand still. @param {TrainRun} run */
const isStalled = (run) => isTraining(run) && run.evidence?.progress.stalled === true;

/** @param {TrainRun} run @returns {Mark} */
export function mark(run) {
  if (!isLive(run)) {
    const shape = /** @type {Shape} */ (run.run_status.toLowerCase());
    return { shape, word: word(run.run_status), detail: "" };
  }
  const stalled = isStalled(run);
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

/** `ranks 0–2, 4 ended with SIGTERM; rank 7 ended with code 1`. @param {{ rank: number, exit_code: number | null, signal: string | null }[]} ends */
export function endings(ends) {
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  for (const { rank, exit_code: code, signal } of ends.toSorted((a, b) => a.rank - b.rank)) {
    const how = exitText({ code, signal });
    groups.set(how, [...(groups.get(how) ?? []), rank]);
  }
  return [...groups]
    .map(([how, ranks]) => `rank${ranks.length > 1 ? "s" : ""} ${ranges(ranks)} ended with ${how}`)
    .join("; ");
}

/** `0–2, 4`. @param {number[]} sorted */
export function ranges(sorted) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const n of sorted) {
    const last = runs[runs.length - 1];
    if (last && n === last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  return runs.map(([a, b]) => (a === b ? `${a}` : `${a}${b === a + 1 ? ", " : "–"}${b}`)).join(", ");
}

/**
 * How a worker stands: alive, or how it ended. One that others took down with them, or that was
 * asked to stop, did not fail.
 * @param {Worker} worker @param {{ taken: boolean }} why `taken`: its end was a consequence
 * @returns {{ shape: Shape | "alive", word: string }}
 */
export function workerMark(worker, { taken }) {
  if (worker.status === "ALIVE") return { shape: "alive", word: "Alive" };
  if (!worker.exit || (worker.exit.code === null && !worker.exit.signal))
    return { shape: "aborted", word: "Lost" };
  if (worker.exit.code === 0) return { shape: "finished", word: "Done" };
  return taken ? { shape: "aborted", word: "Stopped" } : { shape: "errored", word: "Failed" };
}

/** @param {TrainRun} run */
export function failures(run) {
  return run.num_failures.worker + run.num_failures.controller;
}

/**
 * What is happening and why, in one sentence.
 * @param {TrainRun} run @param {number} now @param {number | null} speed steps a second, if known
 */
export function why(run, now, speed) {
  return isLive(run) ? whyLive(run, now, speed) : whyEnded(run);
}

/** Why an ended run did not finish, for the list: the head's own words. @param {TrainRun} run */
export function reasonOf(run) {
  return run.run_status === "FINISHED" || !run.status_detail ? "" : firstLine(run.status_detail);
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

/** @param {TrainRun} run @param {number} now @param {number | null} speed */
function whyLive(run, now, speed) {
  const progress = run.evidence?.progress;
  if (run.stop_requested_at_ms !== null) {
    return `Stopping: asked ${duration(now - run.stop_requested_at_ms)} ago, waiting for the controller to end its workers.`;
  }
  if (progress && isStalled(run)) {
    const since = progress.stalled_since_ms;
    const usual = progress.median_step_interval_ms;
    const every = usual ? `, where a step usually takes ${interval(usual)}` : "";
    const at = progress.last_step === null ? "" : ` after step ${integer(progress.last_step)}`;
    return `Stalled: no step${since === null ? "" : ` for ${duration(now - since)}`}${at}${every}.`;
  }
  if (run.status_detail) return sentence(`${word(run.controller_state ?? run.phase)}: ${run.status_detail}`);
  if (run.phase === "RUNNING") return whyRunning(run, speed);
  if (run.phase === "INITIALIZING") return "Registered: the controller is getting ready.";
  if (run.phase === "SCHEDULING")
    return `Waiting for the workers of attempt ${currentAttempt(run)} to be placed.`;
  return `${word(run.phase)}: attempt ${currentAttempt(run)} is being prepared.`;
}

/** @param {TrainRun} run @param {number | null} speed */
function whyRunning(run, speed) {
  const { alive, total } = aliveOf(run.workers);
  const step = run.evidence?.progress.last_step ?? null;
  const facts = [
    total > 0 ? `${alive} of ${count(total, "worker")} alive` : "no workers named yet",
    step === null ? "no step reported yet" : `at step ${integer(step)}`,
  ];
  const fast = stepRate(speed);
  if (fast) facts.push(fast);
  return `Running: ${facts.join(", ")}.`;
}

/** The head's details start in lower case and may lack a full stop. @param {string} text */
export function sentence(text) {
  const line = firstLine(text);
  const first = line.charAt(0).toUpperCase() + line.slice(1);
  return /[.…?!:]$/.test(first) ? first : `${first}.`;
}
