// The logs of several ranks as one list: each line begins with its rank, in the rank's colour, which leads
// to the line in that rank's own log. A search steps through the lines that are held, and says how many
// lines each whole log has, for there is no place in all logs at once.
/** @import { VNode } from "preact" */
/** @import { RunView } from "../model/view.js" */
/** @import { LogRow } from "../model/log_window.js" */
/** @import { RunState } from "../state/run.js" */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { hits, stepTo } from "../model/find.js";
import { bytes, integer } from "../model/format.js";
import { timeOf } from "../model/log_time.js";
import { formatView } from "../model/view.js";
import { errorText } from "../server/api.js";
import { logUrl } from "../server/logs.js";
import { openAllLogs } from "../state/log_all.js";
import { firstError, NOTHING_FOUND } from "../state/log_search.js";
import { adjust, go as goTo } from "../state/route.js";
import { say } from "../state/toasts.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { LogBar } from "./log_bar.js";
import { FindBox, Matches } from "./log_find.js";
import { LogPane } from "./log_pane.js";
import { usePin } from "./log_pin.js";
import { useSearch } from "./rank_log.js";

/** @param {{ view: RunView, run: RunState, attempt: number, ranks: number[], left: string, growing: boolean, late: () => boolean, choices: VNode }} props `left`: which ranks are not shown */
export function AllLogs({ view, run, attempt, ranks, left, growing, late, choices }) {
  const { pinned, pin, latest } = usePin(true, { view, attempt, growing });
  const [current, setCurrent] = useState(-1);
  const day_ms = run.attempts.find((a) => a.ordinal === attempt)?.start_time_ms ?? run.start_time_ms;
  const log = useOpened(
    () => openAllLogs(run.id, attempt, ranks, { growing: () => latest.current.growing, late, day_ms }),
    [run.id, attempt],
  );
  useEffect(() => log.look(), [growing]);
  const version = log.version.value;
  const state = log.state.value;
  const timed = log.timed.value;
  const found = useMemo(() => heldHits(log, view.find), [version, view.find]);

  /** @param {number} line */
  const lookAt = (line) => {
    pin(false);
    setCurrent(line);
    log.target.value = { line, seq: (log.target.peek()?.seq ?? 0) + 1 };
  };
  /** @param {1 | -1} step */
  const go = (step) => {
    const to = stepTo(found, current < 0 ? Infinity : current, step);
    if (to >= 0) lookAt(found[to]);
  };
  /** @param {string} find @param {1 | -1 | 0} step */
  const onFind = (find, step) => {
    if (find !== view.find) adjust({ ...view, find, at: null });
    else if (step !== 0) go(step);
  };
  /** @param {boolean} on */
  const follow = (on) => {
    pin(on);
    if (on) void log.toEnd();
  };
  /** @param {{ rank: number, at: number }} place */
  const onError = ({ rank, at }) => {
    const line = log.lineOf(rank, at);
    if (line >= 0) return lookAt(line);
    say(`The first error is in the log of rank ${rank}, before what is held of all ranks.`);
    // By now the view may be another one than when the search began.
    goTo({ ...latest.current.view, attempt, rank, at });
  };

  /** @param {LogRow} row */
  const link = (row) => ({
    href: formatView({ ...view, attempt, rank: row.rank ?? 0, at: row.at }),
    label: `Rank ${row.rank}: show this line in its log`,
    rank: row.rank ?? 0,
  });
  const place = [left, state === "loading" ? "" : timed ? untimedText(log.untimed()) : NO_TIMES];
  return html`<div class="toolbar log-tools">
      ${choices}
      <${FindBox} find=${view.find} onFind=${onFind} />
      ${view.find && html`<${Matches} found=${{ ...NOTHING_FOUND, matches: found, done: true }} error=${null} current=${found.indexOf(current)} onStep=${go} />`}
      <span class="grow"></span>
      <${FirstOfAll} run=${run} attempt=${attempt} ranks=${ranks} day_ms=${day_ms} onFound=${onError} />
    </div>
    ${view.find && html`<${InWholeLogs} view=${view} run=${run} attempt=${attempt} ranks=${ranks} sizes=${log.sizes.value} />`}
    <${LogBar} state=${state} place=${place.filter(Boolean).join(" ")} growing=${growing} pinned=${pinned} follow=${follow} />
    ${log.error.value && html`<p class="problem" role="alert">${log.error.value}</p>`}
    <${LogPane}
      log=${log}
      version=${version}
      find=${view.find}
      current=${current}
      link=${link}
      pinned=${pinned}
      onPin=${(/** @type {boolean} */ on) => on !== pinned && (growing || !on) && pin(on)}
      onTop=${() => {}}
    />`;
}

const NO_TIMES =
  "These logs have no times in their lines: what was there before stands rank after rank, and what comes from now on as it arrives.";

/** @param {number[]} ranks */
const untimedText = (ranks) =>
  ranks.length === 0
    ? ""
    : `${ranks.length === 1 ? "Rank" : "Ranks"} ${ranks.join(", ")}: no times in the lines, which stand before those of the others, and from now on as they arrive.`;

/** The numbers of the lines that are held and have a match. @param {ReturnType<typeof openAllLogs>} log @param {string} find */
function heldHits(log, find) {
  const base = log.base();
  const lines = Array.from({ length: find ? log.count() : 0 }, (_, i) => i);
  return lines.filter((i) => hits(log.row(i).spans, find)).map((i) => base + i);
}

/** @param {{ view: RunView, run: RunState, attempt: number, ranks: number[], sizes: Map<number, number> }} props */
function InWholeLogs({ view, run, attempt, ranks, sizes }) {
  return html`<p class="log-ranks quiet">
    In the whole logs: ${ranks.map((rank) => html`<${InOne} key=${rank} view=${view} run=${run} attempt=${attempt} rank=${rank} size=${sizes.get(rank) ?? 0} />`)}
  </p>`;
}

/** @param {{ view: RunView, run: RunState, attempt: number, rank: number, size: number }} props */
function InOne({ view, run, attempt, rank, size }) {
  const { found, error } = useSearch(logUrl(run.id, attempt, rank), view.find, size);
  const n = integer(found.matches.length) + (found.done && !found.full ? "" : "+");
  const far = error ?? (found.done ? "" : `searched ${bytes(found.searched)} of ${bytes(found.size)}`);
  const href = formatView({ ...view, attempt, rank, at: found.matches[0] ?? null });
  return html`<a class=${`log-rank is-series-${rank % 8}`} href=${href} title=${far}>rank ${rank}: ${n}</a>`;
}

/** @param {{ run: RunState, attempt: number, ranks: number[], day_ms: number, onFound: (place: { rank: number, at: number }) => void }} props */
function FirstOfAll({ run, attempt, ranks, day_ms, onFound }) {
  const [looking, setLooking] = useState(false);
  const closing = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => closing.current?.abort(), []);
  const look = async () => {
    const mine = (closing.current = new AbortController());
    setLooking(true);
    try {
      const found = await Promise.all(
        ranks.map(async (rank) => {
          const match = await firstError(logUrl(run.id, attempt, rank), mine.signal);
          const time = match && timeOf([{ text: match.text, style: "" }], day_ms);
          return match ? [{ rank, at: match.offset, time: time ?? Infinity }] : [];
        }),
      );
      const [first] = found.flat().sort((a, b) => a.time - b.time || a.rank - b.rank);
      if (first) onFound(first);
      else say("No line of these logs begins an error.");
    } catch (e) {
      if (!mine.signal.aborted) say(errorText(e), { bad: true });
    }
    setLooking(false);
  };
  return html`<button class="button log-error" disabled=${looking} onClick=${look}>${looking ? "Looking" : "First error"}</button>`;
}
