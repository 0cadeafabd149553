// The Workers tab: one row a rank of the newest attempt, with what it uses and how far it is behind the
// leader, or of an earlier one, with how it ended; and who holds up the others: below, or above if there are
// many ranks. Of hundreds of ranks only those in sight are in the page.
/** @import { VNode } from "preact" */
/** @import { Worker } from "../types.js" */
/** @import { RunView } from "../model/view.js" */
/** @import { RunState } from "../state/run.js" */
/** @import { Stats } from "../state/workers.js" */
/** @import { Line } from "./worker_row.js" */

import { useMemo, useRef } from "preact/hooks";
import { integer } from "../model/format.js";
import { exitText, isLive, workerMark } from "../model/status.js";
import { adjust } from "../state/route.js";
import { openStats } from "../state/workers.js";
import { Choice } from "./choice.js";
import { HeatStrip } from "./heat_strip.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { useRem, useWindow } from "./window.js";
import { busyOf, Rank } from "./worker_row.js";

/** More ranks than these scroll in a frame of their own. */
const LONG = 32;
/** Of more than these only those in sight are drawn. */
const WINDOWED = 100;
/** Below more than these nobody would see who holds up the others. */
const ABOVE = 24;
/** In css/tokens.css too. */
const ROW_REM = 2;
const WORDS = ["Failed", "Lost", "Alive", "Stopped", "Done"];

/** @typedef {{ name: string, label: string, value: (line: Line) => string | number | null, num?: boolean, live?: boolean, now?: boolean, kind?: string }} Column `live`: only while the attempt lives; `now`: only of the newest one */

/** @type {Column[]} */
const COLUMNS = [
  { name: "rank", label: "Rank", value: (l) => l.worker.world_rank, num: true, kind: "w-rank" },
  { name: "status", label: "Status", value: (l) => l.word },
  { name: "node", label: "Node", value: (l) => l.worker.node_id },
  { name: "local", label: "Local", value: (l) => l.worker.local_rank, num: true },
  { name: "device", label: "Device", value: (l) => l.worker.gpu_ids.join(",") },
  { name: "pid", label: "Pid", value: (l) => l.worker.pid, num: true },
  {
    name: "cpu",
    label: "CPU",
    value: (l) => l.stat?.process_stats?.cpu_percent ?? null,
    num: true,
    live: true,
  },
  {
    name: "memory",
    label: "Memory",
    value: (l) => l.stat?.process_stats?.rss_bytes ?? null,
    num: true,
    live: true,
  },
  { name: "gpu", label: "GPU use", value: (l) => busyOf(l.stat), num: true, live: true },
  { name: "step", label: "Last step", value: (l) => l.progress?.last_step ?? null, num: true, now: true },
  { name: "behind", label: "Behind", value: (l) => l.lag, num: true, now: true },
  {
    name: "report",
    label: "Last report",
    value: (l) => l.progress?.last_report_ms ?? null,
    num: true,
    now: true,
  },
  {
    name: "exit",
    label: "Exit",
    value: (l) => (l.worker.exit ? exitText(l.worker.exit) : null),
    kind: "w-exit",
  },
];

/** @param {{ view: RunView, run: RunState }} props */
export function WorkersTab({ view, run }) {
  const newest = Math.max(0, run.num_attempts - 1);
  const attempt = Math.min(view.attempt ?? newest, newest);
  const isNewest = attempt === newest;
  const live = isLive(run) && isNewest;
  const opened = useOpened(() => openStats(run.id, () => live), [run.id, live]);
  const stats = opened.stats.value;
  const lines = useMemo(
    () => linesOf(run, attempt, stats),
    [
      run.workers,
      run.attempts,
      run.evidence.progress.ranks,
      run.run_status,
      run.first_failure,
      attempt,
      stats,
    ],
  );
  const shown = COLUMNS.filter((c) => (live || !c.live) && (isNewest || !c.now));
  const [order, column] = orderOf(view.q);
  const sorted = useMemo(() => sortedBy(lines, column, order), [lines, column, order]);
  const choice =
    run.attempts.length > 1 &&
    html`<${Choice}
      label="Attempt"
      value=${attempt}
      options=${run.attempts.map((a) => [a.ordinal, String(a.ordinal)])}
      onChoose=${(/** @type {string} */ a) => adjust({ ...view, attempt: Number(a) === newest ? null : Number(a) })}
    />`;
  if (lines.length === 0)
    return html`<div class="workers-head">${choice}<p class="quiet">No workers${live ? " yet" : ""}: attempt ${attempt} has not named any.</p></div>`;
  const summary = WORDS.map((word) => [word, lines.filter((l) => l.word === word).length])
    .filter(([, n]) => n)
    .map(([word, n]) => `${integer(Number(n))} ${String(word).toLowerCase()}`)
    .join(", ");
  /** @param {Column} c */
  const sort = (c) => {
    const turned = c === column && order > 0;
    const q = c === COLUMNS[0] && !turned ? "" : `${turned ? "-" : ""}${c.name}`;
    adjust({ ...view, q });
  };
  /** @param {Line} line */
  const draw = (line) =>
    html`<${Rank} key=${line.worker.actor_id} line=${line} known=${stats !== null} live=${live} now=${isNewest} id=${run.id} attempt=${attempt} />`;
  const strip = html`<${HeatStrip} key="strip" id=${run.id} attempt=${attempt} ranks=${lines.length} />`;
  const above = lines.length > ABOVE;
  return html`<div class="workers-head">${choice}<p class="quiet">${!choice && `Attempt ${attempt}: `}${summary}</p></div>
    ${above && strip}
    <${Table} columns=${shown} by=${column} order=${order} onSort=${sort} lines=${sorted} draw=${draw} />
    ${!above && strip}`;
}

/** @param {{ columns: Column[], by: Column, order: 1 | -1, onSort: (c: Column) => void, lines: Line[], draw: (line: Line) => VNode }} props */
function Table({ columns, by, order, onSort, lines, draw }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const rowPx = ROW_REM * useRem();
  const windowed = lines.length > WINDOWED;
  const inSight = useWindow(frame, lines.length, rowPx);
  const [from, to] = windowed ? [inSight.from, inSight.to] : [0, lines.length];
  const space = (/** @type {number} */ rows) =>
    windowed &&
    html`<tr class="space" aria-hidden="true"><td colspan=${columns.length + 1} style=${{ height: `${rows * rowPx}px` }}></td></tr>`;
  return html`<div ref=${frame} class=${`scroll-x workers-frame ${lines.length > LONG ? "is-long" : ""}`}>
      <table class="grid workers" aria-rowcount=${windowed ? lines.length + 1 : undefined}>
        <thead>
          <tr>
            ${columns.map(
              (
                c,
              ) => html`<th key=${c.name} class=${`${c.kind ?? ""} ${c.num ? "num" : ""}`} aria-sort=${c === by ? (order > 0 ? "ascending" : "descending") : undefined}>
                <button class="sort-by" onClick=${() => onSort(c)}>${c.label}${c === by ? html`<span aria-hidden="true">${order > 0 ? " ↑" : " ↓"}</span>` : null}</button>
              </th>`,
            )}
            <th></th>
          </tr>
        </thead>
        <tbody>
          ${space(from)}${lines.slice(from, to).map(draw)}${space(lines.length - to)}
        </tbody>
      </table>
    </div>`;
}

/** @param {RunState} run @param {number} attempt @param {Stats | null} stats @returns {Line[]} */
function linesOf(run, attempt, stats) {
  const isNewest = attempt >= run.num_attempts - 1;
  const workers = isNewest ? run.workers : run.attempts.find((a) => a.ordinal === attempt)?.workers;
  const progress = new Map(isNewest ? run.evidence.progress.ranks.map((r) => [r.rank, r]) : []);
  const leader = Math.max(...[...progress.values()].map((r) => r.last_step ?? -1));
  const first = run.first_failure?.attempt === attempt ? run.first_failure : null;
  const taken = new Set(first?.consequences.map((c) => c.rank));
  /** @param {Worker} w */
  const cause = (w) => {
    if (taken.has(w.world_rank))
      return first?.rank === null ? "the controller failed" : `after rank ${first?.rank} failed`;
    return isNewest && run.run_status === "ABORTED" && w.exit?.code !== 0 ? "the run was stopped" : null;
  };
  return (workers ?? []).map((worker) => {
    const of = progress.get(worker.world_rank);
    const step = of?.last_step ?? null;
    return {
      worker,
      cause: cause(worker),
      progress: of,
      lag: step === null ? null : leader - step,
      stat: (isNewest && stats?.get(worker.world_rank)) || null,
      word: workerMark(worker, { taken: cause(worker) !== null }).word,
    };
  });
}

/** @param {string} q such as `-behind` @returns {[1 | -1, Column]} */
function orderOf(q) {
  const column = COLUMNS.find((c) => c.name === q.replace(/^-/, ""));
  return column ? [q.startsWith("-") ? -1 : 1, column] : [1, COLUMNS[0]];
}

/** What is not known comes last. @param {Line[]} lines @param {Column} column @param {1 | -1} order */
function sortedBy(lines, column, order) {
  return lines.toSorted((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    if (x !== y) return (x < y ? -1 : 1) * order;
    return a.worker.world_rank - b.worker.world_rank;
  });
}
