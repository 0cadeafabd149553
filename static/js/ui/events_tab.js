// The Events tab: the trail of the run, oldest first: what changed, by whom, why, on what evidence.
/** @import { TrailEvent } from "../types.js" */

import { clock, day, exact, interval, NOTHING } from "../model/format.js";
import { plain } from "../model/text.js";
import { flatten } from "../model/tree.js";
import { openTrail } from "../state/trail.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { OnSight } from "./on_sight.js";

/** @param {{ id: string, start: number }} props */
export function EventsTab({ id, start }) {
  const opened = useOpened(() => openTrail(id), [id]);
  const { events, token, loaded } = opened.trail.value;
  return html`${opened.error.value && html`<p class="problem" role="alert">${opened.error.value}</p>`}
    <div class="scroll-x">
      <table class="grid events">
        <thead>
          <tr>
            <th class="e-time">Time</th>
            <th class="num">After start</th>
            <th>What</th>
            <th>Change</th>
            <th>By</th>
            <th class="e-why">Why</th>
          </tr>
        </thead>
        <tbody>
          ${events.map((e) => html`<${Entry} key=${e.id} event=${e} start=${start} />`)}
        </tbody>
      </table>
    </div>
    <p class="more">
      ${loaded ? (token ? "Loading more…" : "") : "Loading…"}
      ${token && html`<${OnSight} key=${token} load=${opened.loadMore} />`}
    </p>`;
}

/** @param {{ event: TrailEvent, start: number }} props */
function Entry({ event, start }) {
  const evidence = event.evidence
    ? flatten(event.evidence)
        .map(([k, v]) => `${k}: ${v}`)
        .join("\n")
    : "";
  return html`<tr>
    <td class="e-time num" title=${exact(event.time_ms)}>${day(event.time_ms)} ${clock(event.time_ms)}</td>
    <td class="quiet num">${interval(event.time_ms - start)}</td>
    <td>${subject(event)}</td>
    <td class="mono">${change(event)}</td>
    <td>${event.by}</td>
    <td class="e-why" title=${evidence}>${event.reason === null ? NOTHING : plain(event.reason)}</td>
  </tr>`;
}

/** The kind of thing and which one it was. @param {TrailEvent} event */
function subject({ kind, attempt, rank }) {
  const parts = [
    kind !== "attempt" && kind !== "worker" && kind,
    rank !== null && `rank ${rank}`,
    attempt !== null && `attempt ${attempt}`,
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : kind;
}

/** @param {TrailEvent} event */
function change({ from, to }) {
  if (from && to) return `${from} → ${to}`;
  return to ?? from ?? NOTHING;
}
