// Parallel coordinates of a sweep: an axis a setting that differs and one for the score, a line a run in
// the colour of its score. Dragging along an axis brushes: the lines that do not pass there fade. What is
// brushed is in the URL.
/** @import { FullRun } from "../types.js" */
/** @import { Hovered } from "./compare_sweep.js" */
/** @import { Value } from "../model/sweep_axis.js" */
/** @import { Dimension } from "../model/sweep.js" */
/** @import { Brushes, Column } from "../model/parallel.js" */

import { useMemo } from "preact/hooks";
import { count, integer } from "../model/format.js";
import { columnsOf, inBrushes, MOST_AXES, rampColor } from "../model/parallel.js";
import { plain } from "../model/text.js";
import { formatView, runView } from "../model/view.js";
import { openRunOf, Tip, useBox } from "./compare_box.js";
import { ParallelAxis } from "./compare_parallel_axis.js";
import { html } from "./html.js";

const HEIGHT = 336;
const [TOP, FOOT, NONE] = [12, 24, 28];
const NARROWEST = 112;

/** @typedef {{ runs: FullRun[], settings: Dimension[], score: string, scores: Value[], brushes: Brushes, brush: (brushes: Brushes) => void, hovered: Hovered | null, hover: (hovered: Hovered | null) => void }} Props */

/** @param {Props} props */
export function Parallel({ runs, settings, score, scores, brushes, brush, hovered, hover }) {
  const { ref, width, em } = useBox();
  const axes = settings.slice(0, MOST_AXES);
  const left = settings.length - axes.length;
  const shown = runs.map((_, i) => i).filter((i) => scores[i] !== null);
  const columns = useMemo(
    () =>
      columnsOf([
        ...axes.map((d) => ({ key: d.key, values: shown.map((i) => d.values[i]) })),
        { key: SCORE, values: shown.map((i) => scores[i]), measured: true },
      ]),
    [settings, scores.join(",")],
  );
  const inside = shown.map((_, i) => inBrushes(columns, brushes, i));
  const brushed = brushes.size > 0;
  const room = Math.max(width, NARROWEST * em * columns.length);
  return html`<figure class="sweep-chart" data-chart="parallel">
    <figcaption>
      <b>Settings and <bdi>${plain(score)}</bdi></b>
      <span class="quiet">${left > 0 ? `${count(left, "more setting")} ${left === 1 ? "differs" : "differ"}; ` : ""}drag along an axis, or take it with Tab and the arrow keys, to pick out runs</span>
      <span class="grow"></span>
      <span class="sweep-picked" role="status">${brushed && html`${integer(inside.filter(Boolean).length)} of ${count(shown.length, "run")} <button class="button" onClick=${() => brush(new Map())}>Clear</button>`}</span>
    </figcaption>
    <div class="parallel-frame" ref=${ref}>
      ${width > 0 && html`<${Drawing} runs=${shown.map((i) => runs[i])} columns=${columns} score=${score} values=${shown.map((i) => [...axes.map((d) => d.values[i]), scores[i]])} inside=${inside} brushes=${brushes} brush=${brush} hovered=${hovered} hover=${hover} width=${room} em=${em} />`}
    </div>
  </figure>`;
}

/** The score's own axis; no setting has an empty key. */
const SCORE = "";

/** @param {{ runs: FullRun[], columns: Column[], score: string, values: Value[][], inside: boolean[], brushes: Brushes, brush: (b: Brushes) => void, hovered: Hovered | null, hover: (hovered: Hovered | null) => void, width: number, em: number }} props */
function Drawing({ runs, columns, score, values, inside, brushes, brush, hovered, hover, width, em }) {
  const spacing = width / columns.length;
  const height = HEIGHT * em;
  const top = TOP * em;
  const none = columns.some((c) => c.axis.missing > 0);
  const bottom = height - (none ? FOOT + NONE : FOOT) * em;
  const x = (/** @type {number} */ i) => Math.round(spacing * (i + 0.5)) + 0.5;
  const y = (/** @type {number | null} */ f) =>
    f === null ? height - FOOT * em : bottom - f * (bottom - top);
  const last = columns.length - 1;
  const path = (/** @type {number} */ run) =>
    columns.map((c, i) => `${i ? "L" : "M"}${x(i)} ${y(c.places[run])}`).join("");
  const at = runs.findIndex((r) => r.id === hovered?.id);
  const order = runs.map((_, i) => i).sort((a, b) => Number(inside[a]) - Number(inside[b]));
  return html`<div class="parallel" style=${{ width: `${width}px` }}>
    <div class="parallel-names">
      ${columns.map(({ key }, i) => html`<${AxisName} key=${key} name=${i === last ? score : key} />`)}
    </div>
    <div class="chart-box">
      <svg class="sweep-svg" width=${width} height=${height} role="group" aria-label=${`Parallel coordinates of ${count(runs.length, "run")}: ${[...columns.slice(0, -1).map((c) => plain(c.key)), plain(score)].join(", ")}`}>
        ${none && html`<text class="sweep-label" x="8" y=${height - FOOT * em} dy="0.32em">none</text>`}
        ${order.map((i) => html`<${Line} key=${runs[i].id} run=${runs[i]} d=${path(i)} color=${rampColor(columns[last].places[i] ?? 0)} kind=${!inside[i] ? "is-out" : at >= 0 ? "is-behind" : ""} hover=${hover} />`)}
        ${at >= 0 && html`<path class="line-on" d=${path(at)} style=${{ stroke: rampColor(columns[last].places[at] ?? 0) }} />`}
        ${columns.map((c, i) => html`<${ParallelAxis} key=${c.key} name=${i === last ? score : c.key} axis=${c.axis} x=${x(i)} top=${top} bottom=${bottom} em=${em} room=${spacing} ramp=${i === last} brush=${brushes.get(c.key) ?? null} onBrush=${(/** @type {[number, number] | null} */ next) => brush(changed(brushes, c.key, next))} />`)}
      </svg>
      ${at >= 0 && hovered?.chart === "parallel" && html`<${Tip} width=${width} said=${{ x: hovered.x, y: height / 2, name: runs[at].name, rows: columns.map((c, i) => [i === last ? score : c.key, values[at][i]]) }} />`}
    </div>
  </div>`;
}

/** @param {Brushes} brushes @param {string} key @param {[number, number] | null} next @returns {Brushes} */
function changed(brushes, key, next) {
  const out = new Map(brushes);
  if (next) out.set(key, next);
  else out.delete(key);
  return out;
}

/** The last part of a key says most and is never cut first. @param {{ name: string }} props */
function AxisName({ name }) {
  const text = plain(name);
  const end = text.lastIndexOf("/") + 1;
  return html`<span class="parallel-name" title=${text}><span class="quiet"><bdi>${text.slice(0, end)}</bdi></span><span><bdi>${text.slice(end)}</bdi></span></span>`;
}

/** @param {{ run: FullRun, d: string, color: string, kind: string, hover: (hovered: Hovered | null) => void }} props */
function Line({ run, d, color, kind, hover }) {
  const enter = (/** @type {any} */ e) => {
    const box = e.currentTarget.closest(".chart-box").getBoundingClientRect();
    hover({ id: run.id, chart: "parallel", x: e.clientX - box.left });
  };
  return html`<a
    class=${`parallel-line ${kind}`}
    href=${formatView(runView(run.id))}
    data-line=${run.id}
    tabindex="-1"
    aria-label=${plain(run.name)}
    onClick=${(/** @type {MouseEvent} */ e) => openRunOf(e, run.id)}
    onPointerEnter=${enter}
    onPointerLeave=${() => hover(null)}
  >
    <path class="line-reach" d=${d} />
    <path class="line-mark" d=${d} style=${{ stroke: color }} />
  </a>`;
}
