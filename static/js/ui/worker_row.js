// One rank of the Workers tab.
/** @import { RankProgress, Worker } from "../types.js" */
/** @import { Stat } from "../state/workers.js" */

import { useMemo } from "preact/hooks";
import { bytes, exact, integer, NOTHING } from "../model/format.js";
import { exitText, workerMark } from "../model/status.js";
import { plain } from "../model/text.js";
import { formatView, runView } from "../model/view.js";
import { html } from "./html.js";
import { Mark } from "./status.js";
import { Ago } from "./time.js";

/** @typedef {{ worker: Worker, cause: string | null, progress: RankProgress | undefined, lag: number | null, stat: Stat | null, word: string }} Line */

/** How busy the GPUs of a worker are, on average. @param {Stat | null} stat */
export function busyOf(stat) {
  const known = (stat?.gpus ?? []).map((g) => g.utilization_percent).filter((u) => u !== null);
  return known.length > 0 ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

/** @param {{ line: Line, known: boolean, live: boolean, now: boolean, id: string, attempt: number }} props `now`: of the newest attempt */
export function Rank({ line, known, live, now, id, attempt }) {
  // Of hundreds of ranks few have changed when the run has.
  return useMemo(
    () => html`<${Cells} line=${line} known=${known} live=${live} now=${now} id=${id} attempt=${attempt} />`,
    [JSON.stringify(line), known, live, now, attempt],
  );
}

/** @param {{ line: Line, known: boolean, live: boolean, now: boolean, id: string, attempt: number }} props */
function Cells({ line: { worker, cause, progress, lag, stat }, known, live, now, id, attempt }) {
  const step = progress?.last_step ?? null;
  const log = formatView({
    ...runView(id),
    tab: "logs",
    attempt: now ? null : attempt,
    rank: worker.world_rank,
  });
  return html`<tr>
    <td class="num">${worker.world_rank}</td>
    <td><${Mark} ...${workerMark(worker, { taken: cause !== null })} /></td>
    <td class="w-node" title=${`${plain(worker.node_id)} ${worker.node_ip}`}><bdi>${plain(worker.node_id)}</bdi> <span class="quiet mono">${worker.node_ip}</span></td>
    <td class="num">${worker.local_rank}</td>
    <td>${worker.gpu_ids.map(plain).join(", ") || NOTHING}</td>
    <td class="num">${worker.pid ?? NOTHING}</td>
    ${live && html`<${Uses} stat=${stat} known=${known} />`}
    ${
      now &&
      html`<td class="num">${step === null ? NOTHING : integer(step)}</td>
        <td class="num">${lag === null ? NOTHING : integer(lag)}</td>
        <td class="num"><${Ago} at=${progress?.last_report_ms ?? null} /></td>`
    }
    <td class="w-exit" title=${worker.exit ? `${ending(worker, cause)}\n${exact(worker.exit.time_ms)}` : ""}>${worker.exit ? ending(worker, cause) : NOTHING}</td>
    <td><a href=${log} aria-label=${`Log of rank ${worker.world_rank}`} data-row-link>Log</a></td>
  </tr>`;
}

/** What its process uses right now. @param {{ stat: Stat | null, known: boolean }} props */
function Uses({ stat, known }) {
  const process = stat?.process_stats ?? null;
  const gpus = stat?.gpus ?? [];
  const busy = busyOf(stat);
  const held = gpus.reduce((sum, g) => sum + g.memory_used_bytes, 0);
  const why = !known
    ? ""
    : process
      ? "its process uses no GPU that this head can see"
      : "its process is not on the head's host, or has ended";
  const each = gpus
    .map(
      (g) => `${g.index}: ${plain(g.name)}, ${bytes(g.memory_used_bytes)} of ${bytes(g.memory_total_bytes)}`,
    )
    .join("\n");
  return html`<td class="w-use num" title=${process ? "of one core" : why}>${process ? `${integer(Math.round(process.cpu_percent))} %` : NOTHING}</td>
    <td class="w-use num" title=${process ? "" : why}>${process ? bytes(process.rss_bytes) : NOTHING}</td>
    <td class="w-use num" title=${each || why}>${gpus.length === 0 ? NOTHING : `${busy === null ? NOTHING : `${integer(Math.round(busy))} %`}, ${bytes(held)}`}</td>`;
}

/** @param {Worker} worker @param {string | null} cause */
function ending({ exit }, cause) {
  if (!exit) return "";
  return [exitText(exit), exit.cause ? plain(exit.cause) : cause].filter(Boolean).join(", ");
}
