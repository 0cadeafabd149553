// Attempts as bars on one time axis, why each ended, and what the restart after it threw away. Pure
// geometry in fractions of the axis, and words; drawing is elsewhere.
/** @import { Attempt, Lost } from "../types.js" */

import { count, duration, integer } from "./format.js";
import { word } from "./status.js";
import { plain } from "./text.js";

/** `lost`: the part at the end of the bar that was thrown away. @typedef {{ attempt: Attempt, left: number, width: number, lost: number, duration_ms: number }} Bar */

/** @param {Attempt[]} attempts @param {number} start @param {number} end @param {Lost | null} [lost] @returns {Bar[]} */
export function bars(attempts, start, end, lost = null) {
  const span = Math.max(1, end - start);
  const lostMs = new Map(lost?.attempts.map((a) => [a.attempt, a.ms]));
  return attempts.map((attempt) => {
    const until = Math.max(attempt.start_time_ms, attempt.end_time_ms ?? end);
    const left = clamp((attempt.start_time_ms - start) / span);
    const width = Math.max(0, clamp((until - start) / span) - left);
    const thrownAway = Math.min(width, (lostMs.get(attempt.ordinal) ?? 0) / span);
    return { attempt, left, width, lost: thrownAway, duration_ms: until - attempt.start_time_ms };
  });
}

/** @param {number} f */
const clamp = (f) => Math.min(1, Math.max(0, f));

/** Why an attempt ended: in the head's words, else by its kind. @param {Attempt} attempt */
export function reason(attempt) {
  if (attempt.status_detail) return plain(attempt.status_detail);
  return attempt.end_reason ? word(attempt.end_reason) : "";
}

/** What became of an attempt's processes, if its controller said so. @param {Attempt} attempt */
export function ended(attempt) {
  const report = attempt.stop_report;
  if (!report) return "";
  const n = report.processes_ended.length;
  const gone = n === 0 ? "nothing was left" : `${n} ${n === 1 ? "process" : "processes"} ended`;
  const how = report.forced ? " by force" : "";
  const left = report.left.length > 0 ? `; ${report.left.join(", ")} could not be ended` : "";
  return `${gone}${how}${left}`;
}

/** The kind of an end, where the head's words stand in its place. @param {Attempt} attempt */
export function kind(attempt) {
  const named = attempt.end_reason && attempt.end_reason !== "completed" && attempt.status_detail;
  return named ? word(String(attempt.end_reason)) : "";
}

/** `4 → 2`, if the number of workers is another one than before. @param {Attempt} attempt @param {Attempt | undefined} before */
export function workers(attempt, before) {
  const n = attempt.workers.length;
  if (n === 0) return "";
  const was = before?.workers.length ?? n;
  return was > 0 && was !== n ? `${integer(was)} → ${integer(n)}` : integer(n);
}

/** What the restart after an attempt threw away. @param {Lost | null} lost @param {number} ordinal */
export function lostBy(lost, ordinal) {
  const of = lost?.attempts.find((a) => a.attempt === ordinal);
  return of && of.steps > 0 ? thrownAway(of) : "";
}

/** @param {{ steps: number, ms: number }} lost */
function thrownAway({ steps, ms }) {
  return `${count(steps, "step")} lost${ms >= 1000 ? `, ${duration(ms)} of work` : ""}`;
}

const KINDS = /** @type {const} */ ([
  [["worker_failed", "start_failed", "hung", "callback_failed", "controller_lost"], "failure"],
  [["preempted"], "preemption"],
  [["resized"], "resize"],
]);

/** All attempts in one sentence: `4 attempts: 2 failures, 1 resize; 320 steps were lost, 12 min of work.` @param {Attempt[]} attempts @param {Lost | null} lost */
export function summary(attempts, lost) {
  if (attempts.length < 2) return "";
  const said = KINDS.map(([reasons, noun]) => {
    const n = attempts.filter((a) => reasons.some((r) => r === a.end_reason)).length;
    return n > 0 ? count(n, noun) : "";
  }).filter(Boolean);
  const gone = lost && lost.steps > 0 ? `; ${thrownAway(lost)}` : "";
  return `${count(attempts.length, "attempt")}${said.length > 0 ? `: ${said.join(", ")}` : ""}${gone}.`;
}
