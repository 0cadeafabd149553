// The columns of the list, what is selected in it, and its small curves.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  columnOf,
  columns,
  keysOf,
  nextSort,
  PHONE_REM,
  sortedBy,
  usualMetrics,
  widthOf,
} from "../../../static/js/model/columns.js";
import { stretch, toggle, toggleAll } from "../../../static/js/model/selection.js";
import { extendSpark, sparkOf, sparkPath } from "../../../static/js/model/spark.js";
import { MOST_SELECTED, NEWEST_FIRST } from "../../../static/js/model/view.js";
import { makeRun } from "./fixtures.mjs";

const WIDE = 200;
const ids = (/** @type {{ id: string }[]} */ all) => all.map((c) => c.id).join();

test("nobody has chosen: the usual columns, with room for metrics that are not known yet", () => {
  const empty = columns([], [], WIDE);
  const known = columns([], ["loss", "acc"], WIDE);
  assert.equal(empty.length, known.length);
  const width = (/** @type {{ width: number }[]} */ all) => all.reduce((sum, c) => sum + c.width, 0);
  assert.equal(width(empty), width(known));
});

test("where it is narrow the usual columns leave, those first that are missed least", () => {
  const shown = (/** @type {number} */ room) => ids(columns([], ["loss", "acc"], room));
  assert.equal(
    shown(WIDE),
    "experiment,started,duration,attempts,workers,step,rate,metric:loss,metric:acc,tags",
  );
  for (let room = PHONE_REM; room < WIDE; room += 1) {
    const fits = columns([], ["loss", "acc"], room);
    assert.ok(widthOf(fits) <= Math.max(room, widthOf(columns([], [], PHONE_REM))), `${room}`);
    assert.ok(ids(fits).length <= shown(room + 1).length, `${room}`);
  }
  assert.equal(shown(PHONE_REM), "duration,step");
  assert.equal(shown(20), "started,duration,step");
});

test("what is chosen is shown in that order, and what is no column is left out", () => {
  assert.equal(
    ids(columns(["step", "nope", "metric:a/b", "setting:lr"], [], 60)),
    "step,metric:a/b,setting:lr",
  );
  assert.equal(columnOf("metric:a:b")?.title, "a:b");
});

test("the usual metrics are those that most runs have, and stay once chosen", () => {
  const run = (/** @type {string[]} */ ...keys) => ({
    last_metrics: Object.fromEntries(keys.map((k) => [k, 1])),
  });
  const runs = [
    run("train/loss", "lr"),
    run("train/loss", "val/acc"),
    run("train/loss", "val/acc"),
    run("odd/loss"),
  ];
  assert.deepEqual(usualMetrics(runs, []), ["train/loss", "val/acc"]);
  assert.deepEqual(usualMetrics(runs, ["a", "b"]), ["a", "b"]);
  assert.deepEqual(usualMetrics([], ["a"]), ["a"]);
  assert.deepEqual(usualMetrics([], []), []);
});

test("keys to choose from come with the commonest first", () => {
  const one = makeRun({ last_metrics: { a: 1, b: 1 }, settings: { model: { depth: 3 } } });
  const two = makeRun({ last_metrics: { b: 1 }, settings: null });
  assert.deepEqual(keysOf([one, two]), { metrics: ["b", "a"], settings: ["model/depth"] });
});

test("a head goes through both directions and back to the newest first", () => {
  const way = (/** @type {string} */ id) => {
    const column = columnOf(id) ?? columns([], [], WIDE)[0];
    /** @type {string[]} */
    const seen = [];
    for (let sort = NEWEST_FIRST; seen.length < 3; seen.push(sort))
      sort = nextSort(column, sort, NEWEST_FIRST);
    return seen.join();
  };
  assert.equal(way("duration"), `-duration,duration,${NEWEST_FIRST}`);
  assert.equal(way("metric:x"), `-metric:x,metric:x,${NEWEST_FIRST}`);
  assert.equal(way("experiment"), `experiment,-experiment,${NEWEST_FIRST}`);
  assert.equal(sortedBy({ ...columns(["step"], [], WIDE)[0] }, "step"), "ascending");
  assert.equal(sortedBy({ ...columns(["rate"], [], WIDE)[0] }, "rate"), undefined);
});

test("selecting: one, a stretch, all, and never more than there is room for", () => {
  assert.deepEqual(toggle(["a"], "b"), ["a", "b"]);
  assert.deepEqual(toggle(["a", "b"], "a"), ["b"]);
  const rows = ["a", "b", "c", "d"];
  assert.deepEqual(stretch(["d"], rows, "c", "a"), ["d", "a", "b", "c"]);
  assert.deepEqual(stretch([], rows, "gone", "a"), ["a"]);
  assert.deepEqual(toggleAll(["z"], rows), ["z", ...rows]);
  assert.deepEqual(toggleAll(["z", ...rows], rows), ["z"]);
  const many = Array.from({ length: 300 }, (_, i) => `r${i}`);
  assert.equal(toggleAll([], many).length, MOST_SELECTED);
  assert.deepEqual(toggleAll(toggleAll([], many), many), []);
  assert.equal(stretch([], many, "r0", "r299").length, MOST_SELECTED);
  assert.equal(toggle(many.slice(0, MOST_SELECTED), "new").length, MOST_SELECTED);
});

test("a small curve leaves out what is not finite, goes back with a restart and stays small", () => {
  let spark = sparkOf([0, 1, 2, 3], [1, NaN, 3, Infinity]);
  assert.deepEqual(spark, { step: [0, 2], value: [1, 3] });
  spark = extendSpark(spark, 2, 5);
  assert.deepEqual(spark, { step: [0, 2], value: [1, 5] });
  assert.deepEqual(extendSpark(spark, 1, NaN), { step: [0], value: [1] });
  for (let step = 3; step < 1000; step += 1) spark = extendSpark(spark, step, step);
  assert.ok(spark.step.length <= 80);
  assert.deepEqual([spark.step[0], spark.step.at(-1)], [0, 999]);
});

test("a small curve of one point, or a flat one, has a path that draws nothing wrong", () => {
  assert.equal(sparkPath({ step: [1], value: [1] }, 10, 4), "");
  assert.equal(sparkPath({ step: [1, 2], value: [3, 3] }, 10, 4), "M0.0 2.0L10.0 2.0");
  assert.equal(sparkPath({ step: [1, 2], value: [0, 1] }, 10, 4), "M0.0 4.0L10.0 0.0");
});
