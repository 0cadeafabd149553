// All charts of a page: controls, groups that fold, and the one chart that fills the window. A chart loads
// when it comes into sight and is taken down when it leaves; what its curves are, the page says.
/** @import { Lines } from "../model/lines.js" */
/** @import { ChartsView, View, Zoom } from "../model/view.js" */
/** @import { Metrics } from "../state/metrics.js" */
/** @import { ChartCurve } from "./chart.js" */
/** @import { Download } from "./chart_menu.js" */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, integer } from "../model/format.js";
import { group, search } from "../model/metric_keys.js";
import { adjust, go } from "../state/route.js";
import { Chart } from "./chart.js";
import { ChartControls } from "./chart_controls.js";
import { FullChart } from "./chart_full.js";
import { ChartGroups } from "./chart_groups.js";
import { ChartMenu, FullButton } from "./chart_menu.js";
import { Legend } from "./chart_legend.js";
import { html } from "./html.js";

/**
 * What the page says: `attempts`, what the curves of a key are, with `picked` the id of the one that
 * stands out, what can be downloaded of some keys, and what stands above the charts.
 * @typedef {object} Page
 * @property {ChartsView & View} view
 * @property {Metrics} metrics
 * @property {string} title of its runs, for files
 * @property {"merged" | "all"} attempts
 * @property {(lines: Lines, picked: string | null, key: string) => ChartCurve[]} curvesOf
 * @property {(keys: string[]) => Download[]} downloads
 * @property {number} mostKeys of which there is a download together
 * @property {Omit<ChartCurve, "series" | "start_ms">[]} legend
 * @property {any} [tools] more controls
 * @property {any} [facts] what is known of all charts together
 * @property {string} empty what is said while there is no metric at all
 */

const X_WORDS = { step: "by step", time: "by time since the start", wall: "by time of day" };

/** @param {Page} page */
export function Charts(page) {
  const { view, metrics, attempts, legend, tools, facts, empty } = page;
  const [picked, setPicked] = useState(/** @type {string | null} */ (null));
  const [smooth, setSmooth] = useState(view.smooth);
  useEffect(() => setSmooth(view.smooth), [view.smooth]);
  useEffect(
    () => metrics.look({ attempts, x: view.x, zoom: view.zoom }),
    [metrics, attempts, view.x, String(view.zoom)],
  );
  const keys = metrics.keys.value;
  const error = metrics.keysError.value ?? metrics.error.value;
  const groups = useMemo(() => keys && group(search(keys, view.q)), [keys, view.q]);
  const found = useMemo(() => groups?.flatMap((g) => g.keys), [groups]);
  const latest = useRef(view);
  latest.current = view;

  const change = (/** @type {Partial<ChartsView>} */ said) =>
    adjust(/** @type {View} */ ({ ...latest.current, ...said }));
  const fill = (/** @type {string} */ full) => go(/** @type {View} */ ({ ...latest.current, full }));
  // A step back leaves the part that was chosen; going about in it leaves no traces.
  const zoom = (/** @type {Zoom | null} */ next) =>
    next && !latest.current.zoom
      ? go(/** @type {View} */ ({ ...latest.current, zoom: next }))
      : change({ zoom: next });
  const chart = (/** @type {string} */ name, isFull = false) =>
    html`<${Loaded} key=${name} name=${name} page=${page} view=${smooth === view.smooth ? view : { ...view, smooth }} picked=${picked} onZoom=${zoom} onFull=${isFull ? null : fill} />`;
  const marks = legend.length > 1 && html`<${Legend} entries=${legend} onPick=${setPicked} />`;
  const together = found && found.length > 1 && found.length <= page.mostKeys ? page.downloads(found) : [];
  return html`<div class="charts-top">
      <${ChartControls} view=${view} smooth=${smooth} onSmooth=${setSmooth} onChange=${change}>${tools}<//>
      ${marks}
    </div>
    <p class="chart-info quiet">
      <span class="num" data-found>${keys && found && (found.length === keys.length ? count(keys.length, "metric") : `${integer(found.length)} of ${count(keys.length, "metric")}`)}</span>
      ${facts}
      <span class="grow"></span>
      ${together.map((d) => html`<a key=${d.label} href=${d.href} download=${d.file} title="All points of these charts">${d.label}</a>`)}
    </p>
    ${error && html`<p class="problem" role="alert">${error}</p>`}
    ${keys?.length === 0 && html`<p class="quiet tab-note">${empty}</p>`}
    ${keys && keys.length > 0 && found?.length === 0 && html`<p class="quiet tab-note">No metric matches.</p>`}
    ${groups && html`<${ChartGroups} groups=${groups} closed=${view.closed} onClosed=${(/** @type {string[]} */ closed) => change({ closed })} draw=${chart} />`}
    ${
      view.full &&
      keys &&
      html`<${FullChart} name=${view.full} keys=${found?.includes(view.full) ? found : keys} draw=${(/** @type {string} */ name) => chart(name, true)} legend=${marks} isZoomed=${view.zoom !== null} onReset=${() => zoom(null)} onGo=${(/** @type {string} */ full) => change({ full })} />`
    }`;
}

/** @param {{ name: string, page: Page, view: ChartsView, picked: string | null, onZoom: (zoom: Zoom | null) => void, onFull: ((name: string) => void) | null }} props */
function Loaded({ name, page, view, picked, onZoom, onFull }) {
  const { metrics, curvesOf, legend } = page;
  useEffect(() => {
    metrics.show(name);
    return () => metrics.hide(name);
  }, [metrics, name]);
  const lines = metrics.linesOf(name).value;
  const curves = useMemo(() => lines && curvesOf(lines, picked, name), [lines, picked, legend]);
  const range = wide(metrics.extents.value?.[view.x] ?? null, view.x);
  const buttons = (
    /** @type {() => HTMLCanvasElement | undefined} */ canvas,
  ) => html`<span class="chart-buttons">
    ${onFull && html`<${FullButton} name=${name} onFull=${() => onFull(name)} />`}
    <${ChartMenu} name=${name} title=${page.title} note=${`${page.title}, ${X_WORDS[view.x]}`} curves=${curves} view=${view} canvas=${canvas} downloads=${() => page.downloads([name])} />
  </span>`;
  return html`<${Chart} name=${name} curves=${curves} view=${view} range=${range} onZoom=${onZoom} buttons=${buttons} />`;
}

/** An axis has some width even if there is one point. @param {Zoom | null} extent @param {ChartsView["x"]} x @returns {Zoom | null} */
function wide(extent, x) {
  if (!extent || extent[0] < extent[1]) return extent;
  const room = x === "wall" ? 1000 : 1;
  return [extent[0] - room, extent[1] + room];
}
