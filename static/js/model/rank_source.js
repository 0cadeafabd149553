// One rank's part of a list that several ranks share: its bytes become lines that know their rank and, if a
// logger wrote one, their time. Pure; reading is elsewhere.
/** @import { RankLine, RankPart } from "./interleave.js" */
/** @import { LogRow, Piece } from "./log_window.js" */
/** @import { Row } from "./terminal.js" */

import { firstTime } from "./interleave.js";
import { timeOf } from "./log_time.js";
import { Terminal } from "./terminal.js";

const HALF_DAY_MS = 43_200_000;
const DAY_MS = 2 * HALF_DAY_MS;

/**
 * `start` and `end`: which bytes have been taken; `day_ms`: of which day times without one are; `dayless`:
 * there are such times.
 * @typedef {RankPart & { start: number, end: number, terminal: Terminal, last_ms: number, day_ms: number, dayless: boolean }} RankSource
 */

/** @param {number} rank @param {number} day_ms @returns {RankSource} */
export function newSource(rank, day_ms) {
  const terminal = lineTerminal(0);
  return { rank, whole: false, lines: [], start: 0, end: 0, terminal, last_ms: 0, day_ms, dayless: false };
}

/** Only whole lines are put between those of others, so the cursor stays in its line. @param {number} at */
const lineTerminal = (at) => new Terminal(at, 1);

/** @param {RankSource} source @param {Piece[]} pieces @param {number} from */
export function begin(source, pieces, from) {
  const [first, ...rest] = pieces;
  source.start = source.end = from;
  source.terminal = lineTerminal(from);
  if (first) {
    // The first line is cut off unless the log, or what is there of it, begins with it.
    const newline = first.offset === 0 || first.hole !== null ? 0 : first.bytes.indexOf(10) + 1;
    // Of a line that is longer than all of it the part is taken, or nothing would ever be.
    const cut = newline < first.bytes.length ? newline : 0;
    source.start = source.end = first.offset + cut;
    source.terminal = lineTerminal(source.start);
    take(source, { ...first, offset: source.start, bytes: first.bytes.subarray(cut) });
  }
  for (const piece of rest) take(source, piece);
  source.whole = source.start === 0;
}

/** What lies between this and what was taken before is left out. @param {RankSource} source @param {Piece} piece */
export function take(source, { offset, bytes }) {
  if (offset > source.end) {
    source.terminal.flush(offset);
    /** @type {LogRow[]} */ (source.terminal.done).push({
      at: source.end,
      spans: [],
      hole: offset - source.end,
    });
  }
  source.end = offset + bytes.length;
  source.terminal.writeBytes(bytes, offset);
}

/** The lines that became whole since the last time. @param {RankSource} source */
export function drain(source) {
  const { done } = source.terminal;
  const lines = done.map((row) => ({ ...row, rank: source.rank, time: timeIn(source, row) }));
  source.terminal.done = [];
  for (const line of lines) source.lines.push(line);
  return lines;
}

/** Times of the day that go back by much have passed midnight. @param {RankSource} source @param {Row} row */
function timeIn(source, { spans }) {
  const time = timeOf(spans, source.day_ms);
  if (time === null) return null;
  const later = timeOf(spans, source.day_ms + DAY_MS);
  const isDayless = later !== null && later !== time;
  source.dayless ||= isDayless;
  if (!isDayless || source.last_ms - time < HALF_DAY_MS) return (source.last_ms = time);
  source.day_ms += DAY_MS;
  return (source.last_ms = later);
}

/**
 * Of a part of a log whose times have no day it is not known how many midnights lie before it. Logs that
 * are held from their beginnings began together, and the parts of others end together.
 * @param {RankSource[]} sources
 */
export function alignDays(sources) {
  const timed = sources.filter((s) => firstTime(s) !== null);
  const first = Math.max(...timed.filter((s) => s.whole).map((s) => firstTime(s) ?? 0));
  for (const s of timed.filter((s) => s.whole)) shift(s, daysTo(first - (firstTime(s) ?? 0)));
  const last = Math.max(...timed.map((s) => s.last_ms));
  for (const s of timed.filter((s) => !s.whole)) shift(s, daysTo(last - s.last_ms));
}

/** An earlier part of the same log ends where the other one begins. @param {RankSource} before @param {RankSource} source */
export function joinDays(before, source) {
  const next = firstTime(source);
  if (next !== null && firstTime(before) !== null) shift(before, daysTo(next - before.last_ms));
}

/** Whole days, as milliseconds, that bring two times to within half a day. @param {number} ms */
const daysTo = (ms) => Math.round(ms / DAY_MS) * DAY_MS;

/** @param {RankSource} source @param {number} by */
function shift(source, by) {
  if (!source.dayless || by === 0) return;
  source.day_ms += by;
  source.last_ms += by;
  for (const line of /** @type {RankLine[]} */ (source.lines)) if (line.time !== null) line.time += by;
}
