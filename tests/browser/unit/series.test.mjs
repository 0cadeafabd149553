// Series: extending, smoothing, and what a chart is given to draw.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, extend, nearest, plot, resumeStep, smoothed } from "../../../static/js/model/series.js";

/** @param {[number, number | string, number?][]} points step, value, attempt */
function series(points) {
  return decode({
    key: "k",
    rank: 0,
    count: points.length,
    step: points.map((p) => p[0]),
    time_ms: points.map((p) => p[0] * 1000),
    value: /** @type {any[]} */ (points.map((p) => p[1])),
    attempt_at: points.map((p) => p[2] ?? 0),
  });
}
const BY_STEP = /** @type {const} */ ({ x: "step", smooth: 0, start_ms: 0 });

test("the strings for what JSON has no number for become numbers", () => {
  assert.deepEqual(
    series([
      [0, "NaN"],
      [1, "Infinity"],
      [2, "-Infinity"],
      [3, 1],
    ]).value,
    [NaN, Infinity, -Infinity, 1],
  );
});

test("extending replaces the last step and appends the rest", () => {
  const old = series([
    [0, 1],
    [1, 2],
    [2, 3],
  ]);
  assert.equal(resumeStep(old), 2);
  const next = extend(
    old,
    series([
      [2, 9],
      [3, 4],
    ]),
    2,
  );
  assert.deepEqual(
    [next.step, next.value],
    [
      [0, 1, 2, 3],
      [1, 2, 9, 4],
    ],
  );
  assert.deepEqual(extend(next, series([[3, 4]]), 3), next);
});

test("a newer attempt is extended from its own last step, not from the end of the older one", () => {
  const merged = series([
    [0, 1, 0],
    [1, 1, 1],
    [2, 1, 1],
    [3, 1, 0],
    [4, 1, 0],
  ]);
  assert.equal(resumeStep(merged), 2);
  assert.equal(resumeStep(series([])), null);
});

test("smoothing starts at the first value and passes over what is not finite", () => {
  assert.deepEqual(
    smoothed([4, 4, null, 4], 0.9).map((v) => v && Math.round(v * 1e9) / 1e9),
    [4, 4, null, 4],
  );
  assert.deepEqual(smoothed([1, 2], 0), [1, 2]);
});

test("NaN and infinity are gaps with a mark, never values", () => {
  const { raw, odd, smooth } = plot(
    series([
      [0, 1],
      [1, "NaN"],
      [2, "Infinity"],
      [3, 2],
    ]),
    { ...BY_STEP, smooth: 0.5 },
  );
  assert.deepEqual(raw, [1, null, null, 2]);
  assert.deepEqual(
    odd.map((o) => o.x),
    [1, 2],
  );
  assert.ok(smooth?.every((v) => v === null || Number.isFinite(v)));
});

test("a restart is where a newer attempt begins", () => {
  const merged = series([
    [0, 1, 0],
    [1, 1, 0],
    [2, 1, 1],
    [3, 1, 2],
  ]);
  assert.deepEqual(plot(merged, BY_STEP).restarts, [
    { x: 2, before: 1, attempt: 1 },
    { x: 3, before: 2, attempt: 2 },
  ]);
});

test("what an older attempt left beyond the newest is apart, and the last point is the newest's", () => {
  const merged = series([
    [0, 1, 1],
    [1, 2, 1],
    [2, 7, 0],
    [3, 8, 0],
  ]);
  const { raw, left, last } = plot(merged, BY_STEP);
  assert.deepEqual([raw, left, last], [[1, 2, null, null], [null, 2, 7, 8], 1]);
  const plain = plot(series([[0, 1]]), BY_STEP);
  assert.deepEqual([plain.left, plain.last, plot(series([]), BY_STEP).last], [null, 0, -1]);
});

test("by time the points are in the order of time", () => {
  const merged = series([
    [0, 1],
    [1, 2],
    [2, 3],
  ]);
  merged.time = [5000, 9000, 7000];
  const { x, raw } = plot(merged, { x: "time", smooth: 0, start_ms: 5000 });
  assert.deepEqual(
    [x, raw],
    [
      [0, 2, 4],
      [1, 3, 2],
    ],
  );
});

test("the nearest point is found at the ends too", () => {
  assert.deepEqual(
    [-5, 0.4, 0.6, 99].map((x) => nearest([0, 1, 2], x)),
    [0, 0, 1, 2],
  );
});
