// One row of the list of runs. It is drawn again only if its run is another object than before, or it
// was selected; what ages by itself is drawn by small components of its own.
/** @import { Style } from "../model/color.js" */
/** @import { Column } from "../model/columns.js" */
/** @import { Row } from "../model/run_list.js" */

import { Component } from "preact";
import { metricOf, settingOf } from "../model/columns.js";
import { count, integer, NOTHING, number, rate, shortStep } from "../model/format.js";
import { areCut, KEYS_AT_HAND } from "../model/metric_keys.js";
import { sparkPath } from "../model/spark.js";
import { aliveOf, failures, isLive, reasonOf } from "../model/status.js";
import { plain } from "../model/text.js";
import { settingAt } from "../model/tree.js";
import { adjust, go, view } from "../state/route.js";
import { ALL_RUNS, runView } from "../model/view.js";
import { sparkline } from "../state/sparks.js";
import { useFlash } from "./hooks.js";
import { html } from "./html.js";
import { RunMark } from "./status.js";
import { StopButton } from "./stop.js";
import { Swatch } from "./swatch.js";
import { Ago, RunDuration } from "./time.js";

/** `style`: of a run that is selected. */
/** @typedef {{ run: Row, columns: Column[], style: Style | undefined, onSelect: (id: string, stretch: boolean) => void }} Props */

/** @extends {Component<Props>} */
export class RunRow extends Component {
  /** @param {Props} next */
  shouldComponentUpdate(next) {
    const { run, columns, style } = this.props;
    const restyled = next.style?.color !== style?.color || next.style?.dash !== style?.dash;
    return next.run !== run || next.columns !== columns || restyled;
  }
  render() {
    return html`<${Cells} ...${this.props} />`;
  }
}

/** @param {Props} props */
function Cells({ run, columns, style, onSelect }) {
  const flash = useFlash(
    `${run.run_status} ${run.controller_state} ${run.num_attempts} ${run.stop_requested_at_ms}`,
  );
  const reason = reasonOf(run);
  /** @param {MouseEvent} e */
  const open = (e) => {
    const inside = e.target instanceof Element && e.target.closest("a, button, label, .stop");
    if (!inside && !getSelection()?.toString()) go(runView(run.id));
  };
  return html`<tr ref=${flash} data-run=${run.id} onClick=${open} class=${style ? "is-selected" : ""}>
    <td class="c-select">
      <label>
        <input
          type="checkbox"
          aria-label=${`Select ${plain(run.name)}`}
          checked=${style !== undefined}
          onClick=${(/** @type {any} */ e) => {
            onSelect(run.id, e.shiftKey);
            // As many as can be may be selected already.
            e.currentTarget.checked = listView().selected.includes(run.id);
          }}
        />
      </label>
      ${style && html`<${Swatch} ...${style} />`}
    </td>
    <td class="c-status">${RunMark({ run })}</td>
    <td class="c-name">
      <a href=${`runs/${encodeURIComponent(run.id)}`} data-row-link title=${`${run.name}\n${run.id}`}><bdi>${plain(run.name)}</bdi></a>${reason && html`<span class="reason" title=${reason}>${reason}</span>`}
    </td>
    ${columns.map((c) => cell(c, run))}
    <td class="c-actions">${isLive(run) && html`<${StopButton} run=${run} />`}</td>
  </tr>`;
}

/** Not a component, for there are many and most are plain text. @param {Column} column @param {Row} run */
function cell({ id, num }, run) {
  const metric = metricOf(id);
  if (metric !== null) return html`<td class="c-metric num">${metricIn(run, metric)}</td>`;
  const setting = settingOf(id);
  if (setting !== null) {
    const value = settingAt(run.settings ?? {}, setting);
    const why = run.settings ? value : TOO_LONG;
    return html`<td class=${`c-setting ${num ? "num" : ""}`} title=${why}><bdi>${run.settings ? value : "…"}</bdi></td>`;
  }
  const draw = CELLS[id];
  return draw ? draw(run) : html`<td></td>`;
}

/** @type {Record<string, (run: Row) => any>} */
const CELLS = {
  experiment: ({ experiment }) =>
    html`<td class="c-experiment">
      ${experiment && html`<button class="plain" title=${`Only ${experiment}`} onClick=${() => adjust({ ...listView(), experiment })}><bdi>${plain(experiment)}</bdi></button>`}
    </td>`,
  started: (run) => html`<td class="c-started num"><${Ago} at=${run.start_time_ms} /></td>`,
  duration: (run) => html`<td class="c-duration num"><${RunDuration} run=${run} /></td>`,
  attempts: (run) => {
    const failed = failures(run);
    return html`<td class="c-attempts num">
      ${failed > 0 ? html`<span class="failed">${integer(failed)}</span> of ${integer(Math.max(failed, run.num_attempts))} failed` : integer(run.num_attempts)}
    </td>`;
  },
  failures: (run) => html`<td class="num">${integer(failures(run))}</td>`,
  workers: (run) => {
    const { alive, total } = aliveOf(run.workers);
    // Once the run has ended nobody is alive, and how many there were is what is left to know.
    const text = total === 0 ? NOTHING : isLive(run) ? `${integer(alive)}/${integer(total)}` : integer(total);
    const title = isLive(run) ? `${alive} of ${total} workers alive` : count(total, "worker");
    return html`<td class="c-workers num" title=${title}>${text}</td>`;
  },
  step: (run) => {
    const step = run.evidence?.progress.last_step ?? null;
    return html`<td class=${`c-step num ${step === null ? "is-none" : ""}`} title=${step === null ? undefined : integer(step)}>${step === null ? NOTHING : shortStep(step)}</td>`;
  },
  rate: (run) => html`<td class="c-rate num">${rate(run.rate)}</td>`,
  tags: (run) => html`<td class="c-tags">${tagsOf(run)}</td>`,
  job: (run) => html`<td class="c-job" title=${run.job_id ?? ""}><bdi>${run.job_id ?? ""}</bdi></td>`,
  id: (run) => html`<td class="c-id mono" title=${run.id}>${run.id}</td>`,
};

/** Rows stand on the Runs page only. */
const listView = () => {
  const now = view.peek();
  return now.page === "runs" ? now : ALL_RUNS;
};

const TOO_MANY = `The list knows the last values of ${KEYS_AT_HAND} metrics of a run: this one is on the run's own page, if it has it`;
const TOO_LONG = "The settings of this run are too long for the list: they are on its own page";

const SPARK = { width: 56, height: 16 };

/** @param {Row} run @param {string} name */
function metricIn(run, name) {
  const value = run.last_metrics?.[name];
  if (value === undefined) {
    return areCut(run.last_metrics) ? html`<span title=${TOO_MANY}>…</span>` : NOTHING;
  }
  return html`<span class="metric"><${Spark} id=${run.id} name=${name} /><span>${number(value)}</span></span>`;
}

/** By itself, for its points come later than its row. @param {{ id: string, name: string }} props */
function Spark({ id, name }) {
  const spark = sparkline(id, name).value;
  return html`<svg class="spark" viewBox=${`0 -1 ${SPARK.width} ${SPARK.height + 2}`} aria-hidden="true">
    ${spark && html`<path d=${sparkPath(spark, SPARK.width, SPARK.height)} />`}
  </svg>`;
}

/** @param {Row} run */
function tagsOf({ tags }) {
  return Object.entries(tags).map(([key, value]) => {
    const tag = `${key}:${value}`;
    const only = () => {
      const now = listView();
      adjust({ ...now, tag: [...new Set([...now.tag, tag])] });
    };
    return html`<button class="tag" key=${key} title=${`Only ${tag}`} onClick=${only}><bdi>${plain(key)}</bdi>:<bdi>${plain(value)}</bdi></button>`;
  });
}
