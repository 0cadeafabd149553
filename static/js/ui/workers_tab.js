// The Workers tab: one row a rank of the newest attempt, with how far each is behind the leader.
/** @import { RankProgress, Worker } from "../types.js" */
/** @import { RunState } from "../state/run.js" */

import { exact, integer, NOTHING } from "../model/format.js";
import { exitText, workerMark } from "../model/status.js";
import { formatView, runView } from "../model/view.js";
import { html } from "./html.js";
import { Mark } from "./status.js";
import { Ago } from "./time.js";

const WORDS = ["Failed", "Lost", "Alive", "Stopped", "Done"];

/** @param {{ run: RunState }} props */
export function WorkersTab({ run }) {
  const workers = run.workers ?? [];
  if (workers.length === 0)
    return html`<p class="quiet tab-note">No workers yet: the newest attempt has not named any.</p>`;
  const progress = new Map(run.evidence.progress.ranks.map((r) => [r.rank, r]));
  const leader = Math.max(...[...progress.values()].map((r) => r.last_step ?? -1));
  const attempt = run.num_attempts - 1;
  const first = run.first_failure?.attempt === attempt ? run.first_failure : null;
  const taken = new Set(first?.consequences.map((c) => c.rank));
  /** @param {Worker} w */
  const cause = (w) => {
    if (taken.has(w.world_rank))
      return first?.rank === null ? "the controller failed" : `after rank ${first?.rank} failed`;
    return run.run_status === "ABORTED" && w.exit?.code !== 0 ? "the run was stopped" : null;
  };
  const marks = workers.map((w) => workerMark(w, { taken: cause(w) !== null }));
  const summary = WORDS.map((word) => [word, marks.filter((m) => m.word === word).length])
    .filter(([, n]) => n)
    .map(([word, n]) => `${integer(Number(n))} ${String(word).toLowerCase()}`)
    .join(", ");
  return html`<p class="quiet tab-note">Attempt ${attempt}: ${summary}</p>
    <div class="scroll-x">
      <table class="grid workers">
        <thead>
          <tr>
            <th class="w-rank num">Rank</th>
            <th>Status</th>
            <th>Node</th>
            <th class="num">Local</th>
            <th>GPU</th>
            <th class="num">Pid</th>
            <th class="w-exit">Exit</th>
            <th class="num">Last step</th>
            <th class="num">Behind</th>
            <th class="num">Last report</th>
            <th></th>
          </tr>
        </thead>
        <tbody>
          ${workers.map((w) => html`<${Rank} key=${w.actor_id} worker=${w} cause=${cause(w)} progress=${progress.get(w.world_rank)} leader=${leader} id=${run.id} attempt=${attempt} />`)}
        </tbody>
      </table>
    </div>`;
}

/** @param {{ worker: Worker, cause: string | null, progress: RankProgress | undefined, leader: number, id: string, attempt: number }} props */
function Rank({ worker, cause, progress, leader, id, attempt }) {
  const step = progress?.last_step ?? null;
  const lag = step === null ? null : leader - step;
  const log = formatView({ ...runView(id), tab: "logs", attempt, rank: worker.world_rank });
  return html`<tr>
    <td class="num">${worker.world_rank}</td>
    <td><${Mark} ...${workerMark(worker, { taken: cause !== null })} /></td>
    <td title=${worker.node_ip}>${worker.node_id} <span class="quiet mono">${worker.node_ip}</span></td>
    <td class="num">${worker.local_rank}</td>
    <td>${worker.gpu_ids.join(", ") || NOTHING}</td>
    <td class="num">${worker.pid ?? NOTHING}</td>
    <td title=${worker.exit ? exact(worker.exit.time_ms) : ""}>${worker.exit ? ending(worker, cause) : NOTHING}</td>
    <td class="num">${step === null ? NOTHING : integer(step)}</td>
    <td class="num">${lag === null ? NOTHING : integer(lag)}</td>
    <td class="num"><${Ago} at=${progress?.last_report_ms ?? null} /></td>
    <td><a href=${log} aria-label=${`Log of rank ${worker.world_rank}`} data-row-link>Log</a></td>
  </tr>`;
}

/** @param {Worker} worker @param {string | null} cause */
function ending({ exit }, cause) {
  if (!exit) return "";
  return [exitText(exit), exit.cause ?? cause].filter(Boolean).join(", ");
}
