// The Run page: what is happening and why, the evidence for it, and the tabs. The Metrics and Logs
// tabs bring code that the other pages do not need, so they are loaded when first opened.
/** @import { RunView } from "../model/view.js" */
/** @import { RunState } from "../state/run.js" */

import { useEffect } from "preact/hooks";
import { exact } from "../model/format.js";
import { isLive, word, why } from "../model/status.js";
import { plain } from "../model/text.js";
import { ALL_RUNS, TABS, formatView } from "../model/view.js";
import { deleteRuns, restoreRuns } from "../state/actions.js";
import { now } from "../state/clock.js";
import { openRun } from "../state/run.js";
import { CheckpointsTab } from "./checkpoints_tab.js";
import { EventsTab } from "./events_tab.js";
import { Evidence } from "./evidence.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { later } from "./later.js";
import { Overview } from "./overview.js";
import { RunName } from "./run_name.js";
import { RunMark } from "./status.js";
import { StopButton } from "./stop.js";
import { Ago, LongAgo, RunDuration } from "./time.js";
import { WorkersTab } from "./workers_tab.js";

const MetricsTab = later(async () => (await import("./metrics_tab.js")).MetricsTab);
const LogsTab = later(async () => (await import("./logs_tab.js")).LogsTab);

/** @param {{ view: RunView }} props */
export function RunPage({ view }) {
  const opened = useOpened(() => openRun(view.id), [view.id]);
  const run = opened.run.value;
  const error = opened.error.value;
  const title = run ? `${word(run.run_status)} · ${run.name}` : "Run";
  useEffect(() => void (document.title = `${title} · TrainHead`), [title]);
  if (error && (error.missing || !run)) {
    return html`<main class="notice">
      <h1>${error.missing ? "There is no such run" : "The run could not be loaded"}</h1>
      <p>${error.text}</p>
      <p><a href="./">All runs</a></p>
    </main>`;
  }
  if (!run) return html`<main class="run" aria-busy="true"><p class="quiet run-head">Loading…</p></main>`;
  // Who looks at the newest attempt goes on with the next one.
  const attempt = view.attempt === run.num_attempts - 1 ? null : view.attempt;
  return html`<main class="run">
    <${Header} run=${run} />
    <nav class="tabs" aria-label="Parts of this run">
      ${TABS.map(
        (tab) =>
          html`<a key=${tab} href=${formatView({ ...view, tab, attempt, q: "" })} aria-current=${tab === view.tab ? "page" : undefined}
            >${word(tab)}</a
          >`,
      )}
    </nav>
    <${TabBody} view=${view} run=${run} />
  </main>`;
}

/** @param {{ run: RunState }} props */
function Header({ run }) {
  return html`<header class="run-head">
    <div class="run-title">
      <${RunName} run=${run} />
      <${RunMark} run=${run} />
      <span class="grow"></span>
      <${StopButton} run=${run} />
      ${!isLive(run) && !run.trashed_at_ms && html`<button class="button" onClick=${() => void deleteRuns([run.id])}>Delete</button>`}
    </div>
    ${run.trashed_at_ms && html`<${Trashed} id=${run.id} since=${run.trashed_at_ms} />`}
    <${Why} run=${run} />
    <p class="run-facts">
      ${
        run.end_time_ms === null
          ? html`<span>started <${LongAgo} at=${run.start_time_ms} /></span>`
          : html`<span>started <${Ago} at=${run.start_time_ms} /></span><span>took <${RunDuration} run=${run} /></span>`
      }
      ${run.experiment && html`<span>experiment <a href=${formatView({ ...ALL_RUNS, experiment: run.experiment })}><bdi>${plain(run.experiment)}</bdi></a></span>`}
      <span>id <span class="mono">${run.id}</span></span>
    </p>
    <${Evidence} run=${run} />
  </header>`;
}

/** @param {{ id: string, since: number }} props */
function Trashed({ id, since }) {
  return html`<p class="trashed" role="status">
    In the trash since <time>${exact(since)}</time>.
    <button class="button" onClick=${() => void restoreRuns([id])}>Restore</button>
  </p>`;
}

/** By itself, for it is drawn each second while something ages. @param {{ run: RunState }} props */
function Why({ run }) {
  return html`<p class="why">${why(run, now.value, run.rate)}</p>`;
}

/** @param {{ view: RunView, run: RunState }} props */
function TabBody({ view, run }) {
  if (view.tab === "overview") return html`<${Overview} view=${view} run=${run} />`;
  if (view.tab === "checkpoints") return html`<${CheckpointsTab} run=${run} />`;
  if (view.tab === "workers") return html`<${WorkersTab} view=${view} run=${run} />`;
  if (view.tab === "events") return html`<${EventsTab} view=${view} start=${run.start_time_ms} />`;
  if (view.tab === "metrics") return html`<${MetricsTab} view=${view} run=${run} />`;
  return html`<${LogsTab} view=${view} run=${run} />`;
}
