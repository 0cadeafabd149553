// The logs of several ranks as one list: the end of each, in the order of the times in their lines, then
// what is written from now on as it arrives. One question a second tells how long all of them are; only
// what grew is read. Quiet while the tab is hidden. It has the face of state/log.js as far as it can.
/** @import { RankPart } from "../model/interleave.js" */
/** @import { LogRow } from "../model/log_window.js" */
/** @import { RankSource } from "../model/rank_source.js" */
/** @import { LogState, Target } from "./log.js" */

import { signal } from "@preact/signals";
import { haveTimes, interleave, toExtend, withoutTimes } from "../model/interleave.js";
import { alignDays, begin, drain, joinDays, newSource, take } from "../model/rank_source.js";
import { errorText } from "../server/api.js";
import { listLogs, logUrl, readLog } from "../server/logs.js";
import { each } from "./in_turn.js";

/** So many at once: each is read by itself. */
export const MOST_RANKS = 16;
const FIRST_BYTES = 64 * 1024;
const MORE_BYTES = 64 * 1024;
/** What grew by more since the last look is left out but for its end. */
const SKIP_BYTES = 512 * 1024;
const MOST_ROWS = 30_000;
const LOOK_EVERY_MS = 1000;
const RETRY_MS = 2000;
/** So many are read at once. */
const AT_ONCE = 4;

/** `still`: nothing came at the last look. @typedef {RankSource & { url: string, still: boolean }} Source */

/** @param {string} id of the run @param {number} attempt @param {number[]} ranks @param {{ growing: () => boolean, late: () => boolean, day_ms: number }} how as in log.js; `day_ms`: for times without a day */
export function openAllLogs(id, attempt, ranks, { growing, late, day_ms }) {
  const state = signal(/** @type {LogState} */ ("loading"));
  const error = signal(/** @type {string | null} */ (null));
  const version = signal(0);
  /** How long each log is, by rank. */
  const sizes = signal(/** @type {Map<number, number>} */ (new Map()));
  const target = signal(/** @type {Target | null} */ (null));
  /** In the order of times; without any, rank after rank. */
  const timed = signal(true);
  /** Ranks without times, where others have some. @type {number[]} */
  let untimed = [];
  const closing = new AbortController();
  /** @type {Source[]} */
  const sources = ranks.map((rank) => ({
    ...newSource(rank, day_ms),
    url: logUrl(id, attempt, rank),
    still: false,
  }));
  /** @type {LogRow[]} */
  let rows = [];
  let base = 0;
  let opened = false;
  /** @type {(() => Promise<void>) | null} */
  let doing = null;
  /** What was asked for meanwhile. @type {(() => Promise<void>) | null} */
  let next = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  /** @param {Source} source @param {number} from @param {number} to */
  const read = (source, from, to) => readLog(source.url, Math.max(0, from), to, closing.signal);

  const merge = () => {
    const before = rows.length;
    timed.value = haveTimes(sources);
    rows = interleave(sources);
    base -= opened ? rows.length - before : 0;
    drawn();
  };
  const drawn = () => {
    untimed = timed.peek() ? withoutTimes(sources) : [];
    version.value += 1;
  };

  /** @param {Source} source @param {number} to */
  const grow = async (source, to) => {
    const skipped = to - source.end > SKIP_BYTES;
    const { pieces } = await read(source, skipped ? to - FIRST_BYTES : source.end, to);
    for (const piece of pieces) take(source, piece);
    source.end = to;
    return drain(source);
  };

  const open = async () => {
    await each(sources, AT_ONCE, async (source) => {
      const to = sizes.peek().get(source.rank) ?? 0;
      const from = Math.max(0, to - FIRST_BYTES);
      const { pieces } = await read(source, from, to);
      // It may have been filled before another rank could not be read.
      Object.assign(source, newSource(source.rank, day_ms));
      begin(source, pieces, from);
      source.end = to;
      if (!growing() && !late()) source.terminal.flush(to);
      drain(source);
    });
    alignDays(sources);
    merge();
    opened = true;
    target.value = { line: base + rows.length - 1, seq: 1 };
  };

  /** @param {boolean} last */
  const growAll = async (last) => {
    /** @type {RankPart[]} */
    const news = [];
    const reading = each(sources, AT_ONCE, async (source) => {
      const to = sizes.peek().get(source.rank) ?? 0;
      let lines = to > source.end ? await grow(source, to) : [];
      // A line that does not end yet is shown when nothing came for a while.
      if (lines.length === 0 && (source.still || last)) {
        source.terminal.flush(source.end);
        lines = drain(source);
      }
      source.still = lines.length === 0;
      news.push({ rank: source.rank, whole: true, lines });
    });
    // What came of some is shown, whatever became of the others: it is not read again.
    await reading.finally(() => add(interleave(news)));
  };

  /** @param {LogRow[]} added */
  const add = (added) => {
    if (added.length === 0) return;
    for (const row of added) rows.push(row);
    if (rows.length > MOST_ROWS) cut();
    drawn();
  };

  /** The oldest lines are let go. */
  const cut = () => {
    const gone = rows.splice(0, rows.length - MOST_ROWS * 0.75);
    base += gone.length;
    const kept = new Set(rows);
    for (const source of sources) {
      source.lines = source.lines.filter((line) => kept.has(line));
      source.start = source.lines[0]?.at ?? source.end;
      source.whole = source.start === 0;
    }
  };

  const look = async () => {
    const more = growing();
    const { logs } = await listLogs(id, closing.signal, attempt);
    sizes.value = new Map(logs.filter((f) => f.attempt === attempt).map((f) => [f.rank, f.size_bytes]));
    if (opened) await growAll(!more && !late());
    else await open();
    state.value = more ? "live" : "ended";
  };

  /** One thing at a time; earlier lines that are wanted during a look come after it. @param {() => Promise<void>} work */
  const once = async (work) => {
    if (doing) {
      if (work === earlier && doing !== earlier) next = work;
      return;
    }
    doing = work;
    try {
      await work();
      error.value = null;
    } catch (e) {
      if (closing.signal.aborted) return;
      [error.value, state.value] = [errorText(e), "lost"];
      again(RETRY_MS);
    }
    doing = null;
    const then = next;
    next = null;
    if (then) await once(then);
  };
  /** @param {number} ms */
  const again = (ms) => {
    clearTimeout(timer);
    if (!closing.signal.aborted) timer = setTimeout(lookOn, ms);
  };
  const lookOn = async () => {
    clearTimeout(timer);
    if (!document.hidden) await once(look);
    if (state.peek() !== "ended" || late()) again(state.peek() === "lost" ? RETRY_MS : LOOK_EVERY_MS);
  };
  const onVisibility = () => void (!document.hidden && lookOn());
  document.addEventListener("visibilitychange", onVisibility);
  void lookOn();

  const isAtStart = () => !timed.peek() || rows.length > MOST_ROWS * 0.75 || sources.every((s) => s.whole);
  const earlier = async () => {
    if (isAtStart()) return;
    const wanted = toExtend(sources);
    const reading = each(
      sources.filter((s) => wanted.includes(s.rank)),
      AT_ONCE,
      async (source) => {
        const to = source.start;
        const { pieces, beyond } = await read(source, to - MORE_BYTES, to);
        const before = newSource(source.rank, day_ms);
        begin(before, pieces, beyond?.hole ?? Math.max(0, to - MORE_BYTES));
        before.terminal.flush(to);
        drain(before);
        joinDays(before, source);
        source.lines = [...before.lines, ...source.lines];
        source.start = before.start;
        source.whole = source.start === 0;
      },
    );
    await reading.finally(merge);
  };

  return {
    state,
    error,
    version,
    sizes,
    target,
    timed,
    untimed: () => untimed,
    earlier: () => once(earlier),
    later: async () => {},
    toEnd: async () =>
      void (target.value = { line: base + rows.length - 1, seq: (target.peek()?.seq ?? 0) + 1 }),
    look: () => void lookOn(),
    part: () => sources,
    base: () => base,
    count: () => rows.length,
    /** @param {number} i @returns {LogRow} */
    row: (i) => rows[i],
    /** The number of the line of a rank that begins there; −1: it is not held. @param {number} rank @param {number} place */
    lineOf: (rank, place) => {
      const i = rows.findIndex((r) => r.rank === rank && r.at === place);
      return i < 0 ? -1 : base + i;
    },
    isAtStart,
    isAtEnd: () => true,
    close: () => {
      closing.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisibility);
    },
  };
}
