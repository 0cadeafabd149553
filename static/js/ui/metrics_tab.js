// The Metrics tab: search, smoothing and x-axis for all charts at once, and the charts in groups.
// A chart loads when it comes into view and is taken down when it leaves.
/** @import { XAxis } from "../model/view.js" */
/** @import { RunView } from "../model/view.js" */
/** @import { RunState } from "../state/run.js" */
/** @import { Lost } from "../types.js" */

import { useEffect, useState } from "preact/hooks";
import { count, integer, length } from "../model/format.js";
import { group, search } from "../model/metric_keys.js";
import { openMetrics } from "../state/metrics.js";
import { adjust } from "../state/route.js";
import { Chart } from "./chart.js";
import { useOpened, useSight } from "./hooks.js";
import { html } from "./html.js";

/** @param {{ view: RunView, run: RunState }} props */
export function MetricsTab({ view, run }) {
  const metrics = useOpened(() => openMetrics(run.id, run.num_attempts), [run.id]);
  const keys = metrics.keys.value;
  const lost = metrics.lost.value;
  const found = keys && search(keys, view.q);
  return html`<div class="toolbar">
      <input
        type="search"
        class="search"
        placeholder="Search metrics"
        aria-label="Search metrics"
        aria-keyshortcuts="/"
        spellcheck=${false}
        autocomplete="off"
        value=${view.q}
        onInput=${(/** @type {any} */ e) => adjust({ ...view, q: e.target.value })}
      />
      <${Smoothing} view=${view} />
      <${Axis} view=${view} />
      <span class="grow"></span>
      ${lost && lost.steps > 0 && html`<span class="quiet" data-lost title="Attempts began again at an earlier step; the curves show the newest attempt that reached each step.">${lostText(lost)}</span>`}
      <span class="quiet">${found && (found.length === keys.length ? count(keys.length, "metric") : `${integer(found.length)} of ${count(keys.length, "metric")}`)}</span>
    </div>
    ${metrics.error.value && html`<p class="problem" role="alert">${metrics.error.value}</p>`}
    ${keys?.length === 0 && html`<p class="quiet tab-note">No metric has been reported yet. Charts appear here with the first report.</p>`}
    ${found && keys.length > 0 && found.length === 0 && html`<p class="quiet tab-note">No metric matches.</p>`}
    ${
      found &&
      html`<div class=${`chart-groups ${largest(found) === 2 ? "is-pairs" : ""}`}>${group(found).map(
        ({
          prefix,
          keys: members,
        }) => html`<section class="chart-group" key=${prefix} style=${{ "--n": members.length }}>
        <h2>${prefix || "Without a group"} <span class="quiet num">${members.length}</span></h2>
        <div class="charts">
          ${members.map((key) => html`<${Slot} key=${key} name=${key} metrics=${metrics} view=${view} run=${run} />`)}
        </div>
      </section>`,
      )}</div>`
    }`;
}

/** @param {Lost} lost */
const lostText = ({ steps, ms }) => `${count(steps, "step")}, ${length(ms)} lost to restarts`;

/** How many charts the largest group has. @param {string[]} keys */
const largest = (keys) => Math.max(...group(keys).map((g) => g.keys.length));

/** @param {{ view: RunView }} props */
function Smoothing({ view }) {
  return html`<label class="smoothing">
    Smoothing
    <input type="range" min="0" max="0.99" step="0.01" value=${view.smooth} onInput=${(/** @type {any} */ e) => adjust({ ...view, smooth: Number(e.target.value) })} />
    <output class="num">${view.smooth.toFixed(2)}</output>
  </label>`;
}

/** @type {[XAxis, string][]} */
const AXES = [
  ["step", "Step"],
  ["time", "Time"],
];

/** @param {{ view: RunView }} props */
function Axis({ view }) {
  return html`<div class="chips" role="group" aria-label="X-axis">
    ${AXES.map(([x, name]) => html`<button class="chip" key=${x} aria-pressed=${view.x === x} onClick=${() => adjust({ ...view, x })}>${name}</button>`)}
  </div>`;
}

/** The place of a chart: keeps its height whether the chart is there or not. @param {{ name: string, metrics: ReturnType<typeof openMetrics>, view: RunView, run: RunState }} props */
function Slot({ name, metrics, view, run }) {
  const [visible, setVisible] = useState(false);
  const ref = useSight(setVisible);
  useEffect(() => {
    if (!visible) return undefined;
    metrics.show(name);
    return () => metrics.hide(name);
  }, [visible, metrics]);
  return html`<div class="chart-slot" ref=${ref} data-metric=${name}>
    ${visible && html`<${Chart} name=${name} series=${metrics.seriesOf(name)} extent=${metrics.extent} view=${view} run=${run} />`}
  </div>`;
}
