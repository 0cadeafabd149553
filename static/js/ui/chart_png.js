// A chart as an image: what is on its canvas, with title and legend, on the page's background.
/** @import { ChartCurve } from "./chart.js" */

import { DASHES } from "../model/color.js";
import { token } from "./colors.js";

const EDGE = 16;
const LINE = 20;
/** Of a label in the legend. */
const WIDEST = 320;

/** @param {HTMLCanvasElement} plot @param {{ title: string, note: string, curves: ChartCurve[] }} what */
export function chartImage(plot, { title, note, curves }) {
  const ratio = devicePixelRatio;
  const width = plot.width / ratio + 2 * EDGE;
  const many = curves.length > 1 ? curves : [];
  const head = EDGE + 2 * LINE;
  const canvas = document.createElement("canvas");
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const sans = getComputedStyle(document.documentElement).getPropertyValue("--sans").trim();
  ctx.font = `12px ${sans}`;
  const labels = many.map((curve) => short(ctx, curve.label));
  const column = 48 + Math.max(0, ...labels.map((label) => ctx.measureText(label).width));
  const columns = Math.max(1, Math.floor((width - 2 * EDGE) / column));
  canvas.width = width * ratio;
  canvas.height = (head + plot.height / ratio + Math.ceil(many.length / columns) * LINE + EDGE) * ratio;
  ctx.scale(ratio, ratio);
  ctx.fillStyle = token("--page");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.textBaseline = "middle";
  ctx.fillStyle = token("--text");
  ctx.font = `600 14px ${sans}`;
  ctx.fillText(title, EDGE, EDGE + 8, width - 2 * EDGE);
  ctx.fillStyle = token("--quiet");
  ctx.font = `12px ${sans}`;
  ctx.fillText(note, EDGE, EDGE + 8 + LINE, width - 2 * EDGE);
  ctx.drawImage(plot, EDGE, head, plot.width / ratio, plot.height / ratio);
  many.forEach((curve, i) => {
    const left = EDGE + (i % columns) * column;
    const top = head + plot.height / ratio + Math.floor(i / columns) * LINE + LINE / 2;
    ctx.strokeStyle = token(`--series-${curve.color}`);
    ctx.lineWidth = 2;
    ctx.setLineDash([...DASHES[curve.dash]]);
    ctx.beginPath();
    ctx.moveTo(left, top);
    ctx.lineTo(left + 24, top);
    ctx.stroke();
    ctx.fillStyle = token("--text");
    ctx.fillText(labels[i], left + 32, top);
  });
  return canvas;
}

/** As much of a label as there is room for. @param {CanvasRenderingContext2D} ctx @param {string} label */
function short(ctx, label) {
  let text = label.slice(0, 100);
  while (text && ctx.measureText(text).width > WIDEST) text = text.slice(0, -1);
  return text === label ? label : `${text}…`;
}

/** @param {HTMLCanvasElement} canvas @param {string} name of the file */
export async function save(canvas, name) {
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("The image could not be made.");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(/** @type {Blob} */ (blob));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
