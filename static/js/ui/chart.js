// One chart: its title, one curve or many, what stands under the crosshair, and what it cannot show. It
// loads nothing and knows no run: whoever mounts it says what its curves are.
//
//   <Chart name=KEY curves=CURVES view=VIEW range=RANGE onZoom=FUNCTION />
//
// `curves` is null while they load; of several, each has its own `color` (0 to 7, a --series- token) and
// `dash` (an index of DASHES), as `seriesStyle(run.id)` gives them. `view` is the page's: of it x, smooth,
// scale and zoom count. `range` is all that there is on the x-axis, the same for all charts of a page, so
// that they can be compared; the view's zoom wins. `onZoom` gets the part that somebody chose, or null for
// all of it. Charts of one kind of x-axis share their crosshair by themselves. Several charts with their
// controls are <Charts> of charts.js; those of several runs <CompareCharts> of compare_charts.js.
/** @import { Series } from "../model/series.js" */
/** @import { ChartsView, Zoom } from "../model/view.js" */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { DASHES } from "../model/color.js";
import { curve, isSeen, rangeOfY } from "../model/curve.js";
import { cleanZoom, panBy, zoomBy } from "../model/zoom.js";
import { MOST_READINGS, RESTART_LINES, Notes, Reading, Readings, spoken } from "./chart_reading.js";
import { html } from "./html.js";
import { palette } from "./palette.js";
import { makePlot } from "./plot.js";

/**
 * `isFaint`: of less interest than the others; `nans`: how many values are NaN; `why`: what ended the attempt
 * before one.
 * @typedef {{ id: string, label: string, color: number, dash: number, isFaint?: boolean, nans?: number, series: Series, start_ms: number, why?: (attempt: number) => string }} ChartCurve
 */
/** `buttons` get the canvas, once there is one. */
/** @typedef {{ name: string, curves: ChartCurve[] | null, view: ChartsView, range: Zoom | null, onZoom: (zoom: Zoom | null) => void, buttons?: (canvas: () => HTMLCanvasElement | undefined) => any }} Props */

/** How far a key moves the part that is looked at. */
const PAN = 0.25;

/** @param {Props} props */
export function Chart({ name, curves, view, range, onZoom, buttons }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {ReturnType<typeof makePlot> | null} */ (null));
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const [over, setOver] = useState(/** @type {"" | "above" | "below"} */ (""));
  const pointed = useRef(0);
  const zoomed = useRef(onZoom);
  zoomed.current = onZoom;
  // Keys may come faster than the page is drawn.
  const now = useRef(/** @type {Zoom | null} */ (null));
  const { theme, series: colors } = palette.value;
  const { x, smooth, scale } = view;
  const between = view.zoom ?? range;
  now.current = between;
  const lines = useMemo(
    () =>
      curves?.map((one) => ({
        ...one,
        curve: curve(one.series, { x, smooth, scale, start_ms: one.start_ms }),
      })),
    [curves, x, smooth, scale],
  );

  useEffect(() => {
    const made = makePlot(/** @type {HTMLElement} */ (box.current), {
      x,
      log: scale === "log",
      onCursor: (to, height) => {
        pointed.current = height;
        setAt(to);
      },
      onSelect: (zoom) => {
        const clean = cleanZoom(zoom, x);
        if (clean) zoomed.current(clean);
      },
      onReset: () => zoomed.current(null),
    });
    plot.current = made;
    return () => {
      made.close();
      plot.current = null;
    };
  }, [x, scale, theme]);
  useEffect(() => {
    if (!lines || !between) return;
    const y = rangeOfY(
      lines.map((l) => l.curve),
      between,
      scale,
    );
    const drawn = lines.map(({ curve: c, color, dash, isFaint = false }) => {
      return { curve: c, color: colors[color], dash: DASHES[dash], isFaint };
    });
    // Of the one that is picked out among many, above the others.
    drawn.sort((a, b) => Number(b.isFaint) - Number(a.isFaint));
    plot.current?.update({ drawn, x: between, y });
  }, [lines, between?.[0], between?.[1], scale, x, theme]);

  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (
      !between ||
      !range ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.target !== event.currentTarget
    )
      return;
    const { key } = event;
    const from = now.current ?? between;
    const pans = from[0] > range[0] || from[1] < range[1];
    let next;
    if (key === "+" || key === "=") next = zoomBy(from, range, 0.5, x);
    else if (key === "-" || key === "_") next = zoomBy(from, range, 2, x);
    else if (pans && key === "ArrowLeft") next = panBy(from, range, -PAN, x);
    else if (pans && key === "ArrowRight") next = panBy(from, range, PAN, x);
    else return;
    now.current = next ?? range;
    onZoom(next);
    event.preventDefault();
  };
  const empty = lines !== undefined && (!between || !lines.some((l) => isSeen(l.curve, between)));
  return html`<div
    class="chart"
    role="group"
    tabindex="0"
    aria-label=${useMemo(() => spoken(name, lines, view), [name, lines])}
    aria-keyshortcuts="+ - ArrowLeft ArrowRight"
    onKeyDown=${onKey}
    onMouseEnter=${(/** @type {any} */ e) => setOver(hasRoomBelow(e.currentTarget, lines?.length ?? 0) ? "below" : "above")}
    onMouseLeave=${() => setOver("")}
  >
    <div class="chart-head">
      <h3 title=${name}><bdi>${name}</bdi></h3>
      <${Reading} lines=${empty || !lines ? [] : lines} at=${at} between=${between} x=${x} />
      ${buttons?.(() => plot.current?.canvas())}
    </div>
    <div class="chart-frame">
      <div class=${`chart-plot ${!lines || empty ? "is-waiting" : ""}`} ref=${box}></div>
      ${!lines && html`<p class="chart-note is-late quiet">Loading…</p>`}
      ${empty && html`<p class="chart-note quiet">${view.zoom ? "No points in this part" : "No points"}</p>`}
      ${lines && between && over && at !== null && html`<${Readings} lines=${lines} at=${at} y=${pointed.current} x=${x} between=${between} side=${over} />`}
    </div>
    <${Notes} lines=${lines ?? []} view=${view} between=${between} />
  </div>`;
}

/** For the readings of so many curves, and why an attempt began. @param {HTMLElement} element @param {number} curves */
const hasRoomBelow = (element, curves) =>
  element.getBoundingClientRect().bottom + 16 + 20 * (Math.min(curves, MOST_READINGS + 1) + RESTART_LINES) <
  innerHeight;
