// The Overview tab: the first failure if there was one, the attempts, and what the run was
// started with.
/** @import { FirstFailure } from "../types.js" */
/** @import { RunState } from "../state/run.js" */

import { exact, integer, number } from "../model/format.js";
import { endings, exitText, sentence } from "../model/status.js";
import { plain } from "../model/text.js";
import { flatten } from "../model/tree.js";
import { formatView, runView } from "../model/view.js";
import { Attempts } from "./attempts.js";
import { html } from "./html.js";
import { Lines } from "./lines.js";
import { Glyph } from "./status.js";

const METRICS_SHOWN = 10;

/** @param {{ run: RunState }} props */
export function Overview({ run }) {
  const tags = Object.entries(run.tags);
  const versions = flatten(run.framework_versions);
  return html`<div class="overview">
    ${run.first_failure && html`<${Failure} failure=${run.first_failure} />`}
    <section>
      <h2>Attempts</h2>
      <${Attempts} run=${run} />
    </section>
    <div class="columns">
      <section>
        <h2>Last metrics</h2>
        <${LastMetrics} run=${run} />
        <h2>Controller</h2>
        <${Pairs} rows=${controllerRows(run)} />
      </section>
      <section>
        <h2>Settings</h2>
        <${Pairs} rows=${flatten(run.settings)} none="This run was registered without settings." />
        ${tags.length > 0 && html`<h2>Tags</h2><${Pairs} rows=${tags} />`}
        ${versions.length > 0 && html`<h2>Versions</h2><${Pairs} rows=${versions} />`}
      </section>
    </div>
  </div>`;
}

/** @param {{ run: RunState }} props */
function LastMetrics({ run }) {
  const all = Object.entries(run.last_metrics).sort(([a], [b]) => (a < b ? -1 : 1));
  /** @type {[string, string][]} */
  const rows = all.slice(0, METRICS_SHOWN).map(([key, value]) => [key, number(value)]);
  const more = all.length - rows.length;
  return html`<${Pairs} rows=${rows} none="No metric has been reported." />
    ${more > 0 && html`<p class="pairs-more"><a href=${formatView({ ...runView(run.id), tab: "metrics" })}>${integer(more)} more in Metrics</a></p>`}`;
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
  return html`<table class="pairs">
    <tbody>
      ${rows.map(([key, value]) => html`<tr key=${key}><th scope="row"><bdi>${plain(key)}</bdi></th><td><div><bdi>${plain(value)}</bdi></div></td></tr>`)}
    </tbody>
  </table>`;
}
