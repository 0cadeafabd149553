// Series: decoding, pairing into bands, extending, and putting finer parts in.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bucketWidth,
  decode,
  EMPTY,
  extend,
  extentOf,
  isThinned,
  refined,
  resumeStep,
} from "../../../static/js/model/series.js";
import { extended, extentsOf, fine, questions } from "../../../static/js/model/lines.js";
import { wire } from "./fixtures_series.mjs";

/** @param {Parameters<typeof wire>} args */
const series = (...args) => decode(wire(...args));

test("the strings for what JSON has no number for become numbers", () => {
  const { value } = series([
    [0, "NaN"],
    [1, "Infinity"],
    [2, "-Infinity"],
    [3, 1],
  ]);
  assert.deepEqual(value, [NaN, Infinity, -Infinity, 1]);
});

test("what came whole stays as it is", () => {
  const one = series([
    [0, 1],
    [1, 5],
  ]);
  assert.deepEqual(
    [one.value, one.low, one.high],
    [
      [1, 5],
      [1, 5],
      [1, 5],
    ],
  );
  assert.ok(!isThinned(one));
});

test("buckets are as wide as the head makes them", () => {
  assert.deepEqual(
    [
      [0, 9, 10],
      [0, 10, 10],
      [0, 999_999, 500],
      [5, 5, 2],
      [1_000_000, 1_000_100, 50],
    ].map(([first, last, most]) => bucketWidth(first, last, most)),
    [1, 2, 2048, 1, 3],
  );
});

test("of each bucket the least and the greatest value make a band, and no spike is lost", () => {
  const thin = decode(
    wire(
      [
        [0, 1],
        [2, 7],
        [8, 0],
        [9, 100],
        [17, 3],
        [20, 5],
      ],
      { count: 30 },
    ),
    { width: 8 },
  );
  assert.deepEqual(thin.step, [0, 2, 8.5, 17, 20], "the first and the last point stay by themselves");
  assert.deepEqual(thin.low, [1, 7, 0, 3, 5]);
  assert.deepEqual(thin.high, [1, 7, 100, 3, 5]);
  assert.deepEqual(thin.value, [1, 7, 50, 3, 5], "without a mean, the middle");
  assert.deepEqual([thin.sent, thin.count, isThinned(thin)], [6, 30, true]);
});

test("the line of a band is its mean where that is known and possible", () => {
  const points = /** @type {[number, number][]} */ ([
    [0, 1],
    [8, 0],
    [9, 100],
    [16, 2],
    [18, 4],
    [24, 5],
  ]);
  const means = wire(
    [
      [0, 1],
      [8, 3],
      [16, 99],
    ],
    { count: 30 },
  );
  assert.deepEqual(decode(wire(points, { count: 30 }), { width: 8, means }).value, [1, 3, 3, 5]);
});

test("what is not finite never makes a band", () => {
  const thin = decode(
    wire(
      [
        [0, 1],
        [8, "-Infinity"],
        [9, 3],
        [16, "NaN"],
        [24, 5],
      ],
      { count: 30 },
    ),
    { width: 8 },
  );
  assert.deepEqual(thin.value, [1, -Infinity, 3, NaN, 5]);
});

test("attempts are never one bucket", () => {
  const thin = decode(
    wire(
      [
        [0, 1, 0],
        [8, 2, 0],
        [9, 3, 1],
        [24, 5, 1],
      ],
      { count: 30 },
    ),
    { width: 8 },
  );
  assert.deepEqual(
    [thin.value, thin.attempt],
    [
      [1, 2, 3, 5],
      [0, 0, 1, 1],
    ],
  );
});

test("extending replaces the last step and appends the rest", () => {
  const old = series([
    [0, 1],
    [1, 2],
    [2, 3],
  ]);
  assert.equal(resumeStep(old, 0), 2);
  const tail = series([
    [2, 9],
    [3, 4],
  ]);
  const next = extend(old, tail, 2);
  assert.deepEqual([next.step, next.value, next.count], [[0, 1, 2, 3], [1, 2, 9, 4], 4]);
  assert.deepEqual(extend(next, series([[3, 4]]), 3), next);
  assert.equal(extend(next, series([]), 3), next);
});

test("extending what is thinned out counts on", () => {
  const old = decode(
    wire(
      [
        [0, 1],
        [50, 2],
        [99, 3],
      ],
      { count: 100 },
    ),
    { width: 8 },
  );
  const tail = series([
    [99, 3],
    [100, 4],
    [101, 5],
  ]);
  const next = extend(old, tail, 99);
  assert.deepEqual([next.count, next.sent, next.step], [102, 5, [0, 50, 99, 100, 101]]);
});

test("a newer attempt replaces the steps that it encloses; what an older one reached beyond stays", () => {
  const merged = series([
    [0, 1, 0],
    [1, 1, 0],
    [2, 1, 0],
    [3, 1, 0],
    [9, 1, 0],
  ]);
  assert.equal(resumeStep(merged, 1), null, "the newest has no point yet");
  const first = series([
    [1, 5, 1],
    [2, 6, 1],
  ]);
  const begun = extend(merged, first, null);
  assert.deepEqual(
    [begun.step, begun.value, begun.attempt],
    [
      [0, 1, 2, 3, 9],
      [1, 5, 6, 1, 1],
      [0, 1, 1, 0, 0],
    ],
  );
  assert.equal(resumeStep(begun, 1), 2);
  const more = series([
    [2, 6, 1],
    [4, 7, 1],
  ]);
  assert.deepEqual(extend(begun, more, 2).step, [0, 1, 2, 4, 9]);
});

test("a finer part takes the place of the coarse one, and the rest stays", () => {
  const coarse = decode(
    wire(
      [
        [0, 1],
        [10, 2],
        [20, 3],
        [30, 4],
      ],
      { count: 31 },
    ),
  );
  const part = series([
    [9, 7],
    [10, 8],
    [11, 9],
  ]);
  const both = refined(coarse, part);
  assert.deepEqual(
    [both.step, both.value],
    [
      [0, 9, 10, 11, 20, 30],
      [1, 7, 8, 9, 3, 4],
    ],
  );
  assert.deepEqual([both.count, both.sent], [3, 3], "what is said of it is of that part");
  assert.equal(refined(coarse, EMPTY), coarse);
  const lines = [{ attempt: /** @type {const} */ ("merged"), series: coarse }];
  assert.equal(fine(lines, undefined), lines);
  assert.deepEqual(fine(lines, [{ attempt: "merged", series: part }])[0].series, both);
});

test("each attempt is extended by itself, and a new one is a new line", () => {
  const line = { attempt: 0, series: series([[0, 1, 0]]) };
  const tail = { attempt: 1, series: series([[0, 2, 1]]) };
  assert.deepEqual(
    extended([line], tail, "all", null).map((l) => l.attempt),
    [0, 1],
  );
  const merged = extended([{ ...line, attempt: "merged" }], tail, "merged", null);
  assert.deepEqual(
    merged.map((l) => [l.attempt, l.series.value]),
    [["merged", [2]]],
  );
});

test("the axis of all charts reaches from the first to the last of all", () => {
  const a = series([
    [5, 1],
    [9, 1],
  ]);
  const b = series([[20, 1]]);
  const all = [
    { line: { attempt: /** @type {const} */ ("merged"), series: a }, start_ms: 5000 },
    { line: { attempt: /** @type {const} */ ("merged"), series: b }, start_ms: 10_000 },
    { line: { attempt: /** @type {const} */ ("merged"), series: EMPTY }, start_ms: 0 },
  ];
  assert.deepEqual(extentsOf(all), { step: [5, 20], time: [0, 10], wall: [5000, 20_000] });
  assert.deepEqual([extentsOf([]), extentOf(EMPTY)], [null, null]);
});

test("runs that want the same are asked together", () => {
  const wants = (/** @type {string} */ run, /** @type {string} */ key) => run !== "c" || key === "y";
  const rank = (/** @type {string} */ run, /** @type {string} */ key) => (run === "b" && key === "x" ? 1 : 0);
  assert.deepEqual(questions(["a", "b", "c", "d"], ["x", "y"], wants, rank), [
    { runs: ["a", "d"], keys: ["x", "y"], rank: 0 },
    { runs: ["b"], keys: ["x"], rank: 1 },
    { runs: ["b", "c"], keys: ["y"], rank: 0 },
  ]);
});
