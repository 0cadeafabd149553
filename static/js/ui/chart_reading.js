// The words of a chart: what stands under the crosshair, of one curve or of many, what the chart cannot
// show, and all of it in one sentence for who does not see it.
/** @import { Curve, Reading as Read } from "../model/curve.js" */
/** @import { ChartsView, XAxis, Zoom } from "../model/view.js" */
/** @import { ChartCurve } from "./chart.js" */

import { readingAt, within } from "../model/curve.js";
import { clock, count, day, duration, exact, integer, interval, number } from "../model/format.js";
import { isThinned } from "../model/series.js";
import { html } from "./html.js";
import { Swatch } from "./swatch.js";

/** @typedef {ChartCurve & { curve: Curve }} Line */

/** Of many curves, those that are listed under the crosshair. */
export const MOST_READINGS = 10;
/** So many lines has the reason of a restart at the most (css/chart.css). */
export const RESTART_LINES = 6;
/** How near the crosshair is to a restart to name it, as a part of the width. */
const NEAR = 0.012;

/** @param {number} v @param {XAxis} x @param {boolean} [isFull] @returns {string} */
export function place(v, x, isFull = false) {
  if (x === "step") return `step ${integer(Math.round(v))}`;
  if (x === "wall") return isFull ? `${day(v)} ${clock(v)}` : clock(v);
  if (v < 0) return `−${place(-v, x)}`;
  return v < 60 ? interval(v * 1000) : duration(v * 1000);
}

/** @param {Read | null} reading */
const valueOf = (reading) => (reading?.value === null || reading === null ? "–" : number(reading.value));

/** The restarts under the crosshair. @param {Line[]} lines @param {number} at @param {Zoom} between */
const restartsAt = (lines, at, between) =>
  lines.flatMap((line) => {
    const near = (between[1] - between[0]) * NEAR;
    const restart = line.curve.restarts.find((r) => Math.abs(r.x - at) <= near);
    return restart ? [{ line, attempt: restart.attempt }] : [];
  });

/** Of one curve the point under the crosshair, else the newest attempt's last that is in sight; of several, where it stands. */
/** @param {{ lines: Line[], at: number | null, between: Zoom | null, x: XAxis }} props */
export function Reading({ lines, at, between, x }) {
  if (lines.length === 0) return html`<span class="reading"></span>`;
  if (lines.length > 1)
    return html`<span class="reading num quiet">${at === null ? "" : place(at, x, true)}</span>`;
  const { curve } = lines[0];
  const beyond = between !== null && curve.x[curve.last] > between[1];
  const reading = readingAt(curve, at ?? (beyond ? between[1] : null));
  if (!reading) return html`<span class="reading"></span>`;
  const { low, high, smooth } = reading;
  return html`<span class="reading num">
    ${reading.isLeft && html`<span class="quiet" title="The newest attempt has not come as far as an older one did">older attempt</span>`}
    <span class="quiet reading-x" title=${x === "wall" ? exact(reading.x) : ""}>${place(reading.x, x)}</span>
    ${low !== null && high !== null && smooth === null && html`<span class="quiet reading-band" title="Least and greatest value of the points that are drawn as one">${number(low)} … ${number(high)}</span>`}
    <b data-value>${valueOf(reading)}</b>
    ${smooth !== null && html`<span class="quiet reading-smooth" title="Smoothed">~${number(smooth)}</span>`}
  </span>`;
}

/**
 * Of many curves those nearest to the pointer, the greatest first, and why attempts began there: over or under
 * the chart, to hide none of them. `y`: how high the pointer is.
 * @param {{ lines: Line[], at: number, y: number, x: XAxis, between: Zoom, side: "above" | "below" }} props
 */
export function Readings({ lines, at, y, x, between, side }) {
  const restarts = restartsAt(lines, at, between).slice(0, MOST_READINGS);
  const many = lines.length > 1;
  if (!many && restarts.length === 0) return null;
  const all = lines
    .map((line) => ({ line, reading: readingAt(line.curve, at) }))
    .filter(
      ({ line: { curve }, reading }) => reading && at >= curve.x[0] && at <= curve.x[curve.x.length - 1],
    );
  const high = (/** @type {typeof all[number]} */ { reading }) =>
    reading?.smooth ?? reading?.value ?? -Infinity;
  const near = [...all].sort((a, b) => Math.abs(high(a) - y) - Math.abs(high(b) - y)).slice(0, MOST_READINGS);
  near.sort((a, b) => high(b) - high(a));
  if (all.length === 0) return null;
  return html`<div class=${`chart-readings is-${side}`}>
    ${(many ? near : []).map(
      ({ line, reading }) => html`<div key=${line.id}>
        <${Swatch} color=${line.color} dash=${line.dash} />
        <bdi>${line.label}</bdi>
        <span class="quiet num">${reading && place(reading.x, x)}</span>
        <b class="num">${valueOf(reading && { ...reading, value: reading.smooth ?? reading.value })}</b>
      </div>`,
    )}
    ${restarts.map(({ line, attempt }) => {
      const why = line.why?.(attempt);
      return html`<p key=${line.id} class="chart-restart" data-restart>${many && html`<bdi>${line.label}</bdi>: `}attempt ${attempt}${why && ` · ${why}`}</p>`;
    })}
    ${all.length > MOST_READINGS && html`<p class="quiet">and ${integer(all.length - MOST_READINGS)} more</p>`}
  </div>`;
}

/** How much a chart stands for, and what it cannot show. @param {{ lines: Line[], view: ChartsView, between: Zoom | null }} props */
export function Notes({ lines, view, between }) {
  const sum = (/** @type {(line: Line) => number} */ of) => lines.reduce((n, line) => n + of(line), 0);
  const part = between ?? /** @type {Zoom} */ ([-Infinity, Infinity]);
  const thinned = lines.some((line) => isThinned(line.series));
  const marked = sum(({ curve }) =>
    within(
      curve.odd.map((o) => o.x),
      part,
    ),
  );
  const hidden = view.scale === "log" ? sum(({ curve }) => within(curve.hidden, part)) : 0;
  const rank = lines.length === 1 ? lines[0].series.rank : 0;
  // Among many points that are drawn as one, NaN has no mark of its own.
  const odd = thinned && !view.zoom ? Math.max(marked, ...lines.map((line) => line.nans ?? 0)) : marked;
  const text = hidden === 1 ? "1 point is not above 0" : `${integer(hidden)} points are not above 0`;
  return html`<p class="chart-foot quiet">
    ${rank > 0 && html`<span title="Rank 0 reported nothing under this key">rank ${rank}</span>`}
    ${
      thinned &&
      html`<span data-points title=${`Least, greatest and mean of many points each; zoom in for more${view.zoom ? " of this part" : ""}`}>${integer(sum((l) => l.series.sent))} of ${count(
        sum((l) => l.series.count),
        "point",
      )}</span>`
    }
    ${odd > 0 && html`<span class="odd" title="Values that are no finite numbers are marked below the curve">${integer(odd)} not finite</span>`}
    ${hidden > 0 && html`<span data-hidden title=${`${text}: a log scale cannot show them`}>${thinned ? `${integer(hidden)} or more not above 0` : text}</span>`}
  </p>`;
}

/** @param {string} name @param {Line[] | undefined} lines @param {ChartsView} view */
export function spoken(name, lines, { x }) {
  if (!lines) return `${name}: loading`;
  let [low, high] = [Infinity, -Infinity];
  for (const { series } of lines) {
    for (const v of series.low) if (Number.isFinite(v) && v < low) low = v;
    for (const v of series.high) if (Number.isFinite(v) && v > high) high = v;
  }
  const range = low <= high ? `, from ${number(low)} to ${number(high)}` : "";
  if (lines.length > 1) return `${name}: ${count(lines.length, "curve")}${range}`;
  const last = lines[0] && readingAt(lines[0].curve, null);
  return last ? `${name}: last ${valueOf(last)} at ${place(last.x, x, true)}${range}` : `${name}: no points`;
}
