// The log of one rank: its bar with the search, the first error, the place in the file and the ends, and
// its lines. The place that is looked at is in the URL.
/** @import { VNode } from "preact" */
/** @import { RunView } from "../model/view.js" */
/** @import { LogRow } from "../model/log_window.js" */
/** @import { RunState } from "../state/run.js" */

import { useEffect, useRef, useState } from "preact/hooks";
import { stepTo } from "../model/find.js";
import { bytes, integer } from "../model/format.js";
import { formatView } from "../model/view.js";
import { errorText } from "../server/api.js";
import { logUrl } from "../server/logs.js";
import { openLogView } from "../state/log.js";
import { firstError, NOTHING_FOUND, openSearch } from "../state/log_search.js";
import { adjust } from "../state/route.js";
import { say } from "../state/toasts.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { LogBar } from "./log_bar.js";
import { FindBox, Matches } from "./log_find.js";
import { LogPane } from "./log_pane.js";
import { usePin } from "./log_pin.js";

/** @param {{ view: RunView, run: RunState, attempt: number, rank: number, growing: boolean, late: () => boolean, choices: VNode }} props */
export function RankLog({ view, run, attempt, rank, growing, late, choices }) {
  const url = logUrl(run.id, attempt, rank);
  const { pinned, pin, latest } = usePin(view.at === null, { view, attempt, growing });
  const [top, setTop] = useState(/** @type {number | null} */ (null));
  const log = useOpened(
    () =>
      openLogView(url, {
        growing: () => latest.current.growing,
        late,
        following: () => latest.current.pinned,
        at: view.at,
      }),
    [url],
  );
  useEffect(() => log.look(), [growing]);
  const size = log.size.value;
  const search = useSearch(url, view.find, size);
  const { matches, done, searched } = search.found;

  const shownAt = useRef(view.at);
  /** @param {number} at */
  const lookAt = (at) => {
    shownAt.current = at;
    pin(false, at);
    // Also where it was looked before, for the reader may have gone elsewhere.
    void log.seek(at);
  };
  useEffect(() => {
    if (view.at === null || view.at === shownAt.current) return;
    shownAt.current = view.at;
    pin(false);
    void log.seek(view.at);
  }, [view.at]);

  /** @param {boolean} on */
  const onPin = (on) => {
    if (on) shownAt.current = null;
    pin(on);
  };
  /** @param {boolean} on */
  const follow = (on) => {
    onPin(on);
    if (on) void log.toEnd();
  };
  const toStart = () => {
    pin(false);
    void log.toStart();
  };

  // Enter may come before a match is found.
  const wished = useRef(/** @type {1 | -1 | 0} */ (0));
  /** @param {1 | -1} step */
  const go = (step) => {
    // From a match that is looked at, else from what is in sight.
    const from = view.at ?? (pinned ? Infinity : (top ?? 0)) - (step > 0 ? 1 : 0);
    const to = stepTo(matches, from, step);
    const turns = step > 0 ? matches[to] <= from : matches[to] >= from;
    // Backwards, the nearest match is known once the search has come this far.
    const early = turns || (step < 0 && searched < from);
    wished.current = !done && (to < 0 || early) ? step : 0;
    if (wished.current === 0 && to >= 0) lookAt(matches[to]);
  };
  /** @param {string} find @param {1 | -1 | 0} step */
  const onFind = (find, step) => {
    if (find !== view.find) adjust({ ...view, find, at: null });
    if (step === 0) return;
    if (find === view.find) go(step);
    else wished.current = step;
  };
  useEffect(() => {
    if (wished.current !== 0 && matches.length > 0) go(wished.current);
    if (done) wished.current = 0;
  }, [matches.length, searched, done, view.find]);

  /** @param {LogRow} row */
  const link = (row) => ({
    href: formatView({ ...view, attempt, rank, at: row.at }),
    label: `Link to this line, at byte ${integer(row.at)}`,
    rank: null,
  });
  const version = log.version.value;
  return html`<div class="toolbar log-tools">
      ${choices}
      <${FindBox} find=${view.find} onFind=${onFind} />
      ${view.find && html`<${Matches} found=${search.found} error=${search.error} current=${view.at === null ? -1 : matches.indexOf(view.at)} onStep=${go} />`}
      <span class="grow"></span>
      <${FirstError} url=${url} onFound=${lookAt} />
      <a href=${url} download=${`${run.name}-attempt-${attempt}-rank-${rank}.log`}>Download ${bytes(size)}</a>
    </div>
    <${LogBar} state=${log.state.value} place=${place(pinned ? size : top, size)} growing=${growing} pinned=${pinned} follow=${follow} toStart=${toStart} />
    ${log.error.value && html`<p class="problem" role="alert">${log.error.value}</p>`}
    <${LogPane}
      log=${log}
      version=${version}
      find=${view.find}
      current=${view.at === null ? -1 : log.lineAt(view.at)}
      link=${link}
      pinned=${pinned}
      onPin=${(/** @type {boolean} */ on) => on !== pinned && (growing || !on) && onPin(on)}
      onTop=${(/** @type {LogRow} */ row) => setTop(row.at)}
    />`;
}

/** @param {number | null} at @param {number} size */
const place = (at, size) =>
  at === null ? "" : size < 100_000 ? bytes(size) : `${bytes(at)} of ${bytes(size)}`;

/** What the head finds of a text, and goes on to find. @param {string} url @param {string} find @param {number} size */
export function useSearch(url, find, size) {
  const search = useOpened(() => (find ? openSearch(url, { q: find }) : NO_SEARCH), [url, find]);
  useEffect(() => search.grown(size), [search, size]);
  return { found: search.found?.value ?? NOTHING_FOUND, error: search.error?.value ?? null };
}

const NO_SEARCH = {
  found: null,
  error: null,
  grown: (/** @type {number} */ _) => {},
  close: () => {},
};

/** @param {{ url: string, onFound: (at: number) => void }} props */
function FirstError({ url, onFound }) {
  const [far, setFar] = useState(/** @type {string | null} */ (null));
  const closing = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => closing.current?.abort(), []);
  const look = async () => {
    const mine = (closing.current = new AbortController());
    setFar("Looking");
    try {
      const found = await firstError(url, mine.signal, (to, size) =>
        setFar(`${bytes(to)} of ${bytes(size)}`),
      );
      if (found) onFound(found.offset);
      else say("No line of this log begins an error.");
    } catch (e) {
      if (!mine.signal.aborted) say(errorText(e), { bad: true });
    }
    setFar(null);
  };
  return html`<button class="button log-error" disabled=${far !== null} onClick=${look}>${far ?? "First error"}</button>`;
}
