// The Sweep tab of Compare: which setting made which difference. Chooses what is set against what, says
// whose value is not known, and gives both charts the same runs and the same highlight.
/** @import { Style } from "../model/color.js" */
/** @import { CompareView } from "../model/view.js" */
/** @import { FullRun } from "../types.js" */
/** @import { Brushes } from "../model/parallel.js" */
/** @import { Dimension } from "../model/sweep.js" */

import { useEffect, useMemo, useState } from "preact/hooks";
import { count } from "../model/format.js";
import { areCut } from "../model/metric_keys.js";
import {
  defaultAcross,
  defaultScore,
  differingSettings,
  METRIC,
  metricKeys,
  metricOf,
  settingOf,
} from "../model/sweep.js";
import { plain } from "../model/text.js";
import { adjust } from "../state/route.js";
import { openSummaries } from "../state/summaries.js";
import { Parallel } from "./compare_parallel.js";
import { Scatter } from "./compare_scatter.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { Segmented } from "./segmented.js";

const TAKEN = /** @type {const} */ ([
  ["last", "Last"],
  ["min", "Least"],
  ["max", "Greatest"],
]);
/** Which run, and in which chart and where the pointer is: it is named there. @typedef {{ id: string, chart: "scatter" | "parallel", x: number }} Hovered */

const WORDS = { last: "", min: "least ", max: "greatest " };

/** @param {{ view: CompareView, runs: FullRun[], styles: Map<string, Style> }} props */
export function CompareSweep({ view, runs, styles }) {
  const opened = useOpened(openSummaries, []);
  const summaries = opened.summaries.value;
  const settings = useMemo(() => differingSettings(runs), [runs]);
  const keys = metricKeys(runs, summaries);
  const score = view.score || defaultScore(keys);
  const across = view.across || defaultAcross(settings, keys, score);
  const [hovered, hover] = useState(/** @type {Hovered | null} */ (null));

  const ofMetric = (/** @type {string} */ key) => runs.map((run) => metricOf(run, key, view.take, summaries));
  const scores = ofMetric(score);
  const metric = across.startsWith(METRIC) ? across.slice(METRIC.length) : null;
  const xs = metric === null ? settingOf(runs, across) : ofMetric(metric);
  const unknown = runs.filter((_, i) => scores[i] === undefined || xs[i] === undefined).map((r) => r.id);
  // Of many keys a run shows some. Those that are compared are likely to have the same.
  const cut = runs.find((run) => areCut(run.last_metrics))?.id;
  useEffect(() => opened.want(cut ? [...unknown, cut] : unknown), [unknown.join(","), cut]);

  const brushes = useMemo(() => new Map(view.brush), [JSON.stringify(view.brush)]);
  const points = runs.map((run, i) => ({ run, x: xs[i] ?? null, y: scores[i] ?? null }));
  const scoreName = WORDS[view.take] + score;
  const acrossName = metric === null ? across : WORDS[view.take] + metric;
  if (runs.length < 2) return html`<p class="quiet tab-note">A sweep needs more than one run.</p>`;
  return html`<div class="compare-bar">
      <${Choice} label="Across" value=${across} settings=${settings} keys=${keys} onChoose=${(/** @type {string} */ v) => adjust({ ...view, across: v })} />
      <${Choice} label="Score" value=${METRIC + score} settings=${[]} keys=${keys} onChoose=${(/** @type {string} */ v) => adjust({ ...view, score: v.slice(METRIC.length) })} />
      <${Segmented} label="Value of the metric" value=${view.take} options=${TAKEN} onChoose=${(/** @type {any} */ take) => adjust({ ...view, take })} />
    </div>
    ${opened.error.value && html`<p class="problem" role="alert">${opened.error.value}</p>`}
    ${score ? null : html`<p class="quiet tab-note">None of these runs has reported a metric yet.</p>`}
    ${score && html`<${Without} points=${points} across=${acrossName} score=${scoreName} waiting=${unknown.length > 0} />`}
    ${score && across && html`<${Scatter} points=${points} styles=${styles} across=${acrossName} measured=${metric !== null} score=${scoreName} hovered=${hovered} hover=${hover} />`}
    ${score && settings.length > 0 && html`<${Parallel} runs=${runs} settings=${settings} score=${scoreName} scores=${points.map((p) => p.y)} brushes=${brushes} brush=${(/** @type {Brushes} */ next) => adjust({ ...view, brush: [...next] })} hovered=${hovered} hover=${hover} />`}
    ${settings.length === 0 && html`<p class="quiet tab-note">The settings of these runs are all equal, so there is no sweep to show.</p>`}`;
}

/** @param {{ label: string, value: string, settings: Dimension[], keys: string[], onChoose: (value: string) => void }} props */
function Choice({ label, value, settings, keys, onChoose }) {
  // What the URL names stays chosen, also if no run has it.
  const known = settings.some((s) => s.key === value) || keys.some((k) => METRIC + k === value);
  const metrics = keys.map((k) => html`<option key=${k} value=${METRIC + k}>${plain(k)}</option>`);
  return html`<label class="choice">
    ${label}
    <select value=${value} onChange=${(/** @type {any} */ e) => onChoose(e.target.value)}>
      ${!known && html`<option value=${value}>${plain(value.replace(METRIC, ""))}</option>`}
      ${settings.length > 0 && html`<optgroup label="Settings that differ">${settings.map((s) => html`<option key=${s.key} value=${s.key}>${plain(s.key)}</option>`)}</optgroup>`}
      ${settings.length > 0 ? html`<optgroup label="Metrics">${metrics}</optgroup>` : metrics}
    </select>
  </label>`;
}

/** Which runs have no mark, and why. @param {{ points: { run: FullRun, x: unknown, y: unknown }[], across: string, score: string, waiting: boolean }} props */
function Without({ points, across, score, waiting }) {
  if (waiting) return html`<p class="sweep-note quiet" role="status">Loading values…</p>`;
  const lacks = [
    [score, points.filter((p) => p.y === null)],
    [across, points.filter((p) => p.y !== null && p.x === null)],
  ];
  return html`<p class="sweep-note quiet" role="status">
    ${
      /** @type {[string, typeof points][]} */ (lacks).map(([key, none]) => {
        if (none.length === 0) return null;
        const names = none.map((p) => plain(p.run.name));
        const named = names.slice(0, 5).join(", ") + (none.length > 5 ? " and others" : "");
        return html`<span key=${key} title=${names.join("\n")}>${count(none.length, "run")} ${none.length === 1 ? "has" : "have"} no ${plain(key)}: <bdi>${named}</bdi></span>`;
      })
    }
  </p>`;
}
