// The uPlot canvas of one chart: its axes, the crosshair that all charts of a page share, and the choice
// of a part by a drag. The curves themselves, each with its own x, are drawn over it by plot_draw.js.
/** @import { XAxis, Zoom } from "../model/view.js" */
/** @import { Drawn } from "./plot_draw.js" */

import uPlot from "uplot";
import { apart, labelRoom, labelsOfX, labelsOfY, logTicks, wallSplits } from "../model/axis.js";
import { readingAt } from "../model/curve.js";
import { palette } from "./palette.js";
import { drawCurves } from "./plot_draw.js";

/** Pixels that the pointer moves before it chooses a part. */
const DRAG = 6;
/** Curves of which the crosshair marks the points. */
const MOST_DOTS = 8;

/** @typedef {{ drawn: Drawn[], x: Zoom, y: Zoom }} Shown */

/**
 * @param {HTMLElement} box its size is the plot's
 * @param {{ x: XAxis, log: boolean, onCursor: (x: number | null, y: number) => void, onSelect: (zoom: Zoom) => void, onReset: () => void }} options
 */
export function makePlot(box, { x, log, onCursor, onSelect, onReset }) {
  /** @type {Shown} */
  let shown = { drawn: [], x: [0, 1], y: [0, 1] };
  /** @type {Shown | null} What came while somebody drags. */
  let waiting = null;
  let dragging = false;
  const colors = palette.peek();
  const dots = Array.from({ length: MOST_DOTS }, () => document.createElement("i"));
  dots.forEach((dot) => (dot.className = "plot-dot"));

  /** @param {uPlot} u */
  const moved = (u) => {
    const { left = -1, top = 0 } = u.cursor;
    const at = left < 0 ? null : u.posToVal(left, "x");
    onCursor(at, u.posToVal(top, "y"));
    dots.forEach((dot, i) => {
      const one = shown.drawn.length <= MOST_DOTS ? shown.drawn[i] : undefined;
      const reading = one && at !== null ? readingAt(one.curve, at) : null;
      const value = reading && (reading.smooth ?? reading.value);
      const seen = reading && value !== null && Number.isFinite(value) && (!log || value > 0);
      dot.hidden = !seen || reading.x < shown.x[0] || reading.x > shown.x[1];
      if (dot.hidden || !reading || value === null) return;
      dot.style.transform = `translate(${u.valToPos(reading.x, "x")}px, ${u.valToPos(value, "y")}px)`;
      dot.style.background = one?.color ?? "";
    });
  };

  /** @param {uPlot} u */
  const selected = (u) => {
    const { left, width } = u.select;
    if (width < DRAG) return;
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    onSelect([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
  };

  /** @type {uPlot.Axis} */
  const axis = {
    stroke: colors.text,
    font: colors.font,
    grid: { stroke: colors.line, width: 1 },
    ticks: { show: false },
  };
  /** @type {uPlot.Axis} */
  const across = {
    ...axis,
    size: 24,
    gap: 4,
    space: labelRoom(x),
    incrs: apart(x),
    values: (_, at) => labelsOfX(at, x),
  };
  if (x === "wall") across.splits = (_, _i, low, high, by) => wallSplits(low, high, by);
  /** @type {uPlot.Axis} */
  const up = { ...axis, size: 64, gap: 6, space: 32, values: (_, at) => labelsOfY(at, log) };
  if (log) {
    up.splits = (u, _i, low, high) => logTicks(low, high, Math.max(2, u.over.clientHeight / 32));
    up.filter = (_, splits) => splits;
  }
  /** @type {uPlot.Options} */
  const options = {
    width: Math.max(100, box.clientWidth),
    height: Math.max(80, box.clientHeight),
    padding: [8, 28, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { setScale: false, x: true, y: false, dist: DRAG },
      points: { show: false },
      // One key for all charts of one kind of x-axis: their crosshairs move together, and nothing else.
      sync: {
        key: `x:${x}`,
        setSeries: false,
        filters: { pub: (type) => type === "mousemove", sub: () => true },
      },
      bind: { dblclick: () => () => (onReset(), null) },
    },
    scales: {
      x: { time: false, range: () => shown.x },
      y: log ? { distr: 3, range: () => shown.y } : { range: () => shown.y },
    },
    axes: [across, up],
    // Only there so that both scales are: each curve has its own x.
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: {
      setCursor: [moved],
      setSelect: [selected],
      draw: [(u) => drawCurves(u, shown, log, colors)],
    },
  };
  const plot = new uPlot(options, [[], []], box);
  plot.over.append(...dots);

  /** @param {Shown} next */
  const update = (next) => {
    if (dragging) {
      waiting = next;
      return;
    }
    shown = next;
    plot.setData([next.x, next.y]);
  };
  const down = () => (dragging = true);
  const released = () => {
    if (!dragging) return;
    dragging = false;
    // After uPlot has heard of it too.
    setTimeout(() => {
      if (waiting) update(waiting);
      waiting = null;
    });
  };
  plot.over.addEventListener("mousedown", down);
  document.addEventListener("mouseup", released);
  const observer = new ResizeObserver(() => {
    const { clientWidth: width, clientHeight: height } = box;
    if (width > 0 && height > 0 && (width !== plot.width || height !== plot.height))
      plot.setSize({ width, height });
  });
  observer.observe(box);

  return {
    update,
    /** As it is drawn, for an image of it. */
    canvas: () => plot.ctx.canvas,
    close: () => {
      observer.disconnect();
      document.removeEventListener("mouseup", released);
      plot.destroy();
    },
  };
}
