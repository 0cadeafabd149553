// Logs without a browser: the part that is held, times in lines, several ranks as one list, searches.
import assert from "node:assert/strict";
import { test } from "node:test";
import { hits, marked, stepTo } from "../../../static/js/model/find.js";
import {
  completeFrom,
  haveTimes,
  interleave,
  toExtend,
  withoutTimes,
} from "../../../static/js/model/interleave.js";
import { timeOf } from "../../../static/js/model/log_time.js";
import { LogWindow, MAX_ROWS } from "../../../static/js/model/log_window.js";
import { alignDays, begin, drain, joinDays, newSource, take } from "../../../static/js/model/rank_source.js";

const bytesOf = (/** @type {string} */ text) => new TextEncoder().encode(text);
/** @param {number} offset @param {string} text @param {number | null} [hole] */
const piece = (offset, text, hole = null) => ({ offset, bytes: bytesOf(text), hole });
/** @param {LogWindow} held */
const shown = (held) =>
  Array.from({ length: held.length }, (_, i) => {
    const row = held.row(i);
    return row.hole ? `(${row.hole})` : row.spans.map((s) => s.text).join("");
  });
const line = (/** @type {string} */ text) => [{ text, style: "" }];

test("a part that begins in a line leaves it to the part before", () => {
  const held = LogWindow.of([piece(100, "rest\none\ntwo\n")]);
  assert.deepEqual([shown(held), held.start, held.end], [["one", "two"], 105, 113]);
  held.prepend(LogWindow.of([piece(90, "x\nthe whole ".slice(0, 10)), piece(100, "rest\n")]));
  assert.deepEqual(shown(held), ["the wholrest", "one", "two"]);
  assert.equal(held.base, -1);
  assert.equal(held.find(106), 1);
  assert.deepEqual(shown(LogWindow.of([piece(0, "from the start\n")])), ["from the start"]);
  assert.deepEqual(shown(LogWindow.of([piece(50, "no end in sight")])), ["no end in sight"]);
});

test("what follows goes on in the same line, and is taken once", () => {
  const held = LogWindow.of([piece(0, "a\nb")]);
  held.append(piece(2, "bc\nd"));
  held.append(piece(3, "c\nd\n"));
  assert.deepEqual(shown(held), ["a", "bc", "d"]);
  assert.equal(held.end, 7);
});

test("holes are lines of their own, wherever they are met", () => {
  const held = LogWindow.of([piece(0, "a\n"), piece(5_000, "b\n", 2)]);
  assert.deepEqual(shown(held), ["a", "(4998)", "b"]);
  const after = LogWindow.of([piece(5_000, "b\n", 2)]);
  assert.deepEqual([shown(after), after.start], [["(4998)", "b"], 2]);
  after.prepend(LogWindow.of([piece(0, "a\n")]));
  assert.deepEqual(shown(after), ["a", "(4998)", "b"]);
  const behind = LogWindow.of([piece(4_000, "x\nb\n")]);
  behind.prepend(LogWindow.hole(2, 4_002));
  assert.deepEqual([shown(behind), behind.start], [["(4000)", "b"], 2]);
  behind.prepend(LogWindow.of([piece(0, "a\n")]));
  assert.equal(shown(behind)[0], "a");
});

test("too much is cut at the far end, and lines keep their numbers", () => {
  const held = LogWindow.of([piece(0, "first\n")]);
  const many = "12345678\n".repeat(MAX_ROWS);
  held.append(piece(6, many));
  assert.ok(held.length <= MAX_ROWS && held.start > 6);
  assert.equal(held.row(0).at, held.start);
  assert.equal((held.start - 6) / 9 + 1, held.base);
  const early = LogWindow.of([piece(many.length, many)]);
  const before = early.end;
  early.prepend(LogWindow.of([piece(0, many)]));
  assert.ok(early.length <= MAX_ROWS && early.end < before);
  early.append(piece(early.end, "again\n"));
  assert.equal(shown(early).at(-1), "again");
});

test("what a progress bar overwrote does not count as much that is held", () => {
  const bar = (/** @type {number} */ i) => `${"\rstep 1234567".repeat(10_000)}\repoch ${i}       \n`;
  const texts = Array.from({ length: 80 }, (_, i) => bar(i));
  const held = LogWindow.of([piece(0, texts.slice(40).join(""))]);
  const before = LogWindow.of([piece(0, texts.slice(0, 40).join(""))]);
  held.prepend(before);
  held.append(piece(held.end, bar(80)));
  assert.equal(held.length, 81);
  assert.match(shown(held)[80], /^epoch 80/);
});

test("many short lines with long rows are cut by what they show, not by their bytes", () => {
  const held = LogWindow.of([piece(0, "\x1b[4000Cx\n".repeat(5000))]);
  assert.ok(held.length < 2000 && held.start > 0);
});

test("times are found where loggers write them", () => {
  const day = Date.UTC(2026, 5, 1);
  const at = Date.UTC(2026, 5, 1, 12, 30, 5);
  const times = {
    "2026-06-01T12:30:05Z step": 0,
    "2026-06-01 12:30:05,250 INFO": 250,
    "[2026-06-01 12:30:05.250] x": 250,
    "INFO 2026-06-01 12:30:05 x": 0,
    "[rank0]: 2026-06-01T14:30:05.5+02:00 x": 500,
    "[rank 3] [2026/06/01 12:30:05] x": 0,
    "[12:30:05] x": 0,
    "12:30:05.125 x": 125,
    "I0601 12:30:05.000250 17 a.cc:1] x": 0.25,
    "1780317005.5 x": 500,
  };
  for (const [text, ms] of Object.entries(times)) assert.equal((timeOf(line(text), day) ?? 0) - at, ms, text);
  for (const text of [
    "",
    "step 12",
    "loss at 12:30:05",
    "    at x (y.js:12:30)",
    "99:30:05",
    "1234 x",
    "x".repeat(500),
  ])
    assert.equal(timeOf(line(text), day), null, text);
  assert.equal(
    timeOf(
      [
        { text: "[12:3", style: "a" },
        { text: "0:05]", style: "b" },
      ],
      day,
    ),
    at,
  );
});

/** @param {number} rank @param {[number | null, string][]} lines @param {boolean} [whole] */
const part = (rank, lines, whole = true) => ({
  rank,
  whole,
  lines: lines.map(([time, text], at) => ({ rank, time, at, spans: line(text) })),
});
const texts = (/** @type {any[]} */ lines) => lines.map((l) => l.spans[0].text);

test("ranks are one list in the order of times, and lines without one stay with the line before", () => {
  const a = part(0, [
    [null, "a head"],
    [1, "a1"],
    [4, "a4"],
    [null, "  trace"],
    [null, "  more"],
  ]);
  const b = part(1, [
    [2, "b2"],
    [4, "b4"],
    [3, "b3 late"],
  ]);
  assert.deepEqual(texts(interleave([a, b])), [
    "a head",
    "a1",
    "b2",
    "a4",
    "  trace",
    "  more",
    "b4",
    "b3 late",
  ]);
});

test("nothing is shown from before where a rank is not held, and that rank is read next", () => {
  const a = part(
    0,
    [
      [10, "a10"],
      [20, "a20"],
    ],
    false,
  );
  const b = part(
    1,
    [
      [5, "b5"],
      [15, "b15"],
    ],
    false,
  );
  assert.equal(completeFrom([a, b]), 10);
  assert.deepEqual(toExtend([a, b]), [0]);
  assert.deepEqual(texts(interleave([a, b])), ["a10", "b15", "a20"]);
  assert.deepEqual(
    texts(
      interleave([
        { ...a, whole: true },
        { ...b, whole: true },
      ]),
    ),
    ["b5", "a10", "b15", "a20"],
  );
});

test("without any time there is no order but that of the ranks", () => {
  const parts = [
    part(0, [
      [null, "a"],
      [null, "b"],
    ]),
    part(1, [[null, "c"]]),
  ];
  assert.equal(haveTimes(parts), false);
  assert.deepEqual(texts(interleave(parts)), ["a", "b", "c"]);
});

test("a rank without times stands where those with times begin, and is named", () => {
  const parts = [
    part(0, [[10, "a10"]], false),
    part(
      1,
      [
        [null, "b"],
        [null, "more b"],
      ],
      false,
    ),
    part(2, [
      [5, "c5"],
      [15, "c15"],
    ]),
  ];
  assert.deepEqual(texts(interleave(parts)), ["a10", "b", "more b", "c15"]);
  assert.deepEqual(withoutTimes(parts), [1]);
});

test("a line that is longer than what is read is taken in parts, and the first line knows its place", () => {
  const source = newSource(0, 0);
  begin(source, [piece(1000, `${"x".repeat(50)}\n`)], 1000);
  assert.deepEqual([source.start, source.end], [1000, 1051]);
  assert.equal(drain(source)[0].at, 1000);
  const cut = newSource(0, 0);
  begin(cut, [piece(1000, "cut\nwhole\n")], 1000);
  assert.equal(drain(cut)[0].at, 1004);
});

test("a piece of very many lines is drained", () => {
  const source = newSource(0, 0);
  begin(source, [piece(0, "\n".repeat(200_000))], 0);
  assert.equal(drain(source).length, 200_000);
  assert.equal(source.lines.length, 200_000);
});

test("a rank's bytes become lines with times, also past midnight and across what is left out", () => {
  const source = newSource(3, Date.UTC(2026, 0, 1));
  begin(source, [piece(10, "cut\n23:59:59 a\n00:00:01 b\nhalf")], 10);
  const lines = drain(source);
  assert.deepEqual(texts(lines), ["23:59:59 a", "00:00:01 b"]);
  assert.equal(lines[1].time, Date.UTC(2026, 0, 2, 0, 0, 1));
  assert.deepEqual([source.start, source.whole, lines[0].rank], [14, false, 3]);
  take(source, piece(90, "after\n"));
  assert.deepEqual(
    drain(source).map((l) => l.spans[0]?.text ?? "hole"),
    ["half", "hole", "after"],
  );
});

test("matches are marked across colours, whatever the case of ASCII letters", () => {
  const spans = [
    { text: "an Err", style: "red" },
    { text: "OR, error İ", style: "" },
  ];
  assert.deepEqual(
    marked(spans, "error").map((s) => (s.hit ? `<${s.text}>` : s.text)),
    ["an ", "<Err>", "<OR>", ", ", "<error>", " İ"],
  );
  assert.equal(marked(spans, "none"), spans);
  assert.ok(hits(spans, "ERROR") && !hits(spans, "errors"));
});

test("steps lead to the next match and round at the ends", () => {
  const places = [10, 20, 30];
  assert.deepEqual(
    [stepTo(places, 15, 1), stepTo(places, 30, 1), stepTo(places, 20, -1), stepTo(places, 10, -1)],
    [1, 0, 0, 2],
  );
  assert.equal(stepTo([], 1, 1), -1);
});

test("times without a day that were read from the middle of logs are of the day of the others", () => {
  const day = Date.UTC(2026, 0, 1, 9);
  /** @param {number} rank @param {string} text @param {number} from */
  const read = (rank, text, from) => {
    const source = newSource(rank, day);
    begin(source, [{ offset: from, bytes: new TextEncoder().encode(text), hole: null }], from);
    source.terminal.flush(source.end);
    drain(source);
    return source;
  };
  // Both are near the same midnight, which only the first one shows.
  const a = read(0, "x\n23:58:00 a1\n00:02:00 a2\n", 5000);
  const b = read(1, "x\n00:01:00 b1\n00:03:00 b2\n", 5000);
  alignDays([a, b]);
  assert.deepEqual(texts(interleave([a, b])), ["00:01:00 b1", "00:02:00 a2", "00:03:00 b2"]);
  const earlier = read(1, "x\n23:50:00 b0\n23:57:00 b0b\n", 3000);
  joinDays(earlier, b);
  b.lines = [...earlier.lines, ...b.lines];
  assert.deepEqual(texts(interleave([a, b])), ["23:58:00 a1", "00:01:00 b1", "00:02:00 a2", "00:03:00 b2"]);
  // Held from their beginnings, they began together, though one of them after midnight.
  const c = read(2, "23:59:00 c1\n", 0);
  const d = read(3, "00:00:30 d1\n", 0);
  alignDays([c, d]);
  assert.deepEqual(texts(interleave([c, d])), ["23:59:00 c1", "00:00:30 d1"]);
  // One that was silent for most of a day is of that day.
  const e = read(4, "09:00:00 e1\n23:29:00 e2\n", 0);
  const f = read(5, "23:30:05 f1\n", 0);
  alignDays([e, f]);
  assert.deepEqual(texts(interleave([e, f])), ["09:00:00 e1", "23:29:00 e2", "23:30:05 f1"]);
  // What has a day keeps it, and lends it to what comes after.
  const g = read(6, "x\n2026-01-05 10:00:00 g1\n10:01:00 g2\n", 5000);
  const h = read(7, "x\n2026-01-05 10:00:30 h1\n", 5000);
  alignDays([g, h]);
  assert.deepEqual(texts(interleave([g, h])), ["2026-01-05 10:00:30 h1", "10:01:00 g2"]);
});
