// Which ranks hold up the others: a row a rank, a column a stretch of steps, and the darker the later it
// reported than the first. On a canvas, for hundreds of ranks are tens of thousands of cells.
/** @import { Heat } from "../model/straggle.js" */

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { integer, interval } from "../model/format.js";
import { heat, straggler } from "../model/straggle.js";
import { COLUMNS, openSteps } from "../state/workers.js";
import { theme } from "../state/theme.js";
import { faint, token } from "./colors.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { useMedia } from "./window.js";

const FAINTEST = 0.06;
const GAP_PX = 1;

/** @typedef {{ row: number, column: number }} Cell */

/** @param {{ id: string, attempt: number, ranks: number }} props `ranks`: how many the attempt has */
export function HeatStrip({ id, attempt, ranks }) {
  const opened = useOpened(() => openSteps(id, attempt), [id, attempt]);
  const steps = opened.steps.value;
  const made = useMemo(() => steps && heat(steps.series, COLUMNS), [steps]);
  const title = html`<h2>Stragglers</h2>`;
  if (opened.error.value)
    return html`<section class="stragglers">${title}<p class="problem" role="alert">${opened.error.value}</p></section>`;
  if (ranks < 2)
    return html`<section class="stragglers">${title}<p class="quiet">There is one rank, and so none that others wait for.</p></section>`;
  if (!steps) return html`<section class="stragglers">${title}<p class="quiet">Loading…</p></section>`;
  if (!made) {
    return html`<section class="stragglers">
      ${title}
      <p class="quiet">Not known: there is no metric that several ranks have reported at two steps or more in attempt ${attempt}. What each rank reports of its own, such as the time of a step, shows here which one is late.</p>
    </section>`;
  }
  const few =
    made.rows.length < ranks ? ` ${integer(made.rows.length)} of ${integer(ranks)} ranks report it.` : "";
  return html`<section class="stragglers">
    ${title}
    <p>${straggler(made)}</p>
    <${Strip} heat=${made} />
    <p class="quiet">How much later than the first rank each reported <bdi>${steps.key}</bdi>, in attempt ${attempt}.${few}</p>
  </section>`;
}

/** Of many ranks it stands above their table, which is to stay in sight: of very many a row is thinner than a pixel. */
const MOST_PX = 256;
/** @param {number} rows */
const rowPxOf = (rows) => (rows <= 16 ? 14 : rows <= 32 ? 8 : rows <= 64 ? 4 : MOST_PX / Math.max(128, rows));

/** @param {{ heat: Heat }} props */
function Strip({ heat: { steps, rows, first, most } }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [cell, setCell] = useState(/** @type {Cell | null} */ (null));
  const [width, setWidth] = useState(0);
  const dark = useMedia("(prefers-color-scheme: dark)");
  const rowPx = rowPxOf(rows.length);
  const height = rows.length * rowPx;
  const columnPx = width / steps.length;

  useLayoutEffect(() => {
    const element = /** @type {HTMLCanvasElement} */ (canvas.current);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = /** @type {HTMLCanvasElement} */ (canvas.current);
    const scale = devicePixelRatio;
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
    const draw = /** @type {CanvasRenderingContext2D} */ (element.getContext("2d"));
    draw.scale(scale, scale);
    const [late, none] = [token("--amber"), token("--edge")];
    const gap = rowPx > 4 ? GAP_PX : 0;
    rows.forEach((row, r) => {
      row.late.forEach((ms, c) => {
        const [x, y] = [c * columnPx, r * rowPx];
        draw.fillStyle = ms === null ? none : faint(late, FAINTEST + (1 - FAINTEST) * Math.min(1, ms / most));
        // What was not reported is a line, and no colour of the scale.
        if (ms === null) draw.fillRect(x, y + rowPx / 2 - 0.5, columnPx - gap, 1);
        else draw.fillRect(x, y, columnPx - gap, rowPx - gap);
      });
    });
    if (!cell) return;
    draw.strokeStyle = token("--text");
    draw.strokeRect(
      cell.column * columnPx + 0.5,
      cell.row * rowPx + 0.5,
      Math.max(2, columnPx - 1),
      Math.max(2, rowPx - 1),
    );
  }, [rows, steps, width, height, cell, dark, theme.value]);

  /** @param {MouseEvent} e */
  const onMove = (e) => {
    const column = Math.floor(e.offsetX / columnPx);
    const row = Math.floor(e.offsetY / rowPx);
    if (rows[row] && column >= 0 && column < steps.length) setCell({ row, column });
  };
  /** @param {KeyboardEvent} e */
  const onKeyDown = (e) => {
    const [right, down] = MOVES[e.key] ?? [0, 0];
    if (right === 0 && down === 0) return;
    e.preventDefault();
    const { row, column } = cell ?? { row: 0, column: -1 };
    setCell({
      row: Math.min(rows.length - 1, Math.max(0, row + down)),
      column: Math.min(steps.length - 1, Math.max(0, column + right)),
    });
  };
  return html`<div class="strip">
      <div class="strip-ranks quiet num" style=${{ height: `${height}px` }} aria-hidden="true">
        ${rowPx >= 14 ? rows.map((r) => html`<span key=${r.rank}>${r.rank}</span>`) : html`<span>${rows[0].rank}</span><span>${rows[rows.length - 1].rank}</span>`}
      </div>
      <canvas
        ref=${canvas}
        style=${{ height: `${height}px` }}
        tabindex="0"
        role="img"
        aria-label="Lateness of each rank over the steps; the arrow keys go through it"
        onMouseMove=${onMove}
        onMouseLeave=${() => setCell(null)}
        onKeyDown=${onKeyDown}
        onBlur=${() => setCell(null)}
      ></canvas>
      <span></span>
      <div class="strip-steps quiet num"><span>step ${integer(Math.round(steps[0]))}</span><span>${integer(Math.round(steps[steps.length - 1]))}</span></div>
    </div>
    <div class="strip-foot">
      <span class="strip-legend quiet num" aria-hidden="true">0<i></i>${interval(most)} or more</span>
      <span class="strip-said" role="status">${cell && said({ steps, rows, first, most }, cell)}</span>
    </div>`;
}

/** @type {Record<string, [number, number]>} */
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** @param {Heat} heat @param {Cell} cell */
function said({ steps, rows, first }, { row, column }) {
  const { rank, late } = rows[row] ?? { rank: 0, late: [] };
  const ms = late[column];
  const what =
    ms === null || ms === undefined
      ? "did not report"
      : ms === 0
        ? "was the first"
        : `${interval(ms)} after rank ${first[column]}`;
  return `rank ${rank}, step ${integer(Math.round(steps[column] ?? 0))}: ${what}`;
}
