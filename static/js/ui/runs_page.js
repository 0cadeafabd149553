// The Runs page: search, filters, and the table of runs, which loads further pages as one scrolls.
/** @import { RunStatus } from "../types.js" */
/** @import { RunsView } from "../model/view.js" */

import { useEffect } from "preact/hooks";
import { count, integer } from "../model/format.js";
import { STATUSES, word } from "../model/status.js";
import { ALL_RUNS, formatView, NEWEST_FIRST } from "../model/view.js";
import { adjust } from "../state/route.js";
import { error, hideRuns, list, loadMore, showRuns, sortAgain } from "../state/runs.js";
import { html } from "./html.js";
import { later } from "./later.js";
import { Menu } from "./menu.js";
import { RunTable } from "./run_table.js";
import { SearchBox } from "./search_box.js";
import { Glyph } from "./status.js";

const EmptyHead = later(async () => (await import("./empty.js")).EmptyHead);
const ColumnsPanel = later(async () => (await import("./columns_panel.js")).ColumnsPanel);
const SelectionBar = later(async () => (await import("./selection_bar.js")).SelectionBar);

/** @param {{ view: RunsView }} props */
export function RunsPage({ view }) {
  const title = view.trashed ? "Trash" : view.experiment || "Runs";
  useEffect(() => void (document.title = `${title} · TrainHead`), [title]);
  useEffect(() => hideRuns, []);
  useEffect(() => void showRuns(view), [view]);
  const { rows, counts, view: loadedFor } = list.value;
  const empty = loadedFor !== null && rows.length === 0 && !error.value;
  // What is missing was missed by what was asked, which may be another question than the one that is being asked.
  const asked = loadedFor ?? view;
  const filtered = isNarrowed(asked);
  const nothingAtAll = empty && !filtered && !asked.trashed && counts && total(counts) === 0;
  return html`<main class="runs-page">
    <div class="toolbar">
      <h1 class="visually-hidden">${title}</h1>
      <${SearchBox}
        value=${view.q}
        label="Search runs"
        placeholder="Search name, id, job or tag"
        onSearch=${(/** @type {string} */ text) => adjust({ ...view, q: text })}
      />
      <${Chips} view=${view} />
      <${Filters} view=${view} />
      <span class="grow"></span>
      <${Unsorted} view=${view} />
      <${Menu} label="Columns" title="Choose columns"><${ColumnsPanel} view=${view} /><//>
      <button class="button" aria-pressed=${view.trashed} onClick=${() => adjust({ ...view, trashed: !view.trashed, selected: [] })}>
        Trash
      </button>
    </div>
    ${error.value && html`<p class="problem" role="alert">${error.value}</p>`}
    ${
      nothingAtAll
        ? html`<${EmptyHead} />`
        : html`<${RunTable} view=${view} foot=${empty ? html`<${Nothing} view=${asked} filtered=${filtered} />` : html`<${More} />`} />`
    }
    ${view.selected.length > 0 && html`<${SelectionBar} view=${view} />`}
  </main>`;
}

/** @param {RunsView} view */
const isNarrowed = ({ status, q, experiment, tag }) =>
  status.length > 0 || q.trim() !== "" || experiment !== "" || tag.length > 0;

/** @param {Record<RunStatus, number>} counts */
const total = (counts) => STATUSES.reduce((sum, s) => sum + counts[s], 0);

/** @param {{ view: RunsView, filtered: boolean }} props */
function Nothing({ view, filtered }) {
  if (view.trashed && !filtered) {
    return html`<p class="nothing">
      The trash is empty. Runs that are deleted stay here until <code>trainhead gc --purge</code> frees their
      space. <a href="./">All runs</a>
    </p>`;
  }
  const { col, sort } = view;
  return html`<p class="nothing">
    No run matches. <a href=${formatView({ ...ALL_RUNS, col, sort })}>Show all runs</a>
  </p>`;
}

/** @param {{ view: RunsView }} props */
function Chips({ view }) {
  const { counts } = list.value;
  /** @param {RunStatus} s */
  const toggle = (s) => {
    const on = view.status.includes(s);
    const status = STATUSES.filter((t) => (t === s ? !on : view.status.includes(t)));
    adjust({ ...view, status });
  };
  return html`<div class="chips" role="group" aria-label="Filter by status">
    <button class="chip" aria-pressed=${view.status.length === 0} onClick=${() => adjust({ ...view, status: [] })}>
      All <span class="num">${counts ? integer(total(counts)) : ""}</span>
    </button>
    ${STATUSES.map(
      (
        s,
      ) => html`<button class="chip" key=${s} aria-pressed=${view.status.includes(s)} onClick=${() => toggle(s)}>
        <${Glyph} shape=${s.toLowerCase()} />${word(s)} <span class="num">${counts ? integer(counts[s]) : ""}</span>
      </button>`,
    )}
  </div>`;
}

/** What else the list is narrowed by, each to be taken away. @param {{ view: RunsView }} props */
function Filters({ view }) {
  const all = [
    ...(view.experiment ? [{ text: view.experiment, without: { ...view, experiment: "" } }] : []),
    ...view.tag.map((t) => ({ text: t, without: { ...view, tag: view.tag.filter((o) => o !== t) } })),
  ];
  return all.map(
    ({
      text,
      without,
    }) => html`<button class="filter" key=${text} aria-label=${`Without the filter ${text}`} title=${text} onClick=${() => adjust(without)}>
      <bdi>${text}</bdi><span aria-hidden="true">✕</span>
    </button>`,
  );
}

/** In an order other than the newest first, rows stay where they are until somebody asks. @param {{ view: RunsView }} props */
function Unsorted({ view }) {
  const { unsorted } = list.value;
  if (view.sort === NEWEST_FIRST || unsorted === 0) return null;
  return html`<button class="button" onClick=${sortAgain}>${count(unsorted, "change")}: sort again</button>`;
}

/** The end of the table: how much is loaded. */
function More() {
  const { rows, token, total: all, view: loadedFor } = list.value;
  if (loadedFor === null) return html`<p class="more">${error.value ? "" : "Loading runs…"}</p>`;
  const text = token ? `${integer(rows.length)} of ${count(all, "run")}` : count(rows.length, "run");
  return html`<p class="more">
    ${text}${token && error.value && html` <button class="button" onClick=${loadMore}>Load more</button>`}
  </p>`;
}
