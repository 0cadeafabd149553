// The Runs page: search, filter chips, and the table of what is loaded, which grows as one scrolls.
/** @import { RunStatus } from "../types.js" */
/** @import { RunsView } from "../model/view.js" */

import { useEffect, useRef, useState } from "preact/hooks";
import { count, integer } from "../model/format.js";
import { STATUSES, word } from "../model/status.js";
import { adjust } from "../state/route.js";
import { error, hideRuns, list, loading, loadMore, showRuns } from "../state/runs.js";
import { EmptyHead } from "./empty.js";
import { html } from "./html.js";
import { OnSight } from "./on_sight.js";
import { RunTable } from "./run_table.js";
import { Glyph } from "./status.js";

const TYPING_PAUSE_MS = 120;

/** @param {{ view: RunsView }} props */
export function RunsPage({ view }) {
  useEffect(() => void (document.title = "Runs · TrainHead"), []);
  useEffect(() => hideRuns, []);
  useEffect(() => showRuns(view), [view]);
  const { rows, counts, view: loadedFor } = list.value;
  const filtered = view.q.trim() !== "" || view.status.length > 0;
  const empty = loadedFor !== null && rows.length === 0 && loading.value === null && !error.value;
  const loadedAll = loadedFor !== null && loadedFor.q === "" && counts && total(counts) === 0;
  return html`<main>
    <div class="toolbar">
      <h1 class="visually-hidden">Runs</h1>
      <${Search} view=${view} />
      <${Chips} view=${view} />
    </div>
    ${error.value && html`<p class="problem" role="alert">${error.value}</p>`}
    ${
      empty && !filtered && loadedAll
        ? html`<${EmptyHead} />`
        : html`<${RunTable} rows=${rows} />
          ${empty && html`<p class="nothing">No run matches. <a href="./">Show all runs</a></p>`}
          <${More} />`
    }
  </main>`;
}

/** @param {Record<RunStatus, number>} counts */
const total = (counts) => STATUSES.reduce((sum, s) => sum + counts[s], 0);

/** @param {{ view: RunsView }} props */
function Search({ view }) {
  const [text, setText] = useState(view.q);
  const latest = useRef(view);
  latest.current = view;
  // A search of our own that comes back must not undo what was typed meanwhile.
  const sent = useRef(view.q);
  useEffect(() => {
    if (view.q !== sent.current) setText(view.q);
    sent.current = view.q;
  }, [view.q]);
  useEffect(() => {
    if (text === latest.current.q) return undefined;
    const timer = setTimeout(() => {
      sent.current = text;
      adjust({ ...latest.current, q: text });
    }, TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<input
    type="search"
    class="search"
    placeholder="Search name, id, job or tag"
    aria-label="Search runs"
    aria-keyshortcuts="/"
    spellcheck=${false}
    autocomplete="off"
    value=${text}
    onInput=${(/** @type {any} */ e) => setText(e.target.value)}
  />`;
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

/** The end of the table: how much is loaded, and the place whose coming into sight loads more. */
function More() {
  const { rows, token, total: all, view: loadedFor } = list.value;
  if (loadedFor === null) return html`<p class="more">${error.value ? "" : "Loading runs…"}</p>`;
  const text = token ? `${integer(rows.length)} of ${count(all, "run")}` : count(rows.length, "run");
  return html`<p class="more">
    ${text}${token && error.value && html` <button class="button" onClick=${loadMore}>Load more</button>`}
    ${token && html`<${OnSight} key=${token} load=${loadMore} />`}
  </p>`;
}
