// Zooming, axes, and which groups of charts are open.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  apart,
  labelsOfX,
  labelsOfY,
  logTicks,
  wallLabels,
  wallSplits,
} from "../../../static/js/model/axis.js";
import { blocks, OPEN_CHARTS, openGroups, toggled } from "../../../static/js/model/chart_groups.js";
import { cleanZoom, panBy, spanOf, zoomBy } from "../../../static/js/model/zoom.js";
import { formatView, parseView, runView } from "../../../static/js/model/view.js";

test("a chosen part is whole steps or milliseconds, and seconds as fine as can be seen", () => {
  assert.deepEqual(cleanZoom([10.2, 99.7], "step"), [10, 100]);
  assert.equal(cleanZoom([10.2, 10.3], "step"), null);
  assert.deepEqual(cleanZoom([1.23456, 2.34567], "time"), [1.235, 2.346]);
  assert.deepEqual(cleanZoom([1234.56, 98765.4], "time"), [1230, 98770]);
  assert.deepEqual(cleanZoom([1.7e12 + 0.4, 1.7e12 + 5.6], "wall"), [1.7e12, 1.7e12 + 6]);
});

test("a part survives the URL exactly, also as times of day", () => {
  const zoom = /** @type {[number, number]} */ ([1_767_225_600_123, 1_767_225_600_456]);
  const url = new URL(formatView({ ...runView("r"), zoom, x: "wall" }), "http://h/");
  assert.deepEqual(/** @type {any} */ (parseView(url.pathname.slice(1), url.searchParams)).zoom, zoom);
});

test("keys zoom around the middle and pan, never beyond the ends", () => {
  assert.deepEqual(zoomBy([0, 100], [0, 100], 0.5, "step"), [25, 75]);
  assert.deepEqual(zoomBy([0, 50], [0, 100], 0.5, "step"), [13, 38]);
  assert.equal(zoomBy([25, 75], [0, 100], 2, "step"), null, "all of it is no zoom");
  assert.equal(zoomBy([0, 2000], [0.043, 1999.943], 2, "time"), null, "whatever rounding did to it");
  assert.deepEqual(zoomBy([0, 20], [0, 100], 2, "step"), [0, 40]);
  assert.deepEqual(zoomBy([5, 6], [0, 100], 0.5, "step"), [5, 6], "nothing finer than a step");
  assert.deepEqual(panBy([10, 30], [0, 100], 0.5, "step"), [20, 40]);
  assert.deepEqual(panBy([10, 30], [0, 100], -1, "step"), [0, 20]);
  assert.deepEqual(panBy([70, 95], [0, 100], 1, "step"), [75, 100]);
});

test("a part is asked for by steps or by times", () => {
  assert.deepEqual(spanOf(null, "step", 0), {});
  assert.deepEqual(spanOf([-3, 7.5], "step", 0), { from_step: 0, to_step: 8 });
  assert.deepEqual(spanOf([1.5, 3], "time", 1000), { from_ms: 2500, to_ms: 4000 });
  assert.deepEqual(spanOf([5, 9], "wall", 1000), { from_ms: 5, to_ms: 9 });
});

test("times of day stand at whole minutes, with the date where the day changes", () => {
  const at = (/** @type {number} */ h, /** @type {number} */ day = 1) => new Date(2026, 6, day, h).getTime();
  assert.deepEqual(wallLabels([at(8), at(10), at(12)]), ["08:00", "10:00", "12:00"]);
  assert.deepEqual(wallLabels([at(20), at(22), at(0, 2), at(2, 2)]), [
    "07-01 20:00",
    "22:00",
    "07-02",
    "02:00",
  ]);
  assert.deepEqual(wallLabels([at(0), at(0, 2)]), ["07-01", "07-02"]);
  assert.deepEqual(wallLabels([at(8) + 1500, at(8) + 1750]), ["08:00:01.5", "08:00:01.8"]);
  const splits = wallSplits(at(8) + 1000, at(12), 3_600_000);
  assert.deepEqual(splits, [at(9), at(10), at(11), at(12)]);
});

test("days begin at midnight also after the clocks were changed; hours stay evenly apart", () => {
  const before = process.env.TZ;
  process.env.TZ = "Europe/Berlin";
  try {
    const [spring, autumn] = [2, 9].map((month) => new Date(2026, month, 20).getTime());
    for (const from of [spring, autumn])
      for (const days of [1, 2]) {
        const splits = wallSplits(from, from + 20 * 86_400_000, days * 86_400_000);
        assert.ok(splits.every((t) => new Date(t).getHours() === 0 && new Date(t).getMinutes() === 0));
        assert.ok(splits.length >= Math.floor(20 / days), String(splits.length));
      }
    const six = wallSplits(spring, spring + 14 * 86_400_000, 6 * 3_600_000);
    assert.ok(six.every((t) => new Date(t).getHours() % 6 === 0));
    const change = new Date(2026, 2, 29).getTime();
    const hours = wallSplits(change, change + 6 * 3_600_000, 3_600_000);
    assert.deepEqual(
      hours,
      [0, 1, 2, 3, 4, 5, 6].map((h) => change + h * 3_600_000),
    );
  } finally {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  }
});

test("ticks of x are what people count in", () => {
  assert.ok(apart("step").every(Number.isInteger));
  assert.ok(apart("wall").every(Number.isInteger));
  assert.deepEqual(labelsOfX([0, 5000], "step"), ["0", "5\u202f000"]);
  assert.deepEqual(labelsOfX([-3600, 0, 3600], "time"), ["−1\u202fh", "0\u202fs", "1\u202fh"]);
});

test("ticks of a log scale are powers of ten, and even within one of them", () => {
  assert.deepEqual(logTicks(0.5, 2000, 5), [1, 10, 100, 1000]);
  assert.deepEqual(logTicks(0.9, 110, 12), [1, 2, 5, 10, 20, 50, 100]);
  assert.deepEqual(logTicks(1e-12, 1, 4), [1e-12, 1e-8, 1e-4, 1]);
  assert.deepEqual(logTicks(0.98, 1.02, 5), [0.98, 0.99, 1, 1.01, 1.02]);
  assert.deepEqual(labelsOfY([1e-8, 1e-4, 1], true), ["1e−8", "1e−4", "1"]);
  assert.ok(logTicks(5e-324, 1e308, 5).length < 8);
});

/** @param {number} groups @param {number} each */
const many = (groups, each) =>
  Array.from({ length: groups }, (_, g) => ({
    prefix: `g${g}`,
    keys: Array.from({ length: each }, (__, k) => `g${g}/${k}`),
  }));

test("few charts are all open, of many only the first groups", () => {
  assert.equal(openGroups(many(6, OPEN_CHARTS / 6), []).size, 6);
  assert.deepEqual([...openGroups(many(10, 25), [])], ["g0", "g1"]);
  assert.deepEqual([...openGroups(many(3, 4000), [])], ["g0"], "the first always is");
  assert.deepEqual([...openGroups(many(3, 4000), ["-g0", "+g2"])], ["g2"]);
  assert.equal(openGroups([], []).size, 0);
});

test("what is said of a group replaces what was said before", () => {
  assert.deepEqual(toggled([], "train", true), ["-train"]);
  assert.deepEqual(toggled(["-train", "+val"], "train", false), ["+val", "+train"]);
  assert.deepEqual(toggled(["+-x"], "-x", true), ["--x"]);
  assert.deepEqual(blocks([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]]);
});
