// Comparing runs: which settings differ, what a sweep is set against, and the geometry of its charts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { brushBy, brushOf, columnsOf, inBrushes, rampColor } from "../../../static/js/model/parallel.js";
import { asNumber, compareSettings, rowsOf } from "../../../static/js/model/settings_diff.js";
import {
  defaultAcross,
  defaultScore,
  differingSettings,
  metricKeys,
  metricOf,
  settingOf,
} from "../../../static/js/model/sweep.js";
import { axisOf, place, ticksOf } from "../../../static/js/model/sweep_axis.js";

/** @param {string} id @param {Record<string, unknown>} settings @param {Record<string, unknown>} [more] @returns {any} */
const run = (id, settings, more = {}) => ({
  id,
  name: id,
  experiment: "e",
  job_id: null,
  run_status: "FINISHED",
  duration_ms: 61_000,
  num_attempts: 1,
  num_failures: { worker: 0, controller: 0, preemption: 0 },
  settings,
  tags: {},
  datasets: [],
  framework_versions: { torch: "2.6.0" },
  last_metrics: {},
  ...more,
});

test("a row says whether its values differ, a missing one differs from any, and numbers are told from words", () => {
  const columns = [
    new Map([
      ["lr", "0.1"],
      ["name", "a"],
    ]),
    new Map([
      ["lr", "1e-4"],
      ["name", "a"],
      ["pool", "cls"],
    ]),
  ];
  assert.deepEqual(rowsOf(columns), [
    { key: "lr", values: ["0.1", "1e-4"], differs: true, numeric: true },
    { key: "name", values: ["a", "a"], differs: false, numeric: false },
    { key: "pool", values: [null, "cls"], differs: true, numeric: false },
  ]);
});

test("settings, what became of the run, tags and versions are groups, and equal rows are counted", () => {
  const groups = compareSettings([
    run("a", { lr: 0.1, model: { depth: 2 } }, { tags: { owner: "ada" } }),
    run("b", { lr: 0.2, model: { depth: 2 } }, { num_failures: { worker: 1, controller: 1, preemption: 0 } }),
  ]);
  assert.deepEqual(
    groups.map((g) => [g.name, g.equal]),
    [
      ["Settings", 1],
      ["Run", 5],
      ["Tags", 0],
      ["Versions", 1],
    ],
  );
  const failures = groups[1].rows.find((r) => r.key === "failures");
  assert.deepEqual(failures?.values, ["0", "2"]);
  assert.ok(!groups[1].rows.some((r) => r.key === "job"), "what nobody has is no row");
});

test("a sweep begins with the number that varies most; seeds and commands come last", () => {
  const runs = [1, 2, 3, 4].map((i) =>
    run(`r${i}`, {
      seed: i,
      lr: 10 ** -(1 + (i % 3)),
      depth: i % 2,
      optimizer: i > 2 ? "sgd" : "adamw",
      same: 1,
    }),
  );
  const dims = differingSettings(runs);
  assert.deepEqual(
    dims.map((d) => d.key),
    ["lr", "depth", "optimizer", "seed"],
  );
  assert.deepEqual(dims[0].values, [0.01, 0.001, 0.1, 0.01]);
  assert.equal(defaultAcross(dims, ["loss"], "loss"), "lr");
  assert.equal(defaultAcross([], ["loss", "acc"], "loss"), "metric:acc");
  assert.equal(defaultAcross([], ["loss"], "loss"), "");
  assert.deepEqual(settingOf(runs, "optimizer"), ["adamw", "adamw", "sgd", "sgd"]);
});

test("the score is what was held out, where there is that", () => {
  assert.equal(defaultScore(["lr", "train/loss", "val/accuracy", "val/loss"]), "val/loss");
  assert.equal(defaultScore(["lr", "train/loss"]), "train/loss");
  assert.equal(defaultScore([]), "");
});

test("a metric's last value comes with the run, others with its summaries; NaN is no place", () => {
  const a = run("a", {}, { last_metrics: { loss: 0.5, bad: "NaN" } });
  const none = new Map();
  assert.equal(metricOf(a, "loss", "last", none), 0.5);
  assert.equal(metricOf(a, "bad", "last", none), null);
  assert.equal(metricOf(a, "loss", "min", none), undefined, "not known yet");
  const known = new Map([
    ["a", new Map([["loss", /** @type {any} */ ({ last: 0.5, min: 0.25, max: "Infinity" })]])],
  ]);
  assert.equal(metricOf(a, "loss", "min", known), 0.25);
  assert.equal(metricOf(a, "loss", "max", known), null);
  assert.equal(metricOf(a, "other", "last", known), null);
  assert.deepEqual(metricKeys([a], known), ["bad", "loss"]);
});

test("numbers that are spread over decades get a log scale, and few values are marked one by one", () => {
  const axis = axisOf([0.0001, 0.001, 0.01, null]);
  assert.deepEqual([axis.log, axis.missing], [true, 1]);
  assert.ok(Math.abs((place(axis, 0.001) ?? 0) - 0.5) < 1e-9);
  assert.equal(place(axis, 0), null, "a log scale has no zero");
  assert.equal(place(axis, null), null);
  assert.deepEqual(
    ticksOf(axis, 8).map((t) => t.label),
    ["1e−4", "0.001", "0.01"],
  );
  const linear = axisOf([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]);
  assert.equal(linear.log, false);
  assert.deepEqual(
    ticksOf(linear, 5).map((t) => t.label),
    ["0", "0.2", "0.4", "0.6", "0.8", "1"],
  );
  const wide = axisOf(Array.from({ length: 20 }, (_, i) => 10 ** (i / 4)));
  assert.deepEqual(
    ticksOf(wide, 10).map((t) => t.label),
    ["1", "10", "100", "1\u202f000", "10\u202f000"],
  );
  assert.deepEqual(axisOf([0.4333, 0.6333], { measured: true }).stops, [], "what was measured is no choice");
  const alone = axisOf([3, 3]);
  assert.equal(place(alone, 3), 0.5);
});

test("words stand evenly apart, in their natural order", () => {
  const axis = axisOf(["b10", "b2", "a", "b2"]);
  assert.deepEqual([axis.kind, axis.labels], ["category", ["a", "b2", "b10"]]);
  assert.equal(place(axis, "b2"), 0.5);
  assert.equal(ticksOf(axis, 2).length, 2);
  assert.equal(axisOf([null, null]).kind, "category");
});

test("numbers beyond what a number can be break no axis", () => {
  assert.equal(asNumber("1e999"), null);
  assert.equal(asNumber("-1.5e3"), -1500);
  const settings = Array.from({ length: 9 }, (_, i) => asNumber(`${i + 1}e${i === 8 ? 999 : i}`));
  assert.ok(ticksOf(axisOf(settings), 5).length > 0);
  const spread = axisOf([-1.7e308, 1.7e308, 0, 1, 2, 3, 4, 5, 6, 7]);
  assert.ok(ticksOf(spread, 5).length <= 5);
});

test("a brush keeps the runs that pass through it; a run without a value is in none", () => {
  const columns = columnsOf([
    { key: "lr", values: [0, 5, 10] },
    { key: "pool", values: ["a", null, "b"] },
  ]);
  const kept = (/** @type {any} */ brushes) =>
    [0, 1, 2].filter((i) => inBrushes(columns, new Map(Object.entries(brushes)), i));
  assert.deepEqual(kept({}), [0, 1, 2]);
  assert.deepEqual(kept({ lr: [0.4, 1] }), [1, 2]);
  assert.deepEqual(kept({ lr: [0.4, 1], pool: [0, 1] }), [2]);
  const inherited = columnsOf([{ key: "constructor", values: [0, 5] }]);
  assert.ok(inBrushes(inherited, new Map(), 0), "a setting may have any name");
  assert.deepEqual(brushOf(0.8, 0.2), [0.2, 0.8]);
  assert.deepEqual(brushOf(-1, 0.5), [0, 0.5]);
  assert.equal(brushOf(0.5, 0.501), null);
});

test("keys move the ends of a brush, which picks out something or is none", () => {
  let brush = brushBy(null, "ArrowUp", false);
  assert.deepEqual(brush, [0.05, 1]);
  brush = brushBy(brush ?? null, "ArrowDown", true);
  assert.deepEqual(brush, [0.05, 0.95]);
  assert.equal(brushBy([0.05, 1], "ArrowDown", false), null);
  assert.deepEqual(brushBy([0.9, 0.95], "ArrowUp", false), [0.9, 0.95], "the ends do not meet");
  assert.equal(brushBy([0.2, 0.4], "Delete", false), null);
  assert.equal(brushBy([0.2, 0.4], "x", false), undefined);
});

test("the ramp has a colour for every score", () => {
  assert.equal(rampColor(0), "color-mix(in oklab, var(--ramp-0), var(--ramp-1) 0%)");
  assert.equal(rampColor(0.5), "color-mix(in oklab, var(--ramp-1), var(--ramp-2) 50%)");
  assert.equal(rampColor(7), "color-mix(in oklab, var(--ramp-2), var(--ramp-3) 100%)");
});
