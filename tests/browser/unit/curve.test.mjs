// Curves: what a chart draws of a series, along each x-axis and on each scale, and what it says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { branches } from "../../../static/js/model/branches.js";
import {
  curve,
  isSeen,
  nearest,
  rangeOfY,
  readingAt,
  smoothed,
  within,
} from "../../../static/js/model/curve.js";
import { decode } from "../../../static/js/model/series.js";
import { wire } from "./fixtures_series.mjs";

/** @typedef {Parameters<typeof curve>[1]} Options */
/** @type {Options} */
const BY_STEP = { x: "step", smooth: 0, scale: "linear", start_ms: 0 };
/** @param {Parameters<typeof wire>[0]} points @param {Partial<Options>} [how] */
const drawn = (points, how = {}) => curve(decode(wire(points)), { ...BY_STEP, ...how });

test("smoothing starts at the first value and passes over what is not finite", () => {
  const even = smoothed([4, 4, null, 4], 0.9).map((v) => v && Math.round(v * 1e9) / 1e9);
  assert.deepEqual(even, [4, 4, null, 4]);
  assert.deepEqual(smoothed([1, 2], 0), [1, 2]);
});

test("NaN and infinity are gaps with a mark, never values", () => {
  const points = /** @type {[number, number | string][]} */ ([
    [0, 1],
    [1, "NaN"],
    [2, "Infinity"],
    [3, 2],
  ]);
  const { y, odd, smooth } = drawn(points, { smooth: 0.5 });
  assert.deepEqual(y, [1, null, null, 2]);
  assert.deepEqual(
    odd.map((o) => o.x),
    [1, 2],
  );
  assert.ok(smooth?.every((v) => v === null || Number.isFinite(v)));
  assert.deepEqual(rangeOfY([drawn([[0, "NaN"]])], [0, 1], "linear"), [0, 1]);
});

test("a restart is where a newer attempt begins; by time no line leads over it", () => {
  const points = /** @type {[number, number, number][]} */ ([
    [0, 1, 0],
    [1, 1, 0],
    [2, 1, 1],
    [3, 1, 2],
  ]);
  assert.deepEqual(drawn(points).restarts, [
    { x: 2, before: 1, attempt: 1 },
    { x: 3, before: 2, attempt: 2 },
  ]);
  assert.deepEqual([[...drawn(points).breaks], [...drawn(points, { x: "wall" }).breaks]], [[], [2, 3]]);
});

test("what an older attempt left beyond the newest is behind the last point and is not smoothed", () => {
  const points = /** @type {[number, number, number][]} */ ([
    [0, 1, 1],
    [1, 2, 1],
    [2, 7, 0],
    [3, 8, 0],
  ]);
  const { y, last, smooth } = drawn(points, { smooth: 0.5 });
  assert.deepEqual([y, last, smooth?.length], [[1, 2, 7, 8], 1, 2]);
  assert.deepEqual([drawn([[0, 1]]).last, drawn([]).last], [0, -1]);
});

test("by time the points are in the order of time, in seconds since the start or as times of day", () => {
  const series = decode(
    wire(
      [
        [0, 1],
        [1, 2],
        [2, 3],
      ],
      { time_ms: [5000, 9000, 7000] },
    ),
  );
  const time = curve(series, { ...BY_STEP, x: "time", start_ms: 5000 });
  assert.deepEqual(
    [time.x, time.y],
    [
      [0, 2, 4],
      [1, 3, 2],
    ],
  );
  assert.deepEqual(curve(series, { ...BY_STEP, x: "wall", start_ms: 5000 }).x, [5000, 7000, 9000]);
});

test("a log scale leaves out what is not above 0 and says where", () => {
  const points = /** @type {[number, number][]} */ ([
    [0, 1],
    [1, 0],
    [2, -3],
    [3, 100],
  ]);
  const log = drawn(points, { scale: "log", smooth: 0.5 });
  assert.deepEqual(
    [log.y, log.hidden],
    [
      [1, null, null, 100],
      [1, 2],
    ],
  );
  assert.ok(log.smooth?.every((v) => v === null || v > 0));
  const [low, high] = rangeOfY([drawn(points, { scale: "log" })], [0, 3], "log");
  assert.ok(low > 0.5 && low < 1 && high > 100 && high < 200, `${low} ${high}`);
  const none = drawn(
    [
      [0, -1],
      [1, 0],
    ],
    { scale: "log" },
  );
  assert.deepEqual(rangeOfY([none], [0, 1], "log"), [0.1, 10]);
  assert.equal(within(log.hidden, [1.5, 3]), 1);
});

test("the range of y is that of what is shown, with the line that crosses the edge", () => {
  const c = drawn([
    [0, 0],
    [10, 100],
    [20, 100],
    [30, 1000],
  ]);
  const [low, high] = rangeOfY([c], [5, 20], "linear");
  assert.ok(low < 50 && low > 40 && high > 100 && high < 110, `${low} ${high}`);
  const [between] = rangeOfY([c], [2, 4], "linear");
  assert.ok(between < 20 && between > 15, "also where there is no point at all");
  assert.ok(rangeOfY([drawn([[0, 5]])], [0, 1], "linear").every(Number.isFinite));
  const wide = drawn([
    [0, 1.7e308],
    [1, -1.7e308],
  ]);
  assert.ok(rangeOfY([wide], [0, 1], "linear").every(Number.isFinite));
});

test("bands count for the range and for what stands under the crosshair", () => {
  const points = /** @type {[number, number][]} */ ([
    [0, 1],
    [8, 0],
    [9, 50],
    [24, 1],
  ]);
  const c = curve(decode(wire(points, { count: 99 }), { width: 8 }), BY_STEP);
  assert.ok(rangeOfY([c], [0, 24], "linear")[1] > 50);
  const { value, low, high } = readingAt(c, 8) ?? {};
  assert.deepEqual([value, low, high], [25, 0, 50]);
  assert.equal(readingAt(c, 0)?.low, null, "a single point has no band");
});

test("the crosshair reads the nearest point, without one the newest attempt's last", () => {
  assert.deepEqual(
    [-5, 0.4, 0.6, 99].map((x) => nearest([0, 1, 2], x)),
    [0, 0, 1, 2],
  );
  const c = drawn([
    [0, 1, 1],
    [1, "NaN", 1],
    [5, 9, 0],
  ]);
  assert.deepEqual([readingAt(c, null)?.x, readingAt(c, null)?.value], [1, NaN]);
  assert.deepEqual([readingAt(c, 4)?.value, readingAt(c, 4)?.isLeft], [9, true]);
  assert.equal(readingAt(drawn([]), 3), null);
});

test("a part between two points still shows the line between them", () => {
  const c = drawn([
    [0, 1],
    [10, 2],
  ]);
  assert.deepEqual(
    [isSeen(c, [3, 4]), isSeen(c, [11, 12]), isSeen(c, [-2, -1]), isSeen(c, [10, 12])],
    [true, false, false, true],
  );
});

test("attempts have the run's colour; only the newest is a plain line", () => {
  const all = branches("run-1", 6);
  assert.equal(new Set(all.map((b) => b.color)).size, 1);
  assert.deepEqual(
    all.map((b) => b.dash === 0),
    [false, false, false, false, false, true],
  );
  assert.deepEqual(
    all.map((b) => b.isFaint),
    [true, true, true, true, true, false],
  );
  assert.equal(branches("run-1", 0).length, 1);
});
