// Attempts as a table with a bar each, on one time axis from the start of the run. What a restart threw
// away is the pale end of the bar before it.
/** @import { Attempt, Lost } from "../types.js" */
/** @import { Shape } from "../model/status.js" */
/** @import { RunState } from "../state/run.js" */

import { useEffect, useState } from "preact/hooks";
import { duration, exact, integer, NOTHING } from "../model/format.js";
import { word } from "../model/status.js";
import { bars, ended, kind, lostBy, reason, summary, workers } from "../model/timeline.js";
import { listMetrics } from "../server/series.js";
import { now } from "../state/clock.js";
import { html } from "./html.js";
import { Mark } from "./status.js";

/** The newest ones; a run that restarts all night has hundreds. */
const SHOWN = 40;

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
  const lost = useLost(run);
  const [all, setAll] = useState(false);
  if (run.attempts.length === 0) {
    return html`<p class="quiet">No attempt yet: no workers have been asked for.</p>`;
  }
  const end = run.end_time_ms ?? now.value;
  const rows = bars(run.attempts, run.start_time_ms, end, lost);
  const hidden = all ? 0 : Math.max(0, rows.length - SHOWN);
  const said = summary(run.attempts, lost);
  return html`${said && html`<p class="attempts-summary">${said}</p>`}
    ${hidden > 0 && html`<button class="button" onClick=${() => setAll(true)}>Show the ${integer(hidden)} before, too</button>`}
    <div class="scroll-x">
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
          ${rows.slice(hidden).map(
            (
              { attempt, left, width, lost: thrownAway, duration_ms },
              i,
            ) => html`<tr key=${attempt.attempt_id}>
              <td class="num">${attempt.ordinal}</td>
              <td><${Mark} shape=${SHAPES[attempt.status]} word=${word(attempt.status)} /></td>
              <td class="a-workers num" title=${attempt.master_address ? `rank 0 is at ${attempt.master_address}` : ""}>${workers(attempt, rows[hidden + i - 1]?.attempt) || NOTHING}</td>
              <td class="num">${duration(duration_ms)}</td>
              <td class="a-bar" title=${[span(attempt), lostBy(lost, attempt.ordinal)].filter(Boolean).join("\n")}>
                <div class=${`bar-fill is-${SHAPES[attempt.status]}`} style=${{ left: `min(${percent(left)}, 100% - 3px)`, width: percent(width) }}></div>
                ${thrownAway > 0 && html`<div class="bar-lost" style=${{ left: percent(left + width - thrownAway), width: percent(thrownAway) }}></div>`}
              </td>
              <${Why} attempt=${attempt} lost=${lost} />
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`;
}

/** @param {{ attempt: Attempt, lost: Lost | null }} props */
function Why({ attempt, lost }) {
  const why = reason(attempt);
  const more = [kind(attempt), lostBy(lost, attempt.ordinal), ended(attempt)].filter(Boolean).join(" · ");
  return html`<td class="a-reason" title=${why}><bdi>${why}</bdi>${more && html`<div class="quiet">${more}</div>`}</td>`;
}

/** What restarts threw away; nothing is known of it until it is here, and nothing said. @param {RunState} run */
function useLost(run) {
  const [lost, setLost] = useState(/** @type {Lost | null} */ (null));
  const newest = run.attempts[run.attempts.length - 1];
  const restarted = run.attempts.length > 1;
  // Only what the new attempt reports tells how far back it went on from.
  const reported = (run.evidence.progress.last_report_ms ?? 0) > (newest?.start_time_ms ?? Infinity);
  useEffect(() => {
    if (!restarted) return undefined;
    const closing = new AbortController();
    listMetrics(run.id, closing.signal).then(
      (answer) => setLost(answer.lost.attempts ? answer.lost : null),
      () => {},
    );
    return () => closing.abort();
  }, [run.id, run.attempts.length, run.run_status, restarted, reported]);
  return lost;
}

/** @param {number} f */
const percent = (f) => `${(f * 100).toFixed(2)}%`;

/** @param {Attempt} a */
const span = (a) => `${exact(a.start_time_ms)} to ${a.end_time_ms === null ? "now" : exact(a.end_time_ms)}`;
