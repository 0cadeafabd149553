// The uPlot canvas of one chart: raw line, faint behind the smoothed one if there is one, restarts
// as thin verticals, marks where a value was not finite. Colours come from the theme's tokens.
/** @import { Plot } from "../model/series.js" */
/** @import { XAxis } from "../model/view.js" */

import uPlot from "uplot";
import { seriesIndex } from "../model/color.js";
import { elapsed, integer, ticks } from "../model/format.js";

const HEIGHT = 176;
const FAINT = "55";
/** What the ticks of the x-axis may be apart: whole steps, and times that people count in. */
const STEPS = Array.from({ length: 12 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();
const SECONDS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
].concat([1, 2, 5, 10, 20, 50].map((days) => days * 86_400));

/** @param {string} name */
const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * @param {HTMLElement} box
 * @param {{ x: XAxis, runId: string, onCursor: (index: number | null) => void }} options
 */
export function makePlot(box, { x, runId, onCursor }) {
  /** @type {Plot | null} */
  let shown = null;
  /** @type {[number, number]} */
  let range = [0, 1];
  const color = token(`--series-${seriesIndex(runId)}`);
  const colors = {
    line: token("--line"),
    edge: token("--edge"),
    text: token("--quiet"),
    odd: token("--red"),
  };
  const font = `11px ${token("--sans")}`;

  /** By time, nothing was measured between two attempts, so no line leads from one to the next. */
  const gaps = (
    /** @type {uPlot} */ u,
    /** @type {any} */ _s,
    /** @type {any} */ _i,
    /** @type {any} */ _j,
    /** @type {uPlot.Series.Gaps} */ nulls,
  ) => {
    if (x === "step" || !shown || shown.restarts.length === 0) return nulls;
    const px = (/** @type {number} */ v) => Math.round(u.valToPos(v, "x", true));
    const breaks = shown.restarts.map((r) => /** @type {[number, number]} */ ([px(r.before), px(r.x)]));
    return [...nulls, ...breaks].sort((a, b) => a[0] - b[0]);
  };

  /** @type {uPlot.Axis} */
  const axis = { stroke: colors.text, font, grid: { stroke: colors.line, width: 1 }, ticks: { show: false } };
  /** @type {uPlot.Options} */
  const options = {
    width: Math.max(100, box.clientWidth),
    height: HEIGHT,
    padding: [8, x === "step" ? 12 : 24, 0, 0],
    legend: { show: false },
    // One key for all charts of one kind of x-axis: their crosshairs move together.
    cursor: {
      y: false,
      drag: { setScale: false, x: false, y: false },
      points: { size: 6 },
      sync: { key: `x:${x}`, setSeries: false },
    },
    scales: { x: { time: false, range: () => range }, y: { range: padded } },
    axes: [
      {
        ...axis,
        size: 24,
        gap: 4,
        space: 72,
        incrs: x === "step" ? STEPS : SECONDS,
        values: (_, at) => at.map((t) => (x === "step" ? integer(t) : elapsed(t))),
      },
      { ...axis, size: 64, gap: 6, space: 32, values: (_, at) => ticks(at) },
    ],
    series: [
      {},
      { stroke: () => (shown?.smooth ? color + FAINT : color), width: 1.5, points: { size: 4 }, gaps },
      { stroke: color, width: 1.5, points: { show: false }, gaps },
      // What an older attempt had reached beyond the newest: no longer true, but not hidden.
      { stroke: color + FAINT, width: 1.5, dash: [4, 4], points: { show: false }, gaps },
    ],
    hooks: {
      setCursor: [(u) => onCursor(u.cursor.idx ?? null)],
      draw: [(u) => shown && drawMarks(u, shown, colors)],
    },
  };
  const chart = new uPlot(options, [[], [], [], []], box);
  const observer = new ResizeObserver(() => {
    if (box.clientWidth > 0 && box.clientWidth !== chart.width)
      chart.setSize({ width: box.clientWidth, height: HEIGHT });
  });
  observer.observe(box);

  return {
    /** @param {Plot} next @param {[number, number]} nextRange */
    update: (next, nextRange) => {
      shown = next;
      range = nextRange;
      const none = next.x.map(() => null);
      chart.setData([next.x, next.raw, next.smooth ?? none, next.left ?? none]);
    },
    close: () => {
      observer.disconnect();
      chart.destroy();
    },
  };
}

/** A flat or empty curve still needs a range with some height. @param {uPlot} _ @param {number | null} low @param {number | null} high @returns {[number, number]} */
function padded(_, low, high) {
  if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  if (low === high) {
    const room = Math.abs(low) * 0.1 || 1;
    return [low - room, high + room];
  }
  const room = (high - low) * 0.06;
  return [low - room, high + room];
}

/** @param {uPlot} u @param {Plot} plot @param {{ edge: string, odd: string }} colors */
function drawMarks(u, plot, colors) {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.strokeStyle = colors.edge;
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  for (const { x } of plot.restarts) {
    const left = Math.round(u.valToPos(x, "x", true)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.fillStyle = colors.odd;
  const bottom = bbox.top + bbox.height;
  for (const { x } of plot.odd) {
    const left = u.valToPos(x, "x", true);
    ctx.beginPath();
    ctx.moveTo(left - 4 * ratio, bottom);
    ctx.lineTo(left + 4 * ratio, bottom);
    ctx.lineTo(left, bottom - 6 * ratio);
    ctx.fill();
  }
  ctx.restore();
}
