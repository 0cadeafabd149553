// The Compare page: which runs, as a legend, and the tabs: their curves, their settings, their sweep. The
// charts bring code that the other tabs do not need, so they are loaded when first opened.
/** @import { Style } from "../model/color.js" */
/** @import { CompareView } from "../model/view.js" */
/** @import { FullRun } from "../types.js" */

import { useEffect, useMemo } from "preact/hooks";
import { seriesStyles } from "../model/color.js";
import { count } from "../model/format.js";
import { word } from "../model/status.js";
import { ALL_RUNS, COMPARE_TABS, formatView, MOST_SELECTED } from "../model/view.js";
import { openCompare } from "../state/compare.js";
import { CompareRuns } from "./compare_runs.js";
import { CompareSettings } from "./compare_settings.js";
import { CompareSweep } from "./compare_sweep.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { later } from "./later.js";

const CompareCharts = later(async () => (await import("./compare_charts.js")).CompareCharts);

/** @param {{ view: CompareView }} props */
export function ComparePage({ view }) {
  const compare = useOpened(openCompare, []);
  const ids = useMemo(() => view.runs.slice(0, MOST_SELECTED), [view.runs.join(",")]);
  useEffect(() => compare.show(ids), [ids]);
  const title = ids.length > 0 ? `Compare ${count(ids.length, "run")}` : "Compare";
  useEffect(() => void (document.title = `${title} · TrainHead`), [title]);

  const entries = compare.entries.value;
  const runs = useMemo(
    () => ids.map((id) => entries.get(id)?.run ?? null).filter((run) => run !== null),
    [ids, entries],
  );
  const loading = ids.some((id) => !entries.has(id));
  // As the charts have it: of the runs that are there.
  const drawn = ids.filter((id) => !entries.has(id) || entries.get(id)?.run);
  const styles = useMemo(() => seriesStyles(drawn), [drawn.join(",")]);
  if (ids.length === 0) return html`<${NothingChosen} />`;
  return html`<main class="compare" aria-busy=${loading}>
    <header class="compare-head">
      <h1>${title}</h1>
      <a href=${formatView({ ...ALL_RUNS, selected: ids })}>Choose other runs</a>
    </header>
    ${view.runs.length > MOST_SELECTED && html`<p class="compare-note" role="status">More than ${MOST_SELECTED} runs are named: the first ${MOST_SELECTED} are compared.</p>`}
    ${ids.length === 1 && html`<p class="compare-note" role="status">One run alone has nothing to be compared with. <a href=${formatView({ ...ALL_RUNS, selected: ids })}>Select another in the list</a>.</p>`}
    <${CompareRuns} view=${view} ids=${ids} entries=${entries} styles=${styles} />
    <nav class="tabs" aria-label="Parts of the comparison">
      ${COMPARE_TABS.map((tab) => html`<a key=${tab} href=${formatView({ ...view, tab })} aria-current=${tab === view.tab ? "page" : undefined}>${word(tab)}</a>`)}
    </nav>
    <${Body} view=${view} runs=${runs} styles=${styles} loading=${loading} />
  </main>`;
}

/** @param {{ view: CompareView, runs: FullRun[], styles: Map<string, Style>, loading: boolean }} props */
function Body({ view, runs, styles, loading }) {
  if (loading) return html`<p class="quiet tab-note">Loading…</p>`;
  if (runs.length === 0) return html`<p class="quiet tab-note">None of these runs is there.</p>`;
  if (view.tab === "settings") return html`<${CompareSettings} view=${view} runs=${runs} styles=${styles} />`;
  if (view.tab === "sweep") return html`<${CompareSweep} view=${view} runs=${runs} styles=${styles} />`;
  return html`<${CompareCharts} view=${view} runs=${runs} />`;
}

function NothingChosen() {
  return html`<main>
    <section class="empty">
      <h2>No runs are chosen</h2>
      <p>Compare puts runs side by side: their curves, what differs in their settings, and which settings did best.</p>
      <ol>
        <li><h3>Select runs in the list</h3><p>By the boxes at the left, or with <kbd>j</kbd> and <kbd>k</kbd> to walk the rows and <kbd>x</kbd> to select one. Up to ${MOST_SELECTED} can be compared.</p></li>
        <li><h3>Press Compare</h3><p>The address that you then see names the runs: whoever opens it sees the same.</p></li>
      </ol>
      <p><a href="./">All runs</a></p>
    </section>
  </main>`;
}
