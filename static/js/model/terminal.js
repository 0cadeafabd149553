// Log text as a terminal would show it: carriage returns overwrite, colours are kept, the cursor
// can go up to redraw progress bars. The outcome is lines of styled spans of plain text. Control
// bytes that a log has no use for are made visible; nothing is ever taken for markup.
// It is no full terminal: no screen, no scroll regions, no clearing of what was already printed.

import { applySgr, classOf, plain } from "./sgr.js";
import { CONTROLS, ESCAPES, visible } from "./text.js";

/** @typedef {{ text: string, style: string }} Span */
/** @typedef {{ chars: string[], styles: string[], at: number }} Cells */
/** `at`: the place in the file where the line begins. @typedef {{ at: number, spans: Span[] }} Row */

/** Lines that the cursor can still reach; tools that redraw more at once are rare. */
const LIVE_ROWS = 64;
/** A longer line goes on in the next one, so that one line without an end stays drawable. */
const MAX_COLUMNS = 4096;
const MAX_ESCAPE = 4096;

const ESCAPE = new RegExp(ESCAPES.source, "y");
const UNFINISHED = /^\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]*\x1b?|[PX^_][^\x1b\n]*\x1b?|[ -/]*)$/;
const CONTROL = new RegExp(CONTROLS.source, "g");

/** Bytes that are taken for one place, so that the parts of a line without an end have places of their own. */
const STRETCH = 4096;
const NEWLINE = 10;
/** More in a row, as at the edge of a hole, are counted. */
const SHOWN_ZEROS = 8;

export class Terminal {
  /** @param {number} [at] where the first byte stands in the file @param {number} [liveRows] how far up the cursor can go */
  constructor(at = 0, liveRows = LIVE_ROWS) {
    this.liveRows = liveRows;
    this.decoder = new TextDecoder();
    /** The place of what is written next. */
    this.at = at;
    /** Lines that do not change any more. @type {Row[]} */
    this.done = [];
    /** @type {Cells[]} */
    this.live = [{ chars: [], styles: [], at }];
    this.row = 0;
    this.column = 0;
    this.pen = plain();
    this.style = "";
    this.pending = "";
  }

  /** Part of a file; it may end in the middle of anything. @param {Uint8Array} bytes @param {number} offset where it stands */
  writeBytes(bytes, offset) {
    for (let from = 0; from < bytes.length;) {
      const newline = bytes.subarray(from, from + STRETCH).indexOf(NEWLINE);
      const to = newline < 0 ? Math.min(bytes.length, from + STRETCH) : from + newline;
      this.at = offset + from;
      this.write(this.decoder.decode(bytes.subarray(from, to), { stream: true }));
      from = newline < 0 ? to : to + 1;
      this.at = offset + from;
      if (newline >= 0) this.write("\n");
    }
  }

  /** Nothing more comes to the lines that are there: what follows begins a new one. @param {number} at */
  flush(at) {
    this.write(this.decoder.decode());
    while (this.pending) this.#giveUp();
    this.done.push(...this.live.slice(0, this.length - this.done.length).map(row));
    this.live = [{ chars: [], styles: [], at }];
    this.row = 0;
    this.column = 0;
  }

  /** The end of a sequence does not come: it is shown as what it is. */
  #giveUp() {
    const rest = this.pending.slice(1);
    this.pending = "";
    this.#print(visible("\x1b"), "t-control");
    this.write(rest);
  }

  /** @param {string} chunk may end in the middle of an escape sequence */
  write(chunk) {
    const text = this.pending + chunk;
    this.pending = "";
    let at = 0;
    while (at < text.length) {
      CONTROL.lastIndex = at;
      const found = CONTROL.exec(text);
      const until = found ? found.index : text.length;
      if (until > at) this.#print(text.slice(at, until), this.style);
      if (!found) return;
      at = until;
      const zeros = found[0] === "\0" ? zerosAt(text, at) : 0;
      if (zeros > SHOWN_ZEROS) {
        this.#print(`${visible("\0")}×${zeros}`, "t-control");
        at += zeros;
        continue;
      }
      if (found[0] !== "\x1b") {
        this.#control(found[0]);
        at += 1;
        continue;
      }
      const used = this.#escape(text, at);
      if (used < 0) {
        this.pending = text.slice(at);
        return;
      }
      at += used;
    }
  }

  /** How many lines there are; an empty last one, where the cursor waits, is not counted. */
  get length() {
    const last = this.live[this.live.length - 1];
    return this.done.length + this.live.length - (last.chars.length === 0 ? 1 : 0);
  }

  /** @param {number} i @returns {Row} */
  line(i) {
    return i < this.done.length ? this.done[i] : row(this.live[i - this.done.length]);
  }

  /** @param {string} text @param {string} style */
  #print(text, style) {
    for (const char of text) {
      if (this.column >= MAX_COLUMNS) this.#newline();
      const cells = this.live[this.row];
      while (cells.chars.length < this.column) {
        cells.chars.push(" ");
        cells.styles.push("");
      }
      cells.chars[this.column] = char;
      cells.styles[this.column] = style;
      this.column += 1;
    }
  }

  #newline() {
    this.column = 0;
    this.row += 1;
    if (this.row < this.live.length) return;
    this.live.push({ chars: [], styles: [], at: this.at });
    while (this.live.length > this.liveRows) {
      this.done.push(row(/** @type {Cells} */ (this.live.shift())));
      this.row -= 1;
    }
  }

  /** @param {string} char */
  #control(char) {
    if (char === "\n") this.#newline();
    else if (char === "\r") this.column = 0;
    else if (char === "\b") this.column = Math.max(0, this.column - 1);
    else if (char === "\t") {
      const stop = (Math.floor(this.column / 8) + 1) * 8;
      if (stop > this.live[this.row].chars.length) this.#print(" ".repeat(stop - this.column), this.style);
      else this.column = stop;
    } else this.#print(visible(char), "t-control");
  }

  /** How many characters the sequence took, or −1 if it may go on in the next chunk. @param {string} text @param {number} at */
  #escape(text, at) {
    ESCAPE.lastIndex = at;
    const found = ESCAPE.exec(text);
    if (found) {
      if (found[2]) this.#command(found[2], found[1]);
      return found[0].length;
    }
    if (text.length - at < MAX_ESCAPE && UNFINISHED.test(text.slice(at))) return -1;
    this.#print(visible("\x1b"), "t-control");
    return 1;
  }

  /** @param {string} final @param {string} params */
  #command(final, params) {
    const n = Math.min(MAX_COLUMNS, Number(params.split(";")[0]) || 1);
    if (final === "m") {
      this.pen = applySgr(this.pen, params);
      this.style = classOf(this.pen);
    } else if (final === "K") this.#eraseLine(Number(params) || 0);
    else if (final === "A") this.row = Math.max(0, this.row - n);
    else if (final === "B") this.row = Math.min(this.live.length - 1, this.row + n);
    else if (final === "C") this.column = Math.min(MAX_COLUMNS - 1, this.column + n);
    else if (final === "D") this.column = Math.max(0, this.column - n);
    else if (final === "G") this.column = Math.min(MAX_COLUMNS - 1, n - 1);
  }

  /** @param {number} mode 0 to the right, 1 to the left, 2 all of it */
  #eraseLine(mode) {
    const cells = this.live[this.row];
    if (mode !== 1) {
      const from = mode === 2 ? 0 : this.column;
      cells.chars.length = cells.styles.length = Math.min(cells.chars.length, from);
    } else cells.chars.fill(" ", 0, this.column + 1);
  }
}

/** @param {string} text @param {number} from */
function zerosAt(text, from) {
  let to = from;
  while (text[to] === "\0") to += 1;
  return to - from;
}

/** @param {Cells} cells @returns {Row} */
const row = (cells) => ({ at: cells.at, spans: spans(cells) });

/** @param {Cells} cells @returns {Span[]} */
function spans({ chars, styles }) {
  /** @type {Span[]} */
  const out = [];
  let from = 0;
  for (let i = 1; i <= chars.length; i += 1) {
    if (i < chars.length && styles[i] === styles[from]) continue;
    out.push({ text: chars.slice(from, i).join(""), style: styles[from] });
    from = i;
  }
  return out;
}
