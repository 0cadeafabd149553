// The Logs tab: which attempt and rank, and its log. Only the lines in sight are in the page; all
// lines have one height, so that the place of each is known without measuring it.
/** @import { LogFile } from "../types.js" */
/** @import { RunView } from "../model/view.js" */
/** @import { RunState } from "../state/run.js" */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { bytes, count } from "../model/format.js";
import { isLive } from "../model/status.js";
import { errorText, listLogs, logUrl } from "../server/api.js";
import { openLogView } from "../state/log.js";
import { adjust } from "../state/route.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { Line } from "./lines.js";

const LINE_PX = 18;
const SPARE_LINES = 20;
const LOOK_AGAIN_MS = 3000;

/** @type {{ list: LogFile[], error: string | null, loaded: boolean }} */
const NO_FILES = { list: [], error: null, loaded: false };

/** @param {{ view: RunView, run: RunState }} props */
export function LogsTab({ view, run }) {
  const newest = Math.max(0, run.num_attempts - 1);
  const attempt = view.attempt ?? newest;
  const files = useLogFiles(run, attempt, view.rank);
  const ranks = ranksOf(run, attempt, files.list);
  const file = files.list.find((f) => f.attempt === attempt && f.rank === view.rank);
  const url = logUrl(run.id, attempt, view.rank);
  // An attempt that has ended writes no more, though its run may go on.
  const growing = isLive(run) && attempt === newest;
  return html`<div class="toolbar">
      <${Choice}
        label="Attempt"
        value=${attempt}
        values=${run.attempts.map((a) => a.ordinal)}
        onChoose=${(/** @type {number} */ a) => adjust({ ...view, attempt: a, rank: 0 })}
      />
      <${Choice}
        label="Rank"
        value=${view.rank}
        values=${ranks}
        onChoose=${(/** @type {number} */ rank) => adjust({ ...view, rank })}
      />
      <span class="grow"></span>
      ${file && html`<a href=${url} download>Download ${bytes(file.size_bytes)}</a>`}
    </div>
    ${files.error && html`<p class="problem" role="alert">${files.error}</p>`}
    ${file && html`<${Log} key=${url} url=${url} growing=${growing} />`}
    ${!file && files.loaded && html`<p class="quiet">${missing(run, view.rank, attempt)}</p>`}`;
}

/** A head has only the logs below its own data directory, and not everything that is registered writes one. @param {RunState} run @param {number} rank @param {number} attempt */
function missing(run, rank, attempt) {
  if (run.attempts.length === 0) return "No log yet: no attempt has begun.";
  const host = run.evidence.process.host;
  return `This head holds no log of rank ${rank} in attempt ${attempt}. Either nothing was written, or the log is in the data directory of the controller${host ? ` on ${host}` : ""}.`;
}

/**
 * Which logs there are. Asked again now and then while the wanted one is not there yet, for the
 * first line of a log is no event.
 * @param {RunState} run @param {number} attempt @param {number} rank
 */
function useLogFiles(run, attempt, rank) {
  const [files, setFiles] = useState(NO_FILES);
  const found = files.list.some((f) => f.attempt === attempt && f.rank === rank);
  const waiting = !found && isLive(run);
  useEffect(() => {
    const closing = new AbortController();
    const load = () =>
      listLogs(run.id, closing.signal).then(
        ({ logs }) => setFiles({ list: logs, error: null, loaded: true }),
        (e) => !closing.signal.aborted && setFiles((known) => ({ ...known, error: errorText(e) })),
      );
    void load();
    const timer = waiting ? setInterval(() => !document.hidden && load(), LOOK_AGAIN_MS) : undefined;
    return () => {
      closing.abort();
      clearInterval(timer);
    };
  }, [run.id, run.num_attempts, run.run_status, attempt, rank, waiting]);
  return files;
}

/** @param {RunState} run @param {number} attempt @param {LogFile[]} files */
function ranksOf(run, attempt, files) {
  const workers = run.attempts.find((a) => a.ordinal === attempt)?.workers ?? [];
  const all = new Set([
    ...workers.map((w) => w.world_rank),
    ...files.filter((f) => f.attempt === attempt).map((f) => f.rank),
  ]);
  return [...all].sort((a, b) => a - b);
}

/** @param {{ label: string, value: number, values: number[], onChoose: (n: number) => void }} props */
function Choice({ label, value, values, onChoose }) {
  const all = values.includes(value) ? values : [value, ...values];
  return html`<label class="choice">
    ${label}
    <select value=${value} onChange=${(/** @type {any} */ e) => onChoose(Number(e.target.value))}>
      ${all.map((n) => html`<option key=${n} value=${n} selected=${n === value}>${n}</option>`)}
    </select>
  </label>`;
}

const STATES = {
  loading: "Loading…",
  following: "Live",
  ended: "End of log",
  lost: "The log is not reachable; trying again.",
};

/** @param {{ url: string, growing: boolean }} props */
function Log({ url, growing }) {
  const latest = useRef(growing);
  latest.current = growing;
  const log = useOpened(() => openLogView(url, () => latest.current), [url]);
  const pane = useRef(/** @type {HTMLElement | null} */ (null));
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [pinned, setPinned] = useState(true);
  const version = log.version.value;
  const lines = log.count();

  useEffect(() => {
    const element = /** @type {HTMLElement} */ (pane.current);
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (pinned && pane.current) pane.current.scrollTop = pane.current.scrollHeight;
  }, [version, pinned, height]);

  const onScroll = () => {
    const e = /** @type {HTMLElement} */ (pane.current);
    setTop(e.scrollTop);
    setPinned(e.scrollHeight - e.scrollTop - e.clientHeight < LINE_PX);
  };
  const earlier = async () => {
    const added = await log.earlier();
    if (pane.current) pane.current.scrollTop += added * LINE_PX;
  };
  const from = Math.max(0, Math.floor(top / LINE_PX) - SPARE_LINES);
  const to = Math.min(lines, from + Math.ceil(height / LINE_PX) + 2 * SPARE_LINES);
  const shown = Array.from({ length: to - from }, (_, i) => from + i);
  const start = log.start.value;
  return html`<div class="log-bar">
      <span class=${`quiet log-state is-${log.state.value}`} role="status">${STATES[log.state.value]}</span>
      <span class="quiet">${count(lines, "line")}${start === null ? ", older ones are no longer held here" : ""}</span>
      ${start ? html`<button class="button" onClick=${earlier}>Load earlier</button>` : null}
      <span class="grow"></span>
      <button class="chip" aria-pressed=${pinned} onClick=${() => setPinned(!pinned)}>Follow</button>
    </div>
    ${log.error.value && html`<p class="problem" role="alert">${log.error.value}</p>`}
    <div class="log" ref=${pane} onScroll=${onScroll} tabindex="0" role="log" aria-live="off" aria-label="Log">
      <div class="log-space" style=${{ height: `${lines * LINE_PX}px` }}>
        <div class="log-lines" style=${{ transform: `translateY(${from * LINE_PX}px)` }}>
          ${shown.map((i) => html`<div class="log-line" key=${i}><${Line} spans=${log.line(i)} /></div>`)}
        </div>
      </div>
    </div>`;
}
