// The Experiments page: what the runs belong to, how many of them stand how, and the newest one.
/** @import { ExperimentsView } from "../model/view.js" */
/** @import { Counts, Experiment } from "../types.js" */

import { useEffect } from "preact/hooks";
import { count, integer } from "../model/format.js";
import { STATUSES, word } from "../model/status.js";
import { plain } from "../model/text.js";
import { ALL_RUNS, formatView, runView } from "../model/view.js";
import { adjust } from "../state/route.js";
import { openExperiments } from "../state/experiments.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { OnSight } from "./on_sight.js";
import { SearchBox } from "./search_box.js";
import { Glyph } from "./status.js";
import { Ago } from "./time.js";

/** @param {{ view: ExperimentsView }} props */
export function ExperimentsPage({ view }) {
  const opened = useOpened(openExperiments, []);
  useEffect(() => void (document.title = "Experiments · TrainHead"), []);
  const { experiments, token, loaded } = opened.page.value;
  const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
  const found = experiments.filter((e) => words.every((w) => e.name.toLowerCase().includes(w)));
  // What is looked for may stand on a page that is not here yet.
  useEffect(() => {
    if (words.length > 0 && token) opened.loadMore();
  }, [view.q, token]);
  const empty = loaded && experiments.length === 0;
  return html`<main class="experiments" aria-busy=${!loaded}>
    <div class="toolbar">
      <h1 class="visually-hidden">Experiments</h1>
      <${SearchBox} value=${view.q} label="Search experiments" onSearch=${(/** @type {string} */ q) => adjust({ ...view, q })} />
      <span class="quiet" role="status">${loaded && !empty && shownOf(found.length, experiments.length, words.length > 0, token !== null)}</span>
    </div>
    ${opened.error.value && html`<p class="problem" role="alert">${opened.error.value}</p>`}
    ${!loaded && !opened.error.value && html`<p class="quiet tab-note">Loading experiments…</p>`}
    ${empty && html`<${NoExperiments} />`}
    ${found.length > 0 && html`<${Table} experiments=${found} />`}
    ${loaded && !empty && found.length === 0 && !token && html`<p class="nothing">No experiment matches. <a href="experiments">Show all experiments</a></p>`}
    ${token && html`<p class="more">Loading more…<${OnSight} key=${token} load=${opened.loadMore} /></p>`}
  </main>`;
}

/** @param {number} found @param {number} all @param {boolean} searched @param {boolean} more */
function shownOf(found, all, searched, more) {
  const known = count(all, "experiment");
  if (searched) return `${integer(found)} of ${known}${more ? " so far" : ""}`;
  return more ? `the first ${known}` : known;
}

/** @param {{ experiments: Experiment[] }} props */
function Table({ experiments }) {
  return html`<table class="grid experiments-table">
    <thead>
      <tr>
        <th scope="col" class="x-name">Experiment</th>
        <th scope="col" class="x-runs num">Runs</th>
        <th scope="col" class="x-bar"><span class="visually-hidden">Statuses</span></th>
        ${STATUSES.map((s) => html`<th key=${s} scope="col" class=${`x-count num ${s === "STARTED" ? "is-live" : ""}`}>${word(s)}</th>`)}
        <th scope="col" class="x-newest">Newest run</th>
        <th scope="col" class="x-when num">When</th>
      </tr>
    </thead>
    <tbody>
      ${experiments.map((e) => html`<${Row} key=${e.name} experiment=${e} />`)}
    </tbody>
  </table>`;
}

/** @param {{ experiment: Experiment }} props */
function Row({
  experiment: { name, num_runs, counts, newest_run_id: newest, newest_run_name, newest_start_time_ms },
}) {
  const text = plain(name);
  return html`<tr data-experiment=${name}>
    <td class="x-name"><a href=${formatView({ ...ALL_RUNS, experiment: name })} data-row-link title=${text}><bdi>${text}</bdi></a></td>
    <td class="x-runs num">${integer(num_runs)}<span class="x-unit"> ${num_runs === 1 ? "run" : "runs"}</span></td>
    <td class="x-bar"><${Bar} counts=${counts} /></td>
    ${STATUSES.map(
      (
        s,
      ) => html`<td key=${s} class="x-count num" title=${`${integer(counts[s] ?? 0)} ${word(s).toLowerCase()}`}>
      ${counts[s] > 0 && html`<span class=${`x-shape is-${s.toLowerCase()}`}><${Glyph} shape=${s.toLowerCase()} /></span>${integer(counts[s])}`}
    </td>`,
    )}
    <td class="x-newest">${newest !== null && html`<a href=${formatView(runView(newest))} title=${plain(newest)}><bdi>${plain(newest_run_name ?? newest)}</bdi></a>`}</td>
    <td class="x-when num"><${Ago} at=${newest_start_time_ms} /></td>
  </tr>`;
}

/** What share of the runs stands how. @param {{ counts: Counts }} props */
function Bar({ counts }) {
  const present = STATUSES.filter((s) => counts[s] > 0);
  const words = present.map((s) => `${integer(counts[s])} ${word(s).toLowerCase()}`).join(", ");
  return html`<span class="status-bar" role="img" aria-label=${words} title=${words}>
    ${present.map((s) => html`<span key=${s} class=${`is-${s.toLowerCase()}`} style=${{ flexGrow: counts[s] }}></span>`)}
  </span>`;
}

function NoExperiments() {
  return html`<section class="empty">
    <h2>No experiments yet</h2>
    <p>An experiment is a name that runs share. It exists as soon as a run names it, and is never made by hand.</p>
    <ol>
      <li><h3>On the command line</h3><pre class="command">trainhead run --experiment digits --workers 2 -- python3 train.py</pre></li>
      <li><h3>Over HTTP</h3><p>The field <code class="mono">experiment</code> of the body that registers a run.</p><pre class="command">{"name": "my-run", "experiment": "digits", "controller": {"actor_id": "shell"}}</pre></li>
    </ol>
  </section>`;
}
