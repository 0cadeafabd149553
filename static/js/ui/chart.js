// One chart: its title, the value under the crosshair, and the uPlot canvas. The crosshair and the
// x-axis are shared with all other charts of the page.
/** @import { Signal } from "@preact/signals" */
/** @import { Series } from "../model/series.js" */
/** @import { RunView } from "../model/view.js" */
/** @import { RunState } from "../state/run.js" */
/** @import { Extent } from "../state/metrics.js" */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { duration, integer, number } from "../model/format.js";
import { plot } from "../model/series.js";
import { reason } from "../model/timeline.js";
import { useTheme } from "./hooks.js";
import { html } from "./html.js";
import { makePlot } from "./plot.js";

/** @typedef {{ name: string, series: Signal<Series | null>, extent: Signal<Extent | null>, view: RunView, run: RunState }} Props */

/** @param {Props} props */
export function Chart({ name, series, extent, view, run }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const chart = useRef(/** @type {ReturnType<typeof makePlot> | null} */ (null));
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const theme = useTheme();
  const { x, smooth } = view;
  const data = series.value;
  const drawn = useMemo(
    () => data && plot(data, { x, smooth, start_ms: run.start_time_ms }),
    [data, x, smooth, run.start_time_ms],
  );
  const range = rangeOf(extent.value, x, run.start_time_ms);

  useEffect(() => {
    const made = makePlot(/** @type {HTMLElement} */ (box.current), { x, runId: run.id, onCursor: setAt });
    chart.current = made;
    return () => {
      made.close();
      chart.current = null;
    };
  }, [x, theme, run.id]);
  useEffect(() => {
    if (drawn && range) chart.current?.update(drawn, range);
  }, [drawn, range?.[0], range?.[1], x, theme]);

  return html`<div class="chart">
    <div class="chart-head">
      <h3 title=${name}><bdi>${name}</bdi></h3>
      ${data?.rank ? html`<span class="chart-rank quiet" title="Rank 0 reported nothing under this key">rank ${data.rank}</span>` : null}
      ${drawn && html`<${Reading} plot=${drawn} at=${at} x=${x} run=${run} />`}
    </div>
    <div class=${`chart-plot ${drawn?.x.length ? "" : "is-waiting"}`} ref=${box}></div>
  </div>`;
}

/** @param {Extent | null} extent @param {RunView["x"]} x @param {number} start_ms @returns {[number, number] | null} */
function rangeOf(extent, x, start_ms) {
  if (!extent) return null;
  const [low, high] = x === "step" ? extent.step : extent.time.map((t) => (t - start_ms) / 1000);
  return low < high ? [low, high] : [low - 1, high + 1];
}

/** @typedef {NonNullable<ReturnType<typeof plot>>} Drawn */

/** The point under the crosshair, else the last one of the newest attempt. @param {{ plot: Drawn, at: number | null, x: RunView["x"], run: RunState }} props */
function Reading({ plot: { x: xs, raw, smooth, left, last, odd, restarts }, at, x, run }) {
  const i = at !== null && at < xs.length ? at : last;
  if (i < 0) return html`<span class="quiet">no points</span>`;
  const here = x === "step" ? `step ${integer(xs[i])}` : duration(xs[i] * 1000);
  const strange = odd.find((o) => o.x === xs[i]);
  const known = raw[i] ?? left?.[i] ?? null;
  const value = known === null ? number(strange?.value) : number(known);
  const restart = at === null ? undefined : restarts.find((r) => Math.abs(xs.indexOf(r.x) - i) <= 1);
  const before = restart && run.attempts[restart.attempt - 1];
  return html`<span class="reading num">
    ${restart && html`<span class="quiet" title=${before ? reason(before) : ""}>attempt ${restart.attempt}${before ? ` · ${reason(before)}` : ""}</span>`}
    ${!restart && odd.length > 0 && html`<span class="odd" title="Values that are no finite numbers are marked below the curve">${integer(odd.length)} not finite</span>`}
    ${i > last && html`<span class="quiet" title="The newest attempt has not come as far as an older one did">older attempt</span>`}
    <span class="quiet">${here}</span>
    <b data-value>${value}</b>
    ${smooth && html`<span class="quiet">~${smooth[i] === null ? "–" : number(smooth[i])}</span>`}
  </span>`;
}
