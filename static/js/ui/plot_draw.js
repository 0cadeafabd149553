// Draws curves on a uPlot canvas: bands, the points faint behind the smoothed curve, what an older attempt
// left, marks of what is not finite, and where attempts begin.
/** @import uPlot from "uplot" */
/** @import { Column, Curve } from "../model/curve.js" */
/** @import { Shown } from "./plot.js" */

import { firstAt } from "../model/curve.js";
import { faint } from "./colors.js";

/** `color` as `token` gives it; `isFaint`: of less interest than the others. @typedef {{ curve: Curve, color: string, dash: readonly number[], isFaint: boolean }} Drawn */
/** @typedef {{ line: string, edge: string, text: string, odd: string }} Colors */

const FAINT = 0.35;
const BAND = 0.16;
const LEFT_DASH = [4, 4];
/** Fewer points than one in so many pixels are drawn as dots too. */
const SPARSE = 16;

/** @param {uPlot} u @param {Shown} shown @param {boolean} log @param {Colors} colors */
export function drawCurves(u, shown, log, colors) {
  const { ctx, bbox } = u;
  const [left, right] = shown.x;
  const [low, high] = shown.y.map((v) => (log ? Math.log10(v) : v));
  const px = (/** @type {number} */ v) => bbox.left + ((v - left) / (right - left)) * bbox.width;
  const bottom = bbox.top + bbox.height;
  // Halves, for the difference may be more than a number can be.
  const height = high / 2 - low / 2;
  const py = (/** @type {number} */ v) =>
    log && v <= 0 ? bottom : bottom - (((log ? Math.log10(v) : v) / 2 - low / 2) / height) * bbox.height;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineJoin = "round";
  const pen = {
    ctx,
    px,
    py,
    ratio: devicePixelRatio,
    between: /** @type {[number, number]} */ ([left, right]),
  };
  for (const { curve, color, isFaint } of shown.drawn) drawBand(pen, curve, color, isFaint ? 0.4 : 1);
  for (const one of shown.drawn) drawOne(pen, one);
  const many = shown.drawn.length > 1;
  for (const { curve, color, isFaint } of shown.drawn)
    if (!isFaint) drawRestarts(pen, curve, many ? faint(color, 0.5) : colors.edge, bbox);
  for (const { curve } of shown.drawn) drawOdd(pen, curve, colors.odd, bottom);
  ctx.restore();
}

/** @typedef {{ ctx: CanvasRenderingContext2D, px: (v: number) => number, py: (v: number) => number, ratio: number, between: [number, number] }} Pen */

/** Indices of what is in sight, with one beyond each end. @param {Pen} pen @param {Curve} curve @returns {[number, number]} */
function inSight({ between: [left, right] }, { x }) {
  return [Math.max(0, firstAt(x, left) - 1), Math.min(x.length, firstAt(x, right) + 2)];
}

/** @param {Pen} pen @param {Drawn} drawn */
function drawOne(pen, { curve, color, dash, isFaint }) {
  const { ctx, ratio } = pen;
  const { last, y, smooth } = curve;
  const width = (isFaint ? 1.25 : 1.75) * ratio;
  const weak = faint(color, isFaint ? 0.6 : 1);
  const scaled = dash.map((d) => d * ratio);
  ctx.lineWidth = smooth ? ratio : width;
  line(pen, curve, y, [0, last + 1], smooth ? faint(color, FAINT) : weak, smooth ? [] : scaled);
  if (last + 1 < y.length) {
    const dashed = LEFT_DASH.map((d) => d * ratio);
    line(pen, curve, y, [Math.max(0, last), y.length], faint(color, FAINT), dashed);
  }
  ctx.lineWidth = width;
  if (smooth) line(pen, curve, smooth, [0, last + 1], weak, scaled);
}

/** @param {Pen} pen @param {Curve} curve @param {Column} column @param {[number, number]} part @param {string} color @param {number[]} dash */
function line(pen, curve, column, part, color, dash) {
  const { ctx, px, py, ratio } = pen;
  const [seen, end] = inSight(pen, curve);
  const from = Math.max(seen, part[0]);
  const to = Math.min(end, part[1]);
  /** @type {number[]} */
  const alone = [];
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  ctx.setLineDash(dash);
  ctx.beginPath();
  let length = 0;
  for (let i = from; i <= to; i += 1) {
    const v = i < to ? column[i] : null;
    const breaks = v === null || curve.breaks.has(i);
    if (breaks && length === 1) alone.push(i - 1);
    if (breaks) length = 0;
    if (v === null) continue;
    if (length === 0) ctx.moveTo(px(curve.x[i]), py(v));
    else ctx.lineTo(px(curve.x[i]), py(v));
    length += 1;
  }
  ctx.stroke();
  ctx.setLineDash([]);
  const room = (px(pen.between[1]) - px(pen.between[0])) / (SPARSE * ratio);
  const dotted = column === curve.y && to - from <= room ? range(from, to) : alone;
  ctx.beginPath();
  for (const i of dotted) {
    const v = column[i];
    if (v === null) continue;
    ctx.moveTo(px(curve.x[i]) + 2 * ratio, py(v));
    ctx.arc(px(curve.x[i]), py(v), 2 * ratio, 0, 2 * Math.PI);
  }
  ctx.fill();
}

/** @param {number} from @param {number} to */
const range = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);

/** Between least and greatest; its edge keeps a spike of one bucket in sight. @param {Pen} pen @param {Curve} curve @param {string} color @param {number} strength */
function drawBand(pen, curve, color, strength) {
  const { low, high, x } = curve;
  if (!low || !high) return;
  const { ctx, px, py, ratio } = pen;
  const [from, to] = inSight(pen, curve);
  ctx.fillStyle = faint(color, BAND * strength);
  ctx.strokeStyle = faint(color, 0.3 * strength);
  ctx.lineWidth = ratio;
  let start = from;
  for (let i = from; i <= to; i += 1) {
    const ends = i === to || high[i] === null || low[i] === null;
    if (!ends && !curve.breaks.has(i)) continue;
    if (i > start) {
      ctx.beginPath();
      for (let n = start; n < i; n += 1) ctx.lineTo(px(x[n]), py(/** @type {number} */ (high[n])));
      for (let n = i - 1; n >= start; n -= 1) ctx.lineTo(px(x[n]), py(/** @type {number} */ (low[n])));
      ctx.closePath();
      ctx.fill();
      ctx.stroke();
    }
    start = ends ? i + 1 : i;
  }
}

/** @param {Pen} pen @param {Curve} curve @param {string} color @param {{ top: number, height: number }} bbox */
function drawRestarts({ ctx, px, ratio }, { restarts }, color, { top, height }) {
  ctx.strokeStyle = color;
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.beginPath();
  for (const { x } of restarts) {
    const left = Math.round(px(x)) + 0.5;
    ctx.moveTo(left, top);
    ctx.lineTo(left, top + height);
  }
  ctx.stroke();
  ctx.setLineDash([]);
}

/** Small triangles at the foot. @param {Pen} pen @param {Curve} curve @param {string} color @param {number} bottom */
function drawOdd({ ctx, px, ratio }, { odd }, color, bottom) {
  ctx.fillStyle = color;
  ctx.beginPath();
  for (const { x } of odd) {
    const left = px(x);
    ctx.moveTo(left - 4 * ratio, bottom);
    ctx.lineTo(left + 4 * ratio, bottom);
    ctx.lineTo(left, bottom - 6 * ratio);
    ctx.closePath();
  }
  ctx.fill();
}
