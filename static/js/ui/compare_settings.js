// The Settings tab of Compare: a row a setting, a column a run. Only what differs is shown unless all is
// asked for; what is not as in the first run is marked by weight and a bar.
/** @import { Style } from "../model/color.js" */
/** @import { CompareView } from "../model/view.js" */
/** @import { FullRun } from "../types.js" */
/** @import { DiffGroup, DiffRow } from "../model/settings_diff.js" */

import { useMemo } from "preact/hooks";
import { count, integer, NOTHING } from "../model/format.js";
import { compareSettings } from "../model/settings_diff.js";
import { plain } from "../model/text.js";
import { formatView, runView } from "../model/view.js";
import { adjust } from "../state/route.js";
import { html } from "./html.js";
import { Segmented } from "./segmented.js";
import { Swatch } from "./swatch.js";

const ROWS = /** @type {const} */ ([
  ["differing", "Differing"],
  ["all", "All"],
]);

/** @param {{ view: CompareView, runs: FullRun[], styles: Map<string, Style> }} props */
export function CompareSettings({ view, runs, styles }) {
  const groups = useMemo(() => compareSettings(runs), [runs]);
  const all = view.rows === "all" || runs.length === 1;
  const equal = groups.reduce((sum, g) => sum + g.equal, 0);
  const settings = groups.find((g) => g.one === "setting");
  return html`<div class="compare-bar">
      <${Segmented} label="Rows" value=${all ? "all" : "differing"} options=${ROWS} onChoose=${(/** @type {any} */ rows) => adjust({ ...view, rows })} />
      <span class="quiet" role="status">${
        all || equal === 0
          ? count(
              groups.reduce((n, g) => n + g.rows.length, 0),
              "row",
            )
          : `${settings && settings.equal > 0 ? `${integer(settings.equal)} equal ${settings.equal === 1 ? "setting" : "settings"}` : `${count(equal, "equal row")}`} hidden`
      }</span>
      ${runs.length > 1 && html`<span class="quiet">A bar and bold text: not as in the first run</span>`}
    </div>
    <div class="diff-frame" tabindex="0" role="region" aria-label="Settings side by side">
      <table class="diff">
        <thead>
          <tr>
            <th scope="col" class="d-key">Setting</th>
            ${runs.map((run, i) => html`<${RunHead} key=${run.id} run=${run} style=${styles.get(run.id)} first=${i === 0 && runs.length > 1} />`)}
          </tr>
        </thead>
        ${groups.map((group) => html`<${Group} key=${group.name} group=${group} all=${all} ids=${runs.map((r) => r.id)} />`)}
      </table>
    </div>`;
}

/** @param {{ run: FullRun, style: Style | undefined, first: boolean }} props */
function RunHead({ run, style, first }) {
  const name = plain(run.name);
  return html`<th scope="col" class="d-run">
    <span class="run-key"><${Swatch} ...${style} /><a href=${formatView(runView(run.id))} title=${`${name}\n${run.id}`}><bdi>${name}</bdi></a></span>
    ${first && html`<span class="d-first">baseline</span>`}
  </th>`;
}

/** @param {{ group: DiffGroup, all: boolean, ids: string[] }} props */
function Group({ group, all, ids }) {
  const rows = all ? group.rows : group.rows.filter((r) => r.differs);
  const hidden = group.rows.length - rows.length;
  return html`<tbody>
    <tr class="d-group">
      <th scope="rowgroup" class="d-key">${group.name} ${hidden > 0 && html`<span class="quiet">${integer(hidden)} equal</span>`}</th>
      <td colspan=${ids.length}></td>
    </tr>
    ${rows.map((row) => html`<${Row} key=${row.key} row=${row} ids=${ids} />`)}
  </tbody>`;
}

/** @param {{ row: DiffRow, ids: string[] }} props */
function Row({ row, ids }) {
  const key = plain(row.key);
  return html`<tr class=${row.differs ? "" : "is-equal"} data-setting=${row.key}>
    <th scope="row" class="d-key" title=${key}><bdi>${key}</bdi></th>
    ${row.values.map((value, i) => {
      const other = value !== row.values[0];
      const text = value === null ? null : plain(value);
      return html`<td key=${ids[i]} class=${`${row.numeric ? "num" : ""} ${other ? "is-other" : ""}`} title=${text ?? "It has none"}>
        ${text === null ? html`<span class="quiet">${NOTHING}</span>` : html`<bdi>${text}</bdi>`}${other && html`<span class="visually-hidden"> differs</span>`}
      </td>`;
    })}
  </tr>`;
}
