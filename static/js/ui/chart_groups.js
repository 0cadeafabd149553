// Charts in groups by the prefix of their keys. Groups fold; each chart has its place, with its height,
// before it is there; and of very many charts only the places near the window are made at all.
/** @import { Group } from "../model/chart_groups.js" */

import { useState } from "preact/hooks";
import { blocks, openGroups, toggled } from "../model/chart_groups.js";
import { integer } from "../model/format.js";
import { useSight } from "./hooks.js";
import { html } from "./html.js";

/** Groups whose titles are made at a time. */
const TITLES = 200;

/** @param {{ groups: Group[], closed: string[], onClosed: (closed: string[]) => void, draw: (name: string) => any }} props */
export function ChartGroups({ groups, closed, onClosed, draw }) {
  const [room, setRoom] = useState(TITLES);
  const open = openGroups(groups, closed);
  const largest = Math.max(...groups.map((g) => g.keys.length));
  return html`<div class=${`chart-groups ${largest === 2 ? "is-pairs" : ""}`}>
      ${groups
        .slice(0, room)
        .map(
          ({ prefix, keys }) =>
            html`<${Section} key=${prefix} prefix=${prefix} keys=${keys} isOpen=${open.has(prefix)} onToggle=${() => onClosed(toggled(closed, prefix, open.has(prefix)))} draw=${draw} />`,
        )}
    </div>
    ${groups.length > room && html`<${More} key=${room} more=${() => setRoom(room + TITLES)} />`}`;
}

/** @param {{ more: () => void }} props */
function More({ more }) {
  const ref = useSight((visible) => visible && more());
  return html`<p class="quiet tab-note" ref=${ref}>More groups follow.</p>`;
}

/** @param {Group & { isOpen: boolean, onToggle: () => void, draw: (name: string) => any }} props */
function Section({ prefix, keys, isOpen, onToggle, draw }) {
  return html`<section class=${`chart-group ${isOpen ? "" : "is-closed"}`} style=${{ "--n": keys.length }}>
    <h2>
      <button aria-expanded=${isOpen} onClick=${onToggle}>
        <svg class="shape" viewBox="0 0 16 16" aria-hidden="true"><path d="M6 4l4 4-4 4" /></svg>
        <bdi>${prefix || "Without a group"}</bdi> <span class="quiet num">${integer(keys.length)}</span>
      </button>
    </h2>
    ${isOpen && html`<div class="chart-blocks">${blocks(keys).map((some) => html`<${Block} key=${some[0]} keys=${some} isOne=${keys.length === some.length} draw=${draw} />`)}</div>`}
  </section>`;
}

/** Places of charts that come and go together; of a group of few they always are there. @param {{ keys: string[], isOne: boolean, draw: (name: string) => any }} props */
function Block({ keys, isOne, draw }) {
  const [near, setNear] = useState(false);
  const ref = useSight(setNear);
  return html`<div class="charts" ref=${ref} style=${{ "--b": keys.length }}>
    ${(isOne || near) && keys.map((key) => html`<${Slot} key=${key} name=${key} draw=${draw} />`)}
  </div>`;
}

/** The place of a chart: keeps its height whether the chart is there or not. @param {{ name: string, draw: (name: string) => any }} props */
function Slot({ name, draw }) {
  const [visible, setVisible] = useState(false);
  const ref = useSight(setVisible);
  return html`<div class="chart-slot" ref=${ref} data-metric=${name}>${visible && draw(name)}</div>`;
}
