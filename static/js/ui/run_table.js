// The table of runs. Columns have fixed widths, so nothing moves when data arrives; a row is
// drawn again only if its run is another object than before.
/** @import { Row } from "../model/run_list.js" */

import { Component } from "preact";
import { count, integer, NOTHING, number, rate } from "../model/format.js";
import { choose } from "../model/metric_keys.js";
import { aliveOf, failures, isLive, reasonOf } from "../model/status.js";
import { go } from "../state/route.js";
import { runView } from "../model/view.js";
import { useFlash } from "./hooks.js";
import { html } from "./html.js";
import { RunMark } from "./status.js";
import { StopButton } from "./stop.js";
import { Ago, RunDuration } from "./time.js";

const METRICS_SHOWN = 2;

const COLUMNS = [
  ["status", "Status"],
  ["name", "Name"],
  ["experiment", "Experiment"],
  ["started", "Started"],
  ["duration", "Duration"],
  ["attempts", "Attempts"],
  ["workers", "Workers"],
  ["step", "Step"],
  ["rate", "Rate"],
  ["metrics", "Last metrics"],
  ["tags", "Tags"],
  ["actions", ""],
];

/** @param {{ rows: Row[] }} props */
export function RunTable({ rows }) {
  return html`<div class="table-frame">
    <table class="runs">
      <thead>
        <tr>
          ${COLUMNS.map(([name, title]) => html`<th class=${`c-${name}`} key=${name} scope="col">${title || html`<span class="visually-hidden">Actions</span>`}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map((run) => html`<${RunRow} key=${run.id} run=${run} />`)}
      </tbody>
    </table>
  </div>`;
}

/** @extends {Component<{ run: Row }>} */
class RunRow extends Component {
  /** @param {{ run: Row }} next */
  shouldComponentUpdate(next) {
    return next.run !== this.props.run;
  }
  render() {
    return html`<${Cells} run=${this.props.run} />`;
  }
}

/** @param {{ run: Row }} props */
function Cells({ run }) {
  const flash = useFlash(
    `${run.run_status} ${run.controller_state} ${run.num_attempts} ${run.stop_requested_at_ms}`,
  );
  const { alive, total } = aliveOf(run.workers);
  const failed = failures(run);
  const reason = reasonOf(run);
  // Once the run has ended nobody is alive, and how many there were is what is left to know.
  const workers =
    total === 0 ? NOTHING : isLive(run) ? `${integer(alive)}/${integer(total)}` : integer(total);
  const step = run.evidence?.progress.last_step ?? null;
  /** @param {MouseEvent} e */
  const open = (e) => {
    const inside = e.target instanceof Element && e.target.closest("a, button, .stop");
    if (!inside && !getSelection()?.toString()) go(runView(run.id));
  };
  return html`<tr ref=${flash} data-run=${run.id} onClick=${open}>
    <td class="c-status"><${RunMark} run=${run} /></td>
    <td class="c-name">
      <a href=${`runs/${encodeURIComponent(run.id)}`} data-row-link title=${`${run.name}\n${run.id}`}><bdi>${run.name}</bdi></a>${reason && html`<span class="reason" title=${reason}>${reason}</span>`}
    </td>
    <td class="c-experiment" title=${run.experiment ?? ""}>${run.experiment ?? ""}</td>
    <td class="c-started num"><${Ago} at=${run.start_time_ms} /></td>
    <td class="c-duration num"><${RunDuration} run=${run} /></td>
    <td class="c-attempts num">
      ${failed > 0 ? html`<span class="failed">${integer(failed)}</span> of ${integer(Math.max(failed, run.num_attempts))} failed` : integer(run.num_attempts)}
    </td>
    <td class="c-workers num" title=${isLive(run) ? `${alive} of ${total} workers alive` : count(total, "worker")}>${workers}</td>
    <td class=${`c-step num ${step === null ? "is-none" : ""}`}>${step === null ? NOTHING : integer(step)}</td>
    <td class="c-rate num">${rate(run.rate)}</td>
    <td class="c-metrics"><${LastMetrics} run=${run} /></td>
    <td class="c-tags"><${Tags} tags=${run.tags} /></td>
    <td class="c-actions"><${StopButton} run=${run} /></td>
  </tr>`;
}

/** @param {{ run: Row }} props */
function LastMetrics({ run }) {
  const last = run.last_metrics ?? {};
  return choose(Object.keys(last), METRICS_SHOWN).map(
    (key) =>
      html`<span class="metric" key=${key} title=${key}><span class="metric-key">${key}</span><span class="num">${number(last[key])}</span></span>`,
  );
}

/** @param {{ tags: Record<string, string> }} props */
export function Tags({ tags }) {
  return Object.entries(tags).map(
    ([key, value]) =>
      html`<span class="tag" key=${key} title=${`${key}: ${value}`}><bdi>${key}</bdi>:<bdi>${value}</bdi></span>`,
  );
}
