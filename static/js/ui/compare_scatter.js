// The scatter plot of a sweep: a mark a run, in the run's own colour, each a link to it.
/** @import { FullRun } from "../types.js" */
/** @import { Hovered } from "./compare_sweep.js" */
/** @import { Style } from "../model/color.js" */
/** @import { Value } from "../model/sweep_axis.js" */

import { axisOf, place, ticksOf } from "../model/sweep_axis.js";
import { plain } from "../model/text.js";
import { runView, formatView } from "../model/view.js";
import { cut, openRunOf, shown, Tip, useBox } from "./compare_box.js";
import { html } from "./html.js";

const HEIGHT = 320;

/** @typedef {{ run: FullRun, x: Value, y: Value }} Point */

/** @param {{ points: Point[], styles: Map<string, Style>, across: string, measured: boolean, score: string, hovered: Hovered | null, hover: (hovered: Hovered | null) => void }} props */
export function Scatter({ points, styles, across, measured, score, hovered, hover }) {
  const { ref, width, em } = useBox();
  return html`<figure class="sweep-chart" data-chart="scatter">
    <figcaption><b><bdi>${plain(score)}</bdi></b> by <b><bdi>${plain(across)}</bdi></b></figcaption>
    <div class="chart-box" ref=${ref} style=${{ height: `${HEIGHT * em}px` }}>
      ${width > 0 && html`<${Drawing} points=${points.filter((p) => p.x !== null && p.y !== null)} styles=${styles} across=${across} measured=${measured} score=${score} hovered=${hovered} hover=${hover} width=${width} em=${em} />`}
    </div>
  </figure>`;
}

/** @param {{ points: Point[], styles: Map<string, Style>, across: string, measured: boolean, score: string, hovered: Hovered | null, hover: (hovered: Hovered | null) => void, width: number, em: number }} props */
function Drawing({ points, styles, across, measured, score, hovered, hover, width, em }) {
  const xAxis = axisOf(
    points.map((p) => p.x),
    { pad: 0.04, measured },
  );
  const yAxis = axisOf(
    points.map((p) => p.y),
    { pad: 0.06, decades: 3, measured: true },
  );
  const left = 64 * em;
  const [right, top, bottom] = [width - 16 * em, 8 * em, (HEIGHT - 28) * em];
  const px = (/** @type {number | null} */ f) => left + (f ?? 0) * (right - left);
  const py = (/** @type {number | null} */ f) => bottom - (f ?? 0) * (bottom - top);
  const crisp = (/** @type {number} */ v) => Math.round(v) + 0.5;
  const xTicks = ticksOf(xAxis, Math.floor((right - left) / (xAxis.kind === "category" ? 96 * em : 72 * em)));
  const letters = Math.floor((right - left) / Math.max(1, xTicks.length) / (7 * em));
  const at = points.find((p) => p.run.id === hovered?.id);
  const [x, y] = at ? [px(place(xAxis, at.x)), py(place(yAxis, at.y))] : [0, 0];
  return html`<svg class="sweep-svg" width=${width} height=${HEIGHT * em} role="group" aria-label=${`Scatter plot of ${plain(score)} by ${plain(across)}, ${points.length} runs`}>
      ${ticksOf(yAxis, 8).map(
        ({ at: f, label }) => html`<g key=${`y${label}`}>
        <line class="sweep-grid" x1=${left} x2=${right} y1=${crisp(py(f))} y2=${crisp(py(f))} />
        <text class="sweep-label" x=${left - 8} y=${py(f)} dy="0.32em" text-anchor="end">${label}</text>
      </g>`,
      )}
      ${xTicks.map(
        ({ at: f, label }) => html`<g key=${`x${label}`}>
        <line class="sweep-grid" x1=${crisp(px(f))} x2=${crisp(px(f))} y1=${top} y2=${bottom} />
        <text class="sweep-label" x=${px(f)} y=${bottom + 18 * em} text-anchor="middle">${cut(plain(label), letters)}<title>${plain(label)}</title></text>
      </g>`,
      )}
      ${points.map((p) => html`<${Dot} key=${p.run.id} point=${p} style=${styles.get(p.run.id)} cx=${px(place(xAxis, p.x))} cy=${py(place(yAxis, p.y))} label=${`${plain(p.run.name)}: ${plain(across)} ${shown(p.x)}, ${plain(score)} ${shown(p.y)}`} hover=${hover} />`)}
      ${at && html`<circle class="dot-on" cx=${x} cy=${y} r="7" style=${colorOf(styles.get(at.run.id))} />`}
    </svg>
    ${
      at &&
      hovered?.chart === "scatter" &&
      html`<${Tip} width=${width} said=${{
        x,
        y,
        name: at.run.name,
        rows: [
          [across, at.x],
          [score, at.y],
        ],
      }} />`
    }`;
}

/** @param {{ point: Point, style: Style | undefined, cx: number, cy: number, label: string, hover: (hovered: Hovered | null) => void }} props */
function Dot({ point: { run }, style, cx, cy, label, hover }) {
  const enter = () => hover({ id: run.id, chart: "scatter", x: cx });
  const leave = () => hover(null);
  return html`<a
    class="dot"
    href=${formatView(runView(run.id))}
    data-point=${run.id}
    aria-label=${label}
    onClick=${(/** @type {MouseEvent} */ e) => openRunOf(e, run.id)}
    onPointerEnter=${enter}
    onPointerLeave=${leave}
    onFocus=${enter}
    onBlur=${leave}
    style=${colorOf(style)}
  >
    <circle class="dot-reach" cx=${cx} cy=${cy} r="11" />
    <circle class="dot-mark" cx=${cx} cy=${cy} r="5" />
  </a>`;
}

/** @param {Style | undefined} style */
const colorOf = (style) => ({ fill: `var(--series-${style?.color ?? 0})` });
