// One rank's part of a list that several ranks share: its bytes become lines that know their rank and, if a
// logger wrote one, their time. Pure; reading is elsewhere.
/** @import { RankPart } from "./interleave.js" */
/** @import { LogRow, Piece } from "./log_window.js" */
/** @import { Row } from "./terminal.js" */

import { timeOf } from "./log_time.js";
import { Terminal } from "./terminal.js";

const HALF_DAY_MS = 43_200_000;

/**
 * `start` and `end`: which bytes have been taken; `day_ms`: of which day times without one are.
 * @typedef {RankPart & { start: number, end: number, terminal: Terminal, last_ms: number, day_ms: number }} RankSource
 */

/** @param {number} rank @param {number} day_ms @returns {RankSource} */
export function newSource(rank, day_ms) {
  return { rank, whole: false, lines: [], start: 0, end: 0, terminal: lineTerminal(0), last_ms: 0, day_ms };
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
  const later = timeOf(spans, source.day_ms + 2 * HALF_DAY_MS);
  if (later === null || later === time || source.last_ms - time < HALF_DAY_MS) return (source.last_ms = time);
  source.day_ms += 2 * HALF_DAY_MS;
  return (source.last_ms = later);
}
