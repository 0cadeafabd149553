// The Logs tab: which attempt and which rank, or all ranks as one list. What is shown of a log is in
// rank_log.js and all_logs.js.
/** @import { LogFile } from "../file_types.js" */
/** @import { RunView } from "../model/view.js" */
/** @import { RunState } from "../state/run.js" */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { integer } from "../model/format.js";
import { isLive } from "../model/status.js";
import { listLogs } from "../server/logs.js";
import { now } from "../state/clock.js";
import { MOST_RANKS } from "../state/log_all.js";
import { openFailing } from "../state/retry.js";
import { adjust } from "../state/route.js";
import { AllLogs } from "./all_logs.js";
import { Choice } from "./choice.js";
import { html } from "./html.js";
import { RankLog } from "./rank_log.js";

const LOOK_AGAIN_MS = 3000;
/** A controller on another host sends the last lines after it has said how the run ended: it has ten seconds for that. */
const LATE_MS = 12_000;

/** @type {{ list: LogFile[], error: string | null, loaded: boolean }} */
const NO_FILES = { list: [], error: null, loaded: false };

/** @param {{ view: RunView, run: RunState }} props */
export function LogsTab({ view, run }) {
  const newest = Math.max(0, run.num_attempts - 1);
  const attempt = view.attempt ?? newest;
  const over_ms = run.attempts.find((a) => a.ordinal === attempt)?.end_time_ms ?? run.end_time_ms;
  const ended = useRef(over_ms);
  ended.current = over_ms;
  // Read when it is asked, for the log of an attempt that ended may be open for long.
  const late = useMemo(() => () => ended.current !== null && now.peek() - ended.current < LATE_MS, []);
  const files = useLogFiles(run, attempt, view.rank, late);
  const here = files.list.filter((f) => f.attempt === attempt);
  const ranks = ranksOf(run, attempt, here);
  const file = here.find((f) => f.rank === view.rank);
  // An attempt that has ended writes no more, though its run may go on.
  const growing = isLive(run) && attempt === newest;
  const failed = run.first_failure?.attempt === attempt ? run.first_failure.rank : null;
  /** @param {number} to the same rank, if that attempt has it */
  const onAttempt = (to) => {
    const all = ranksOf(
      run,
      to,
      files.list.filter((f) => f.attempt === to),
    );
    const rank = view.rank === "all" || all.includes(view.rank) ? view.rank : 0;
    adjust({ ...view, attempt: to === newest ? null : to, rank, at: null });
  };
  const choices = html`<${Choice}
      label="Attempt"
      value=${attempt}
      options=${run.attempts.map((a) => [a.ordinal, String(a.ordinal)])}
      onChoose=${(/** @type {string} */ a) => onAttempt(Number(a))}
    />
    <${Choice}
      label="Rank"
      value=${view.rank}
      options=${[...(ranks.length > 1 || view.rank === "all" ? [["all", "all, interleaved"]] : []), ...ranks.map((r) => [r, r === failed ? `${r}, failed first` : String(r)])]}
      onChoose=${(/** @type {string} */ r) => adjust({ ...view, rank: r === "all" ? r : Number(r), at: null })}
    />`;
  const problem = files.error && html`<p class="problem" role="alert">${files.error}</p>`;
  if (view.rank === "all" && here.length > 0) {
    const chosen = someOf(
      here.map((f) => f.rank).sort((a, b) => a - b),
      failed,
    );
    const key = `${run.id} ${attempt} ${chosen}`;
    const left =
      here.length > chosen.length
        ? `${integer(chosen.length)} of ${integer(here.length)} ranks are shown: so many can be read at once.`
        : "";
    return html`${problem}<${AllLogs} key=${key} view=${view} run=${run} attempt=${attempt} ranks=${chosen} left=${left} growing=${growing} late=${late} choices=${choices} />`;
  }
  if (file) {
    const key = `${run.id} ${attempt} ${file.rank}`;
    return html`${problem}<${RankLog} key=${key} view=${view} run=${run} attempt=${attempt} rank=${file.rank} growing=${growing} late=${late} choices=${choices} />`;
  }
  return html`<div class="toolbar">${choices}</div>
    ${problem}${files.loaded && html`<p class="quiet tab-note">${missing(run, view.rank, attempt)}</p>`}`;
}

/** The first ranks, and the one that failed first in any case. @param {number[]} ranks @param {number | null} failed */
function someOf(ranks, failed) {
  const first = ranks.slice(0, MOST_RANKS);
  if (failed === null || first.includes(failed) || !ranks.includes(failed)) return first;
  return [...first.slice(0, MOST_RANKS - 1), failed];
}

/** A head has only the logs below its own data directory, and not everything that is registered writes one. @param {RunState} run @param {number | "all"} rank @param {number} attempt */
function missing(run, rank, attempt) {
  if (run.attempts.length === 0) return "No log yet: no attempt has begun.";
  const host = run.evidence.process.host;
  const of = rank === "all" ? "" : `of rank ${rank} `;
  return `This head holds no log ${of}in attempt ${attempt}. Either nothing was written, or the log is in the data directory of the controller${host ? ` on ${host}` : ""}.`;
}

/**
 * Which logs there are. Asked again now and then while the wanted one is not there yet, for the
 * first line of a log is no event.
 * @param {RunState} run @param {number} attempt @param {number | "all"} rank @param {() => boolean} late
 */
function useLogFiles(run, attempt, rank, late) {
  const [files, setFiles] = useState(NO_FILES);
  const here = files.list.filter((f) => f.attempt === attempt);
  const expected = run.attempts.find((a) => a.ordinal === attempt)?.workers.length ?? 0;
  const found = rank === "all" ? here.length >= expected : here.some((f) => f.rank === rank);
  const live = isLive(run);
  const waiting = !found && (live || late());
  useEffect(() => {
    const closing = new AbortController();
    const load = () =>
      listLogs(run.id, closing.signal).then(
        ({ logs }) => setFiles({ list: logs, error: null, loaded: true }),
        failed,
      );
    const failed = openFailing(
      closing.signal,
      (error) => setFiles((known) => ({ ...known, error })),
      () => void load(),
    );
    void load();
    const look = () => {
      if (!live && !late()) clearInterval(timer);
      if (!document.hidden) void load();
    };
    const timer = waiting ? setInterval(look, LOOK_AGAIN_MS) : undefined;
    return () => {
      closing.abort();
      clearInterval(timer);
    };
  }, [run.id, run.num_attempts, run.run_status, attempt, rank, waiting]);
  return files;
}

/** @param {RunState} run @param {number} attempt @param {LogFile[]} here */
function ranksOf(run, attempt, here) {
  const workers = run.attempts.find((a) => a.ordinal === attempt)?.workers ?? [];
  const all = new Set([...workers.map((w) => w.world_rank), ...here.map((f) => f.rank)]);
  return [...all].sort((a, b) => a - b);
}
