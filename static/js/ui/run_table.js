// The table of runs: its head, by which it is sorted, and of its rows those that are in sight. Columns
// have fixed widths, so nothing moves when data arrives.
/** @import { Column } from "../model/columns.js" */
/** @import { RunsView } from "../model/view.js" */

import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { seriesStyles } from "../model/color.js";
import { columns as columnsOf, FIRST, nextSort, PHONE_REM, sortedBy, widthOf } from "../model/columns.js";
import { stretch, toggle, toggleAll } from "../model/selection.js";
import { NEWEST_FIRST } from "../model/view.js";
import { adjust } from "../state/route.js";
import { error, list, loading, loadMore, scrolled } from "../state/runs.js";
import { html } from "./html.js";
import { bind } from "./keyboard.js";
import { RunRow } from "./run_row.js";
import { useAnchor, useMedia, useRem, useWindow } from "./window.js";

/** How many rows before the end of what is loaded the next page is asked for: not yet when the first is there. */
const ahead = (/** @type {number} */ loaded) => Math.min(100, loaded * 0.2);

/** @param {{ view: RunsView, foot: any }} props `foot` follows the last row */
export function RunTable({ view, foot }) {
  const { rows, token, metrics, view: loadedFor } = list.value;
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const phone = useMedia(`(max-width: ${PHONE_REM}rem)`);
  const rem = useRem();
  const rowPx = rem * (phone ? 3.75 : 2);
  const ids = useMemo(() => rows.map((r) => r.id), [rows]);
  const { from, to, last, width } = useWindow(frame, rows.length, rowPx);
  useAnchor(frame, ids, rowPx, loadedFor);
  useScrollKept(frame, loadedFor);
  // Also when something else was loaded meanwhile, for that broke off what was asked for.
  const busy = loading.value;
  useEffect(() => {
    scrolled.rows = last;
    // After an error the reader asks (the button below the rows), or the stream that comes back.
    if (token && !busy && !error.peek() && last > rows.length - ahead(rows.length)) void loadMore();
  }, [last, token, rows.length, busy]);
  const fits = columnsOf(view.col, metrics, phone ? 0 : width / rem);
  const columns = useMemo(() => fits, [fits.map((c) => c.id).join("\n")]);
  const onSelect = useSelecting(view, ids);
  const styles = useMemo(() => seriesStyles(view.selected), [view.selected.join()]);
  // The same head is not drawn again with each step of a scroll.
  const head = useMemo(
    () => html`<${Heads} view=${view} columns=${columns} ids=${ids} />`,
    [view, columns, ids],
  );
  return html`<div class="table-frame" ref=${frame} tabindex="-1">
    <table class="runs" style=${{ "--width": `${widthOf(columns)}rem` }} aria-rowcount=${rows.length + 1}>
      ${head}
      <tbody>
        <tr class="space" aria-hidden="true"><td style=${{ height: `${from * rowPx}px` }}></td></tr>
        ${rows.slice(from, to).map((run) => html`<${RunRow} key=${run.id} run=${run} columns=${columns} style=${styles.get(run.id)} onSelect=${onSelect} />`)}
        <tr class="space" aria-hidden="true"><td style=${{ height: `${(rows.length - to) * rowPx}px` }}></td></tr>
      </tbody>
    </table>
    ${foot}
  </div>`;
}

/** @param {{ view: RunsView, columns: Column[], ids: string[] }} props */
function Heads({ view, columns, ids }) {
  const selected = new Set(view.selected);
  return html`<thead>
    <tr>
      <th class="c-select" scope="col">
        <label>
          <input
            type="checkbox"
            aria-label="Select all runs that are loaded"
            checked=${ids.length > 0 && ids.every((id) => selected.has(id))}
            onClick=${() => adjust({ ...view, selected: toggleAll(view.selected, ids) })}
          />
        </label>
      </th>
      ${[...FIRST, ...columns].map((c) => html`<${Head} key=${c.id} column=${c} view=${view} />`)}
      <th class="c-actions" scope="col"><span class="visually-hidden">Actions</span></th>
    </tr>
  </thead>`;
}

/** @param {{ column: Column, view: RunsView }} props */
function Head({ column, view }) {
  const { id, title, num, sort, width } = column;
  const kind = id.startsWith("metric:") ? "metric" : id.startsWith("setting:") ? "setting" : id.split(":")[0];
  const way = sortedBy(column, view.sort);
  const name = html`<span class="head-name"><bdi>${title}</bdi></span>`;
  const choose = () => adjust({ ...view, sort: nextSort(column, view.sort, NEWEST_FIRST) });
  return html`<th
    class=${`c-${kind} ${num ? "num" : ""}`}
    scope="col"
    aria-sort=${way}
    title=${title}
    style=${{ "--col": `${width}rem` }}
  >
    ${sort ? html`<button class="plain sort" onClick=${choose}>${name}<${Arrow} way=${way} /></button>` : name}
  </th>`;
}

/** Its place is reserved, so that a head does not move when it is sorted by. @param {{ way: string | undefined }} props */
function Arrow({ way }) {
  return html`<svg class=${`arrow is-${way ?? "none"}`} viewBox="0 0 8 8" aria-hidden="true"><path d="M4 1v6M1.5 4.5L4 7l2.5-2.5" /></svg>`;
}

/** Who comes back to the list finds it where it was; another question begins at the top. @param {import("preact").RefObject<HTMLElement | null>} frame @param {RunsView | null} loadedFor */
function useScrollKept(frame, loadedFor) {
  const first = useRef(true);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    if (!first.current) element.scrollTop = 0;
    else if (list.peek().view !== null) element.scrollTop = scrolled.to;
    first.current = loadedFor === null;
  }, [loadedFor]);
  // Read when it is needed: to ask for it at each step of a scroll would have the page laid out at each.
  useLayoutEffect(() => () => void (scrolled.to = frame.current?.scrollTop ?? scrolled.to), []);
}

/** By a click on a box, with Shift all between, or by `x` on the row that has the focus. @param {RunsView} view @param {string[]} ids */
function useSelecting(view, ids) {
  const latest = useRef({ view, ids });
  latest.current = { view, ids };
  const from = useRef(/** @type {string | null} */ (null));
  const select = useMemo(
    () => (/** @type {string} */ id, /** @type {boolean} */ many) => {
      const now = latest.current;
      const { selected } = now.view;
      const next = many && from.current ? stretch(selected, now.ids, from.current, id) : toggle(selected, id);
      from.current = id;
      adjust({ ...now.view, selected: next });
    },
    [],
  );
  useEffect(
    () =>
      bind("x", () => {
        const row = document.activeElement?.closest("tr[data-run]");
        const id = row?.getAttribute("data-run");
        if (id) select(id, false);
      }),
    [],
  );
  return select;
}
