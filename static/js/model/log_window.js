// The part of a log that is held: a stretch of the file as lines, which grows at both ends and is cut
// at the other one when it becomes too much. Holes, of which nothing was kept, are lines of their own.
// Pure; it knows no head and reads nothing.
/** @import { Row } from "./terminal.js" */

import { Terminal } from "./terminal.js";

/** `hole`: so many bytes are not there. @typedef {Row & { hole?: number, rank?: number }} LogRow */
/** Bytes that stand together; `hole`: where the hole begins that they follow. @typedef {{ offset: number, bytes: Uint8Array, hole: number | null }} Piece */

export const MAX_ROWS = 30_000;
/** As they are shown: a progress bar may have overwritten its line a thousand times. */
export const MAX_CHARS = 6 * 2 ** 20;
/** How much of the most is left after a cut, so that not every line makes one. */
const KEPT = 0.75;

export class LogWindow {
  /** @param {number} [at] */
  constructor(at = 0) {
    this.terminal = new Terminal(at);
    /** The number of the first line: it stays the same line's number when lines come before it. */
    this.base = 0;
    this.start = at;
    this.end = at;
  }

  /** @param {Piece[]} pieces in order @returns {LogWindow} */
  static of(pieces) {
    if (pieces.length === 0) return new LogWindow();
    const [{ offset, bytes, hole }, ...rest] = pieces;
    // What begins in the middle of a line leaves that line to the part before, if there is another one.
    const newline = offset === 0 || hole !== null ? 0 : bytes.indexOf(10) + 1;
    const cut = newline < bytes.length ? newline : 0;
    const made = new LogWindow(hole ?? offset + cut);
    made.append({ offset: offset + cut, bytes: bytes.subarray(cut), hole });
    for (const piece of rest) made.append(piece);
    return made;
  }

  /** @param {number} from @param {number} to */
  static hole(from, to) {
    const made = new LogWindow(from);
    if (to > from) made.#skip(to);
    return made;
  }

  get length() {
    return this.terminal.length;
  }

  /** @param {number} i counted from the first line held @returns {LogRow} */
  row(i) {
    return this.terminal.line(i);
  }

  /** The line that holds a byte, or the nearest one. @param {number} at */
  find(at) {
    let [low, high] = [0, this.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.row(middle).at <= at) low = middle;
      else high = middle;
    }
    return low;
  }

  /** What follows. @param {Piece} piece */
  append({ offset, bytes }) {
    if (offset > this.end) this.#skip(offset);
    const known = this.end - offset;
    if (known >= bytes.length) return;
    this.terminal.writeBytes(bytes.subarray(known), this.end);
    this.end = offset + bytes.length;
    if (this.#isTooMuch()) this.#cutStart();
  }

  /** What stands before; what lies between the two is a hole. @param {LogWindow} before */
  prepend(before) {
    if (before.end < this.start) before.#skip(this.start);
    before.terminal.flush(before.end);
    const rows = before.terminal.done;
    this.terminal.done = [...rows, ...this.terminal.done];
    this.base -= rows.length;
    this.start = before.start;
    if (this.#isTooMuch()) this.#cutEnd();
  }

  /** @param {number} to */
  #skip(to) {
    this.terminal.flush(to);
    /** @type {LogRow[]} */ (this.terminal.done).push({ at: this.end, spans: [], hole: to - this.end });
    this.end = to;
  }

  #isTooMuch() {
    if (this.length > MAX_ROWS) return true;
    let sum = 0;
    for (let i = 0; i < this.length; i += 1) sum += this.#size(i);
    return sum > MAX_CHARS;
  }

  /** @param {number} i */
  #size(i) {
    return this.row(i).spans.reduce((sum, { text }) => sum + text.length, 0);
  }

  #cutStart() {
    const cut = Math.min(this.#fitting(this.length - 1, -1) + 1, this.terminal.done.length);
    if (cut <= 0) return;
    this.terminal.done.splice(0, cut);
    this.base += cut;
    this.start = this.row(0).at;
  }

  /** What was at the end is read again when it is wanted. */
  #cutEnd() {
    const cut = Math.max(1, this.#fitting(0, 1));
    if (cut >= this.length) return;
    const { at } = this.row(cut);
    const rows = Array.from({ length: cut }, (_, i) => this.row(i));
    this.terminal = new Terminal(at);
    this.terminal.done = rows;
    this.end = at;
  }

  /** The first line that is too much, going from one in a direction. @param {number} i @param {1 | -1} by */
  #fitting(i, by) {
    let rows = 0;
    let chars = 0;
    while (i >= 0 && i < this.length) {
      rows += 1;
      chars += this.#size(i);
      if (rows > MAX_ROWS * KEPT || chars > MAX_CHARS * KEPT) return i;
      i += by;
    }
    return i;
  }
}
