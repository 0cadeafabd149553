// Which columns the list of runs shows: the known ones, and any metric or setting of the loaded runs. What
// stands in the menu; the button is the Runs page's.
/** @import { RunsView } from "../model/view.js" */

import { useState } from "preact/hooks";
import { columnOf, keysOf, KNOWN_IDS, usualIds } from "../model/columns.js";
import { search } from "../model/metric_keys.js";
import { adjust } from "../state/route.js";
import { list } from "../state/runs.js";
import { html } from "./html.js";
import { SearchBox } from "./search_box.js";

const MOST_SHOWN = 40;

/** @param {{ view: RunsView }} props */
export function ColumnsPanel({ view }) {
  const [q, setQ] = useState("");
  const { rows, metrics } = list.value;
  const chosen = view.col.length > 0 ? view.col : usualIds(metrics);
  const keys = keysOf(rows);
  const groups = [
    { title: "Columns", ids: KNOWN_IDS },
    { title: "Metrics", ids: keys.metrics.map((k) => `metric:${k}`) },
    { title: "Settings", ids: keys.settings.map((k) => `setting:${k}`) },
  ];
  /** @param {string} id */
  const toggle = (id) => {
    const col = chosen.includes(id) ? chosen.filter((c) => c !== id) : [...chosen, id];
    adjust({ ...view, col });
  };
  return html`<div class="columns-menu">
    <${SearchBox} value=${q} label="Search columns" onSearch=${setQ} />
    ${groups.map(({ title, ids }) => {
      const on = chosen.filter((id) => ids.includes(id));
      const found = search([...on, ...ids.filter((id) => !on.includes(id))], q);
      if (found.length === 0) return null;
      const left = found.length - MOST_SHOWN;
      return html`<fieldset key=${title}>
        <legend>${title}</legend>
        ${found.slice(0, MOST_SHOWN).map((id) => html`<label key=${id}><input type="checkbox" checked=${chosen.includes(id)} onChange=${() => toggle(id)} /><bdi>${columnOf(id)?.title}</bdi></label>`)}
        ${left > 0 && html`<p class="quiet">and ${left} more: search for them</p>`}
      </fieldset>`;
    })}
    ${view.col.length > 0 && html`<button class="button" onClick=${() => adjust({ ...view, col: [] })}>Usual columns</button>`}
  </div>`;
}
