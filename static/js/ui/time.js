// Times that stay true while the page is open. Only these small components are drawn again each
// second, never the tables around them.
/** @import { TrainRun } from "../types.js" */

import { ago, duration, exact } from "../model/format.js";
import { now } from "../state/clock.js";
import { html } from "./html.js";

/** @param {{ at: number | null }} props */
export function Ago({ at }) {
  return html`<time title=${exact(at)}>${ago(at, now.value)}</time>`;
}

/** As `Ago`, with two units: where it is the only duration that is shown. @param {{ at: number }} props */
export function LongAgo({ at }) {
  return html`<time title=${exact(at)}>${duration(now.value - at)} ago</time>`;
}

/** @param {{ run: TrainRun }} props */
export function RunDuration({ run }) {
  const ms = run.duration_ms ?? (run.end_time_ms ?? now.value) - run.start_time_ms;
  const title = run.end_time_ms === null ? "so far" : `until ${exact(run.end_time_ms)}`;
  return html`<span title=${title}>${duration(ms)}</span>`;
}
