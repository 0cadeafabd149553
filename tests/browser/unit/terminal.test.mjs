// Log text as a terminal would show it, and hostile log text as harmless text.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Terminal } from "../../../static/js/model/terminal.js";

/** @param {string[]} chunks */
function show(...chunks) {
  const terminal = new Terminal();
  for (const c of chunks) terminal.write(c);
  return Array.from({ length: terminal.length }, (_, i) => terminal.line(i).spans);
}
/** @param {string[]} chunks */
const text = (...chunks) => show(...chunks).map((line) => line.map((s) => s.text).join(""));

test("lines end with a newline, and the empty place after the last is no line", () => {
  assert.deepEqual(text("a\r\nb\n"), ["a", "b"]);
  assert.deepEqual(text("a\n\nb"), ["a", "", "b"]);
  assert.deepEqual(text(""), []);
});

test("a carriage return overwrites from the start and keeps what is longer", () => {
  assert.deepEqual(text("10%\r20%\r100%\n"), ["100%"]);
  assert.deepEqual(text("abcdef\rXY"), ["XYcdef"]);
  assert.deepEqual(text("abcdef\r\x1b[KXY"), ["XY"]);
});

test("the cursor can go up to redraw several bars", () => {
  assert.deepEqual(text("one\ntwo\n\x1b[2A\rONE\n\rTWO\n"), ["ONE", "TWO"]);
});

test("backspace and tab move as expected", () => {
  assert.deepEqual(text("ab\bX\tY"), ["aX      Y"]);
});

test("colours become classes, any colour the nearest of sixteen", () => {
  assert.deepEqual(show("\x1b[1;31mred\x1b[0m no"), [
    [
      { text: "red", style: "t-bold t-fg1" },
      { text: " no", style: "" },
    ],
  ]);
  assert.equal(show("\x1b[38;2;250;5;5mx")[0][0].style, "t-fg9");
  // One code with parts of its own, with and without a colour space, is read as a whole.
  assert.equal(show("\x1b[38:2::250:5:31mx")[0][0].style, "t-fg9");
  assert.equal(show("\x1b[38:2:250:5:31mx")[0][0].style, "t-fg9");
  assert.equal(show("\x1b[48:5:46mx")[0][0].style, "t-bg10");
  assert.equal(show("\x1b[4:3;58;5;1;58:2::1:3:7mx")[0][0].style, "t-underline");
  assert.equal(show("\x1b[4m\x1b[4:0mx")[0][0].style, "");
  assert.equal(show("\x1b[38;5;46mx")[0][0].style, "t-fg10");
  assert.equal(show("\x1b[48;5;4;97mx")[0][0].style, "t-fg15 t-bg4");
});

test("sequences may be cut anywhere between two chunks", () => {
  const whole = "a\x1b[1;32mgreen\x1b[0m\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c\n";
  const expected = show(whole);
  for (let i = 0; i <= whole.length; i += 1)
    assert.deepEqual(show(whole.slice(0, i), whole.slice(i)), expected);
});

test("control bytes and marks that reorder text are made visible", () => {
  assert.deepEqual(text("a\x00\x07\x7f\x9b\u202eb"), ["a␀␇␡‹009B›‹202E›b"]);
});

test("an escape that never ends does not swallow the log", () => {
  const [line] = text(`\x1b]0;${"x".repeat(5000)}`, "after");
  assert.ok(line.startsWith("␛]0;xxx"));
});

test("an escape that does not end in its line hides nothing after it, and is shown", () => {
  for (const start of ["\x1b]0;t", "\x1bPq", "\x1b_x"])
    assert.deepEqual(text(`a${start}\n`, "b\n", "c\x07\n"), [`a␛${start.slice(1)}`, "b", "c␇"]);
  const terminal = new Terminal();
  terminal.write("a\x1b]0;title\x1b");
  terminal.flush(0);
  assert.equal(
    terminal
      .line(0)
      .spans.map((s) => s.text)
      .join(""),
    "a␛]0;title␛",
  );
});

test("markup stays text", () => {
  assert.deepEqual(text("<script>alert(1)</script>&amp;"), ["<script>alert(1)</script>&amp;"]);
});

test("a line without an end goes on in the next line", () => {
  const lines = text("x".repeat(10_000));
  assert.deepEqual(
    lines.map((l) => l.length),
    [4096, 4096, 1808],
  );
});

test("each line knows where it begins in the file, however the bytes come", () => {
  const bytes = new TextEncoder().encode("ä\n\rbar\r100%\n\x1b[31mred\x1b[0m\nlast");
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const terminal = new Terminal(1000);
    terminal.writeBytes(bytes.subarray(0, cut), 1000);
    terminal.writeBytes(bytes.subarray(cut), 1000 + cut);
    const rows = Array.from({ length: terminal.length }, (_, i) => terminal.line(i));
    assert.deepEqual(
      rows.map((r) => [r.at, r.spans.map((s) => s.text).join("")]),
      [
        [1000, "ä"],
        [1003, "100%"],
        [1013, "red"],
        [1026, "last"],
      ],
    );
  }
});

test("what is flushed stays, and the next bytes begin a line", () => {
  const terminal = new Terminal();
  terminal.write("a\nhalf");
  terminal.flush(50);
  terminal.writeBytes(new TextEncoder().encode("next\n"), 50);
  const rows = Array.from({ length: terminal.length }, (_, i) => terminal.line(i));
  assert.deepEqual(
    rows.map((r) => r.spans[0].text),
    ["a", "half", "next"],
  );
  assert.equal(rows[2].at, 50);
});

test("zeros in a row, as at the edge of a hole, are counted", () => {
  assert.deepEqual(text(`${"\0".repeat(3000)}a\0b`), ["␀×3000a␀b"]);
});
