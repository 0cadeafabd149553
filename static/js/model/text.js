// Text that somebody else wrote, made fit to stand in a sentence or a cell: colours and other
// terminal sequences are taken out, control bytes and marks that reorder text are made visible.
// Pure. Whole logs are shown by model/terminal.js instead.

/** One escape sequence; of a command also its parameters and its letter. None goes on in the next line, so that one that never ends hides none. */
export const ESCAPES =
  /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[PX^_][^\x1b\n]*\x1b\\|[ -/]*[0-OQ-WYZ\\`-~])/g;
/** C0, DEL, C1, and the marks that reorder text so that it reads as something else. */
export const CONTROLS = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** @param {string} text */
export function plain(text) {
  return text.replace(ESCAPES, "").replace(CONTROLS, (c) => (c === "\n" || c === "\t" ? c : visible(c)));
}

/** The first line, for where there is room for one. @param {string} text */
export const firstLine = (text) => plain(text.trim().split("\n", 1)[0]);

/** The picture of a control character, or its code where there is none. @param {string} char */
export function visible(char) {
  const code = char.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `‹${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}
