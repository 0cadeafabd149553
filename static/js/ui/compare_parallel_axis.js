// One axis of the parallel coordinates: its marks, and the brush that is dragged along it or moved by keys.
/** @import { Axis } from "../model/sweep_axis.js" */

import { useRef, useState } from "preact/hooks";
import { ticksOf } from "../model/sweep_axis.js";
import { brushBy, brushOf, rampColor } from "../model/parallel.js";
import { plain } from "../model/text.js";
import { cut } from "./compare_box.js";
import { html } from "./html.js";

const REACH = 14;

/** @param {{ name: string, axis: Axis, x: number, top: number, bottom: number, em: number, room: number, ramp: boolean, brush: [number, number] | null, onBrush: (brush: [number, number] | null) => void }} props */
export function ParallelAxis({ name, axis, x, top, bottom, em, room, ramp, brush, onBrush }) {
  const from = useRef(/** @type {number | null} */ (null));
  const zone = useRef(/** @type {SVGRectElement | null} */ (null));
  const [drawn, setDrawn] = useState(/** @type {[number, number] | null} */ (null));
  const y = (/** @type {number} */ f) => bottom - f * (bottom - top);
  const fraction = (/** @type {PointerEvent} */ e) => {
    const box = /** @type {SVGRectElement} */ (zone.current).getBoundingClientRect();
    return (box.bottom - REACH - e.clientY) / (box.height - 2 * REACH);
  };
  const down = (/** @type {PointerEvent} */ e) => {
    if (e.button !== 0) return;
    e.preventDefault();
    from.current = fraction(e);
    zone.current?.setPointerCapture(e.pointerId);
  };
  const move = (/** @type {PointerEvent} */ e) => {
    if (from.current !== null) setDrawn(brushOf(from.current, fraction(e)));
  };
  // A click without a drag takes the brush away.
  const up = (/** @type {PointerEvent} */ e) => {
    if (from.current === null) return;
    onBrush(brushOf(from.current, fraction(e)));
    from.current = null;
    setDrawn(null);
  };
  const stop = () => {
    from.current = null;
    setDrawn(null);
  };
  const onKey = (/** @type {KeyboardEvent} */ e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const next = brushBy(brush, e.key, e.shiftKey);
    if (next === undefined) return;
    e.preventDefault();
    onBrush(next);
  };
  const shown = drawn ?? brush;
  const said = brush ? `from ${percent(brush[0])} to ${percent(brush[1])} of its length` : "all of it";
  const letters = Math.floor((room / 2 - 12) / (6.5 * em));
  const most = Math.floor((bottom - top) / (22 * em));
  return html`<g class="parallel-axis">
    ${ramp ? html`<${Ramp} x=${x} top=${top} bottom=${bottom} />` : html`<line class="axis-line" x1=${x} x2=${x} y1=${top} y2=${bottom} />`}
    ${ticksOf(axis, most).map(
      ({ at, label }) => html`<g key=${label}>
      <line class="axis-line" x1=${x - 4} x2=${x} y1=${y(at)} y2=${y(at)} />
      <text class="sweep-label has-halo" x=${x - 8} y=${y(at)} dy="0.32em" text-anchor="end">${cut(plain(label), letters)}<title>${plain(label)}</title></text>
    </g>`,
    )}
    ${shown && html`<rect class="brush" x=${x - 6} width="12" y=${y(shown[1])} height=${y(shown[0]) - y(shown[1])} />`}
    <rect
      class="brush-zone"
      ref=${zone}
      x=${x - REACH}
      width=${2 * REACH}
      y=${top - REACH}
      height=${bottom - top + 2 * REACH}
      tabindex="0"
      role="slider"
      aria-orientation="vertical"
      aria-label=${`Brush of ${plain(name)}; arrow keys move its lower end, with Shift its upper one, Delete takes it away`}
      aria-valuemin="0"
      aria-valuemax="100"
      aria-valuenow=${Math.round((brush?.[0] ?? 0) * 100)}
      aria-valuetext=${said}
      onKeyDown=${onKey}
      onPointerDown=${down}
      onPointerMove=${move}
      onPointerUp=${up}
      onPointerCancel=${stop}
    />
  </g>`;
}

/** @param {number} f */
const percent = (f) => `${Math.round(f * 100)} %`;

const PARTS = 24;

/** The colours of the lines along the axis that gives them. @param {{ x: number, top: number, bottom: number }} props */
function Ramp({ x, top, bottom }) {
  const part = (bottom - top) / PARTS;
  // Of parts, for a gradient is found by its address, and that goes wrong where a page has a base. Each is
  // a little longer than its share, so that no seam is seen.
  return Array.from(
    { length: PARTS },
    (_, i) =>
      html`<rect key=${i} x=${x - 2} width="4" y=${bottom - (i + 1) * part} height=${i === 0 ? part : part + 1} style=${{ fill: rampColor((i + 0.5) / PARTS) }} />`,
  );
}
