// The legend of the Compare page: each run with its line, how it stands, and a way to leave it out.
/** @import { Style } from "../model/color.js" */
/** @import { CompareView } from "../model/view.js" */
/** @import { Entry } from "../state/compare.js" */

import { plain } from "../model/text.js";
import { formatView, runView } from "../model/view.js";
import { go } from "../state/route.js";
import { html } from "./html.js";
import { Mark, RunMark } from "./status.js";
import { Swatch } from "./swatch.js";
import { Ago, RunDuration } from "./time.js";

/** @param {{ view: CompareView, ids: string[], entries: Map<string, Entry>, styles: Map<string, Style> }} props */
export function CompareRuns({ view, ids, entries, styles }) {
  const missing = ids.filter((id) => entries.get(id)?.missing);
  /** @param {string[]} gone */
  const without = (gone) => go({ ...view, runs: view.runs.filter((id) => !gone.includes(id)) });
  return html`<div class="compare-runs" tabindex="0" role="region" aria-label="Runs that are compared">
      <table class="grid">
        <thead>
          <tr>
            <th class="r-name" scope="col">Run</th>
            <th class="r-status" scope="col">Status</th>
            <th class="r-experiment" scope="col">Experiment</th>
            <th class="r-started num" scope="col">Started</th>
            <th class="r-duration num" scope="col">Duration</th>
            <th class="r-remove" scope="col"><span class="visually-hidden">Remove</span></th>
          </tr>
        </thead>
        <tbody>
          ${ids.map((id) => html`<${LegendRow} key=${id} id=${id} entry=${entries.get(id)} style=${styles.get(id)} remove=${() => without([id])} />`)}
        </tbody>
      </table>
    </div>
    ${missing.length > 1 && html`<p class="compare-note"><button class="button" onClick=${() => without(missing)}>Remove the ${missing.length} runs that are not there</button></p>`}`;
}

/** @param {{ id: string, entry: Entry | undefined, style: Style | undefined, remove: () => void }} props */
function LegendRow({ id, entry, style, remove }) {
  const run = entry?.run ?? null;
  const name = plain(run?.name ?? id);
  /** The focus stays in the table: it goes to the row that takes the place. @param {any} e */
  const onRemove = (e) => {
    const row = e.currentTarget.closest("tr");
    const next = row.nextElementSibling ?? row.previousElementSibling;
    next?.querySelector("button")?.focus({ preventScroll: true });
    remove();
  };
  const link = run
    ? html`<a href=${formatView(runView(id))} data-row-link title=${`${name}\n${id}`}><bdi>${name}</bdi></a>`
    : html`<span class="mono quiet" title=${id}>${name}</span>`;
  return html`<tr data-run=${id}>
    <td class="r-name"><span class="run-key">${style ? html`<${Swatch} ...${style} />` : html`<span class="swatch"></span>`}${link}</span></td>
    ${run && !entry?.missing ? html`<${Facts} run=${run} />` : html`<td class="r-error" colspan="4"><${Absent} entry=${entry} /></td>`}
    <td class="r-remove"><button class="button is-quiet" aria-label=${`Remove ${name} from the comparison`} title="Remove from the comparison" onClick=${onRemove}>✕</button></td>
  </tr>`;
}

/** @param {{ run: NonNullable<Entry["run"]> }} props */
function Facts({ run }) {
  const experiment = plain(run.experiment ?? "");
  return html`<td class="r-status"><${RunMark} run=${run} /></td>
    <td class="r-experiment" title=${experiment}><bdi>${experiment}</bdi></td>
    <td class="r-started num"><${Ago} at=${run.start_time_ms} /></td>
    <td class="r-duration num"><${RunDuration} run=${run} /></td>`;
}

/** @param {{ entry: Entry | undefined }} props */
function Absent({ entry }) {
  if (!entry) return html`<span class="quiet">Loading…</span>`;
  const [word, detail] = entry.missing ? ["There is no such run", ""] : ["Could not be loaded", entry.error];
  return html`<${Mark} shape="errored" word=${word} detail=${detail} />`;
}
