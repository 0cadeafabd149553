// Attempts as bars on one time axis, and what each restart threw away. Pure geometry in
// fractions of the axis; drawing is elsewhere.
/** @import { Attempt } from "../types.js" */

import { word } from "./status.js";
import { plain } from "./text.js";

/** @typedef {{ attempt: Attempt, left: number, width: number, duration_ms: number }} Bar */

/** @param {Attempt[]} attempts @param {number} start @param {number} end @returns {Bar[]} */
export function bars(attempts, start, end) {
  const span = Math.max(1, end - start);
  return attempts.map((attempt) => {
    const until = Math.max(attempt.start_time_ms, attempt.end_time_ms ?? end);
    const left = clamp((attempt.start_time_ms - start) / span);
    const right = clamp((until - start) / span);
    return { attempt, left, width: Math.max(0, right - left), duration_ms: until - attempt.start_time_ms };
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
