// Attempts as a table with a bar each, on one time axis from the start of the run.
/** @import { Attempt } from "../types.js" */
/** @import { Shape } from "../model/status.js" */
/** @import { RunState } from "../state/run.js" */

import { duration, exact, integer, NOTHING } from "../model/format.js";
import { word } from "../model/status.js";
import { bars, ended, reason } from "../model/timeline.js";
import { now } from "../state/clock.js";
import { html } from "./html.js";
import { Mark } from "./status.js";

/** @type {Record<Attempt["status"], Shape>} */
const SHAPES = {
  PENDING: "waiting",
  RUNNING: "started",
  FINISHED: "finished",
  ERRORED: "errored",
  ABORTED: "aborted",
};

/** @param {{ run: RunState }} props */
export function Attempts({ run }) {
  if (run.attempts.length === 0) {
    return html`<p class="quiet">No attempt yet: no workers have been asked for.</p>`;
  }
  const end = run.end_time_ms ?? now.value;
  return html`<div class="scroll-x">
    <table class="attempts">
      <thead>
        <tr>
          <th class="num">Attempt</th>
          <th class="a-status">Status</th>
          <th class="a-workers num">Workers</th>
          <th class="a-duration num">Duration</th>
          <th class="a-bar">${duration(end - run.start_time_ms)} from the start of the run</th>
          <th>Why it ended</th>
        </tr>
      </thead>
      <tbody>
        ${bars(run.attempts, run.start_time_ms, end).map(
          ({ attempt, left, width, duration_ms }) => html`<tr key=${attempt.attempt_id}>
            <td class="num">${attempt.ordinal}</td>
            <td><${Mark} shape=${SHAPES[attempt.status]} word=${word(attempt.status)} /></td>
            <td class="a-workers num" title=${attempt.master_address ? `rank 0 is at ${attempt.master_address}` : ""}>${attempt.workers.length > 0 ? integer(attempt.workers.length) : NOTHING}</td>
            <td class="num">${duration(duration_ms)}</td>
            <td class="a-bar" title=${span(attempt)}>
              <div class=${`bar-fill is-${SHAPES[attempt.status]}`} style=${{ left: percent(left), width: percent(width) }}></div>
            </td>
            <td class="a-reason" title=${reason(attempt)}>
              ${reason(attempt)}${ended(attempt) && html`<div class="quiet">${ended(attempt)}</div>`}
            </td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** @param {number} f */
const percent = (f) => `${(f * 100).toFixed(2)}%`;

/** @param {Attempt} a */
const span = (a) => `${exact(a.start_time_ms)} to ${a.end_time_ms === null ? "now" : exact(a.end_time_ms)}`;
