// One rank's part of a list that several ranks share: its bytes become lines that know their rank and, if a
// logger wrote one, their time. Pure; reading is elsewhere.
/** @import { RankPart } from "./interleave.js" */
/** @import { LogRow, Piece } from "./log_window.js" */
/** @import { Row } from "./terminal.js" */

import { timeOf } from "./log_time.js";
import { Terminal } from "./terminal.js";

const HALF_DAY_MS = 43_200_000;
const DAY_MS = 2 * HALF_DAY_MS;
const HOUR_MS = 3_600_000;

/**
 * `start` and `end`: which bytes have been taken; `day_ms`: of which day times without one are; `dayless`: its
 * last time has none.
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
  const lines = done.map((row) => ({ ...row, rank: source.rank, ...timeIn(source, row) }));
  source.terminal.done = [];
  for (const line of lines) source.lines.push(line);
  return lines;
}

/** Times of the day that go back by much have passed midnight. @param {RankSource} source @param {Row} row */
function timeIn(source, { spans }) {
  let time = timeOf(spans, source.day_ms);
  if (time === null) return { time, dayless: false };
  const dayless = timeOf(spans, source.day_ms + DAY_MS) === time + DAY_MS;
  if (!dayless) source.day_ms = time;
  else if (source.last_ms - time >= HALF_DAY_MS) {
    source.day_ms += DAY_MS;
    time += DAY_MS;
  }
  source.last_ms = time;
  source.dayless = dayless;
  return { time, dayless };
}

/** @param {RankSource} source */
const firstOf = (source) => source.lines.find((line) => line.time !== null);

/**
 * Of a part of a log whose times have no day it is not known how many midnights lie before it: such parts end
 * together. Logs that are held from their beginnings began together, also about midnight.
 * @param {RankSource[]} sources
 */
export function alignDays(sources) {
  const wholes = sources.filter((s) => s.whole && firstOf(s)?.dayless);
  const first = Math.max(...wholes.map((s) => firstOf(s)?.time ?? 0));
  for (const s of wholes) {
    const apart = first - (firstOf(s)?.time ?? 0);
    // A rank may have been silent for hours before it wrote anything: then it is of the day that it is of.
    if (Math.abs(apart - daysIn(apart)) < HOUR_MS) shift(s, daysIn(apart));
  }
  const last = Math.max(...sources.filter(firstOf).map((s) => s.last_ms));
  for (const s of sources) if (!s.whole && s.dayless) shift(s, daysIn(last - s.last_ms));
}

/** An earlier part of the same log ends where the other one begins. @param {RankSource} before @param {RankSource} source */
export function joinDays(before, source) {
  const next = firstOf(source)?.time ?? null;
  if (next !== null && before.dayless) shift(before, daysIn(next - before.last_ms));
}

/** The whole days in a stretch of time, rounded, as milliseconds. @param {number} ms */
const daysIn = (ms) => Math.round(ms / DAY_MS) * DAY_MS;

/** @param {RankSource} source @param {number} by */
function shift(source, by) {
  source.day_ms += by;
  source.last_ms += by;
  for (const line of source.lines) if (line.dayless && line.time !== null) line.time += by;
}
