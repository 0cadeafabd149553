// The list of runs that the Runs page shows: loading it page by page, and keeping it current
// from the event stream. It outlives the page, so that coming back to it downloads nothing.
// The rules of the list are in model/run_list.js.
/** @import { Counts, MetricTick, RunChange, TrainRun } from "../types.js" */
/** @import { Row } from "../model/run_list.js" */
/** @import { RunsView } from "../model/view.js" */

import { signal } from "@preact/signals";
import { usualMetrics } from "../model/columns.js";
import {
  appendPage,
  applyChange,
  applyTick,
  keepSame,
  matches,
  noticeStalls,
  placeOf,
} from "../model/run_list.js";
import { ALL_RUNS, formatView, NEWEST_FIRST } from "../model/view.js";
import { ApiError, errorText, FIRST_PAGE, listRuns } from "../server/api.js";
import { connection, listen, listening } from "../server/events.js";
import { now, setServerTime } from "./clock.js";
import { perFrame, throttled } from "./frame.js";

/**
 * `view` is the one that the rows were loaded for; `token` leads to the next page; `metrics` are
 * shown if nobody has chosen; `unsorted` counts the runs that came or changed so that they may not be where they belong.
 * @typedef {{ view: RunsView | null, rows: Row[], token: string | null, total: number, counts: Counts | null, metrics: string[], unsorted: number }} List
 */

const FURTHER_PAGE = 200;
const MOST_A_PAGE = 1000;
const RETRY_MS = 5000;
const STALLS_EVERY_MS = 5000;
/** Runs beyond the list that are kept in mind. */
const MOST_BEYOND = 10_000;

/** @type {List} */
const NOTHING_YET = { view: null, rows: [], token: null, total: 0, counts: null, metrics: [], unsorted: 0 };

export const list = signal(NOTHING_YET);
export const loading = signal(/** @type {"first" | "more" | null} */ (null));
export const error = signal(/** @type {string | null} */ (null));
/** How far the list is scrolled, for who comes back to it, and how many rows that are. */
export const scrolled = { to: 0, rows: 0 };

/** @type {RunsView} */
let wanted = ALL_RUNS;
let shown = false;
let stale = true;
/** Something changed while nobody looked. */
let uncounted = false;
/** Runs whose place may be another one by now. @type {Set<string>} */
let displaced = new Set();
/** The head's time at which the list was asked for. */
let loadedAt = 0;
/** @type {AbortController | null} */
let request = null;

/** What the head is asked: two views that differ only in what is selected or shown have the same rows. @param {RunsView} view */
const question = (view) => formatView({ ...view, selected: [], col: [] });

/** The page is there and shows `view`. Settles when there is something to show. @param {RunsView} view */
export async function showRuns(view) {
  const same = question(view) === question(wanted);
  const there = list.peek().view !== null && !stale;
  const coming = loading.peek() === "first";
  wanted = view;
  shown = true;
  if (!same || !(there || coming)) await load();
  else if (uncounted) recount();
}

export function hideRuns() {
  shown = false;
}

/** In the order of now. */
export const sortAgain = () => void load();

/** @type {ReturnType<typeof setTimeout> | undefined} */
let retry;

async function load() {
  request?.abort();
  clearTimeout(retry);
  const mine = new AbortController();
  request = mine;
  loading.value = "first";
  const view = wanted;
  const before = list.peek();
  // The same list anew reaches as far as it was scrolled, so that who looks at it stays where they are.
  const again = before.view !== null && question(before.view) === question(view);
  const wish = again ? Math.min(before.rows.length, scrolled.rows) : 0;
  const page_size = Math.min(MOST_A_PAGE, Math.max(FIRST_PAGE, wish));
  // The first page does not wait to hear of changes. What it may have missed is asked for after.
  const unheard = connection.peek().state !== "live";
  try {
    let page = await listRuns(view, { page_size, signal: mine.signal });
    const asked = page.server_time_ms;
    let loaded = appendPage([], page.train_runs);
    while (loaded.length < wish && page.next_page_token) {
      const further = { page_token: page.next_page_token, page_size: MOST_A_PAGE, signal: mine.signal };
      page = await listRuns(view, further);
      loaded = appendPage(loaded, page.train_runs);
    }
    stale = uncounted = false;
    displaced = new Set();
    loadedAt = asked;
    setServerTime(page.server_time_ms);
    const { next_page_token: token, total_size: total, counts } = page;
    const rows = keepSame(before.rows, loaded);
    const metrics = usualMetrics(rows, before.metrics);
    list.value = { view: again ? before.view : view, rows, token, total, counts, metrics, unsorted: 0 };
    error.value = null;
    if (unheard)
      void listening.then(() => {
        if (request === mine && connection.peek().state === "live") void load();
      });
  } catch (e) {
    if (mine.signal.aborted) return;
    stale = true;
    error.value = errorText(e);
    // What was asked wrongly is wrong the next time, too.
    if (!(e instanceof ApiError) || e.status < 400 || e.status >= 500)
      retry = setTimeout(() => shown && stale && void load(), RETRY_MS);
  } finally {
    if (request === mine) settle();
  }
}

export async function loadMore() {
  const { view, token } = list.peek();
  if (!view || !token || loading.peek()) return;
  loading.value = "more";
  const mine = request;
  try {
    const page = await listRuns(view, { page_token: token, page_size: FURTHER_PAGE, signal: mine?.signal });
    const { rows } = list.peek();
    list.value = { ...list.peek(), rows: appendPage(rows, page.train_runs), token: page.next_page_token };
    error.value = null;
  } catch (e) {
    if (request === mine && !mine?.signal.aborted) error.value = errorText(e);
  } finally {
    if (request === mine) settle();
  }
}

/** A change says nothing of the runs that are not loaded, so the counts are asked for, and no rows. */
const recount = throttled(async () => {
  const { view } = list.peek();
  uncounted = !shown;
  if (!view || !shown) return;
  try {
    // They are the same in any order, and this one costs least.
    const { counts, total_size: total } = await listRuns({ ...view, sort: NEWEST_FIRST }, { page_size: 1 });
    if (list.peek().view === view) list.value = { ...list.peek(), counts, total };
  } catch {
    // The next change counts again, and a lost head is shown by the connection.
  }
}, 1000);

/** @typedef {{ run: RunChange } | { tick: MetricTick } | { gone: string }} News */

/** What came while an answer was on its way: that answer may be older, so this is applied again. @type {News[]} */
let held = [];

function settle() {
  loading.value = null;
  const again = held;
  held = [];
  absorb(again);
}

/** How runs stand that are not loaded, but were heard of: they count, too. @type {Map<string, string>} */
const beyond = new Map();

/** @param {News[]} items */
function absorb(items) {
  const { view, token, metrics } = list.peek();
  if (!view || items.length === 0) return;
  let { rows } = list.peek();
  let moved = false;
  // The newest first are put in their places.
  const ordered = view.sort !== NEWEST_FIRST;
  for (const item of items) {
    if ("gone" in item) {
      rows = rows.filter((r) => r.id !== item.gone);
      beyond.delete(item.gone);
      displaced.delete(item.gone);
      moved = true;
      continue;
    }
    const id = "tick" in item ? item.tick.run_id : item.run.id;
    if ("tick" in item && !ordered) {
      rows = applyTick(rows, item.tick);
      continue;
    }
    const before = rows.find((r) => r.id === id);
    if ("tick" in item) rows = applyTick(rows, item.tick);
    else {
      const standing = standingOf(item.run);
      const known = before ? standingOf(before) : beyond.get(id);
      if (before) beyond.delete(id);
      else if (beyond.size < MOST_BEYOND) beyond.set(id, standing);
      moved ||= known !== standing;
      rows = applyChange({ rows, complete: token === null }, item.run, view);
      // Of a run that is not loaded it is not known what changed, but for one that is new or stands otherwise.
      const news = known ? known !== standing : item.run.start_time_ms > loadedAt;
      if (ordered && !before && news && matches(item.run, view)) displaced.add(id);
    }
    if (!ordered || !before) continue;
    const after = rows.find((r) => r.id === id);
    if (!after) displaced.delete(id);
    else if (placeOf(before, view.sort) !== placeOf(after, view.sort)) displaced.add(id);
  }
  const unsorted = ordered ? displaced.size : 0;
  list.value = { ...list.peek(), rows, unsorted, metrics: usualMetrics(rows, metrics) };
  if (moved) recount();
}

/** What the counts of a list depend on. @param {TrainRun} run */
const standingOf = (run) => `${run.run_status} ${run.trashed_at_ms ?? null}`;

const apply = perFrame((/** @type {News[]} */ items) => {
  if (loading.peek()) held.push(...items);
  absorb(items);
});

listen({
  run: (run) => apply({ run }),
  metrics: (tick) => apply({ tick }),
  gone: (id) => apply({ gone: id }),
  resync: () => {
    // What waits is older than what is asked for now, and what came after it was not heard.
    apply.forget();
    held = [];
    stale = true;
    if (shown) void load();
  },
});

setInterval(() => {
  if (!shown || document.hidden || connection.peek().state !== "live") return;
  const { rows } = list.peek();
  const next = noticeStalls(rows, now.peek());
  if (next.some((row, i) => row !== rows[i])) list.value = { ...list.peek(), rows: next };
}, STALLS_EVERY_MS);
