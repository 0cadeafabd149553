// The Overview tab: the first failure if there was one, the attempts, the notes, and what the run was
// started with.
/** @import { FirstFailure } from "../types.js" */
/** @import { RunView } from "../model/view.js" */
/** @import { RunState } from "../state/run.js" */

import { exact, integer, number } from "../model/format.js";
import { areCut } from "../model/metric_keys.js";
import { endings, exitText, sentence } from "../model/status.js";
import { plain } from "../model/text.js";
import { flatten } from "../model/tree.js";
import { formatView, runView } from "../model/view.js";
import { adjust } from "../state/route.js";
import { Attempts } from "./attempts.js";
import { html } from "./html.js";
import { Lines } from "./lines.js";
import { Notes } from "./notes.js";
import { SearchBox } from "./search_box.js";
import { Glyph } from "./status.js";
import { Tags } from "./tags.js";

const METRICS_SHOWN = 10;
/** More settings than these are searched. */
const SETTINGS_SHOWN = 20;
/** A value of more characters may have more lines than its place shows at once. */
const LONG_VALUE = 200;

/** @param {{ view: RunView, run: RunState }} props */
export function Overview({ view, run }) {
  const versions = flatten(run.framework_versions);
  return html`<div class="overview">
    ${run.first_failure && html`<${Failure} failure=${run.first_failure} />`}
    <section>
      <h2>Attempts</h2>
      <${Attempts} run=${run} />
    </section>
    <div class="columns">
      <div>
        <${Notes} key=${run.id} run=${run} />
        <section>
          <h2>Last metrics</h2>
          <${LastMetrics} run=${run} />
        </section>
        <section>
          <h2>Controller</h2>
          <${Pairs} rows=${controllerRows(run)} />
        </section>
      </div>
      <div>
        <${Settings} view=${view} run=${run} />
        <${Tags} run=${run} />
        ${(run.datasets?.length ?? 0) > 0 && html`<section><h2>Datasets</h2><${Pairs} rows=${run.datasets.map((d) => [d.name, [d.dataset_name, d.dataset_uuid].filter(Boolean).join("  ")])} /></section>`}
        ${versions.length > 0 && html`<section><h2>Versions</h2><${Pairs} rows=${versions} /></section>`}
      </div>
    </div>
  </div>`;
}

/** @param {{ view: RunView, run: RunState }} props */
function Settings({ view, run }) {
  const all = flatten(run.settings);
  const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
  const searched = all.length > SETTINGS_SHOWN;
  const rows = searched
    ? all.filter(([key, value]) => words.every((w) => `${key} ${value}`.toLowerCase().includes(w)))
    : all;
  const none = all.length === 0 ? "This run was registered without settings." : "No setting has this text.";
  return html`<section>
    <div class="heading">
      <h2>Settings</h2>
      ${searched && html`<${SearchBox} value=${view.q} label="Search settings" onSearch=${(/** @type {string} */ q) => adjust({ ...view, q })} />`}
      ${searched && html`<span class="quiet num">${integer(rows.length)} of ${integer(all.length)}</span>`}
    </div>
    <div class=${searched ? "settings is-searched" : "settings"}><${Pairs} rows=${rows} none=${none} /></div>
  </section>`;
}

/** @param {{ run: RunState }} props */
function LastMetrics({ run }) {
  const all = Object.entries(run.last_metrics).sort(([a], [b]) => (a < b ? -1 : 1));
  /** @type {[string, string][]} */
  const rows = all.slice(0, METRICS_SHOWN).map(([key, value]) => [key, number(value)]);
  const more = all.length - rows.length;
  return html`<${Pairs} rows=${rows} none="No metric has been reported." />
    ${more > 0 && html`<p class="pairs-more"><a href=${formatView({ ...runView(run.id), tab: "metrics" })}>${integer(more)}${areCut(run.last_metrics) ? " or" : ""} more in Metrics</a></p>`}`;
}

/** @param {RunState} run @returns {[string, string][]} */
function controllerRows(run) {
  /** @type {[string, string][]} */
  const rows = [
    ["actor", run.controller_actor_id],
    ["status", run.controller_actor_status],
    ["state", run.controller_state ?? "not reported"],
  ];
  if (run.ended_by) rows.push(["ended by", run.ended_by]);
  if (run.noticed_at_ms) rows.push(["noticed", exact(run.noticed_at_ms)]);
  if (run.job_id) rows.push(["job", run.job_id]);
  return rows;
}

/** @param {{ failure: FirstFailure }} props */
function Failure({ failure }) {
  const who = failure.rank === null ? "The controller" : `Rank ${failure.rank}`;
  const how =
    failure.exit_code === null && !failure.signal
      ? "failed"
      : `ended with ${exitText({ code: failure.exit_code, signal: failure.signal })}`;
  const where = [failure.host && `on ${failure.host}`, failure.pid !== null && `pid ${failure.pid}`]
    .filter(Boolean)
    .join(", ");
  // The head's message usually says who and how by itself.
  const said = failure.message
    .toLowerCase()
    .startsWith(failure.rank === null ? "controller" : `rank ${failure.rank} `);
  return html`<section class="failure">
    <h2><${Glyph} shape="errored" />First failure</h2>
    <p class="failure-what">${said ? sentence(failure.message) : `${who} ${how}: ${plain(failure.message)}`}</p>
    <p class="quiet">
      attempt ${failure.attempt}${where && `, ${where}`}, <time>${exact(failure.time_ms)}</time>
    </p>
    ${failure.log_tail.length > 0 && html`<${Lines} text=${failure.log_tail.join("\n")} />`}
    ${
      failure.consequences.length > 0 &&
      html`<p class="quiet">As a consequence, ${endings(failure.consequences)}.</p>`
    }
  </section>`;
}

/** @param {{ rows: [string, string][], none?: string }} props */
function Pairs({ rows, none = "" }) {
  if (rows.length === 0) return html`<p class="quiet">${none}</p>`;
  // What may be too long for its place scrolls there, also by keys.
  const place = (/** @type {string} */ key, /** @type {string} */ value) =>
    value.length > LONG_VALUE && { tabindex: 0, role: "group", "aria-label": plain(key) };
  return html`<table class="pairs">
    <tbody>
      ${rows.map(([key, value]) => html`<tr key=${key}><th scope="row"><bdi>${plain(key)}</bdi></th><td><div ...${place(key, value)}><bdi>${plain(value)}</bdi></div></td></tr>`)}
    </tbody>
  </table>`;
}
