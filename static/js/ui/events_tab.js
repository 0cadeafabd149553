// The Events tab: the trail of the run, oldest first: what changed, by whom, why, on what evidence.
/** @import { RunView } from "../model/view.js" */
/** @import { TrailEvent } from "../types.js" */

import { Component } from "preact";
import { clock, day, exact, integer, interval, NOTHING } from "../model/format.js";
import { word } from "../model/status.js";
import { plain } from "../model/text.js";
import { flatten } from "../model/tree.js";
import { adjust } from "../state/route.js";
import { openTrail } from "../state/trail.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { OnSight } from "./on_sight.js";
import { Segmented } from "./segmented.js";

/** Kinds of events, as the head names them. */
const KINDS = ["run", "attempt", "worker", "checkpoint", "stop", "controller", "annotation", "trash"];

/** @param {{ view: RunView, start: number }} props */
export function EventsTab({ view, start }) {
  const opened = useOpened(() => openTrail(view.id), [view.id]);
  const { events, token, loaded } = opened.trail.value;
  const there = KINDS.filter((kind) => kind === view.q || events.some((e) => e.kind === kind));
  const kind = there.includes(view.q) ? view.q : "";
  const shown = kind ? events.filter((e) => e.kind === kind) : events;
  return html`${opened.error.value && html`<p class="problem" role="alert">${opened.error.value}</p>`}
    <div class="toolbar">
      <div class="scroll-x"><${Segmented} label="Kind" value=${kind} options=${[["", "All"], ...there.map((k) => [k, word(k)])]} onChoose=${(/** @type {string} */ q) => adjust({ ...view, q })} /></div>
      <span class="quiet num">${integer(shown.length)}${token ? "+" : ""}</span>
    </div>
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
          ${shown.map((e) => html`<${Entry} key=${e.id} event=${e} start=${start} />`)}
        </tbody>
      </table>
    </div>
    <p class="more">
      ${!opened.error.value && (loaded ? (token ? "Loading more…" : "") : "Loading…")}
      ${token && html`<${OnSight} key=${token} load=${opened.loadMore} />`}
    </p>`;
}

/** An event never changes, and a trail may have thousands. @extends {Component<{ event: TrailEvent, start: number }>} */
class Entry extends Component {
  /** @param {{ event: TrailEvent, start: number }} next */
  shouldComponentUpdate(next) {
    return next.event !== this.props.event || next.start !== this.props.start;
  }
  render() {
    return html`<${Cells} ...${this.props} />`;
  }
}

/** @param {{ event: TrailEvent, start: number }} props */
function Cells({ event, start }) {
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
    <td class="e-why" title=${evidence}><div><bdi>${event.reason === null ? NOTHING : plain(event.reason)}</bdi></div></td>
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
