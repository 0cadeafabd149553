// The small pure modules: metric keys, settings as rows, the timeline, colours.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SERIES, seriesIndex } from "../../../static/js/model/color.js";
import { choose, group, search } from "../../../static/js/model/metric_keys.js";
import { bars, ended, reason } from "../../../static/js/model/timeline.js";
import { firstLine } from "../../../static/js/model/text.js";
import { flatten } from "../../../static/js/model/tree.js";

test("keys are grouped by what is before their first slash", () => {
  assert.deepEqual(group(["train/loss", "lr", "train/acc/top1", "val/loss"]), [
    { prefix: "", keys: ["lr"] },
    { prefix: "train", keys: ["train/acc/top1", "train/loss"] },
    { prefix: "val", keys: ["val/loss"] },
  ]);
});

test("all words of a search must occur", () => {
  assert.deepEqual(search(["train/loss", "val/loss", "val/acc"], "LOSS val"), ["val/loss"]);
  assert.deepEqual(search(["a"], "  "), ["a"]);
});

test("a row shows a loss and a score first", () => {
  assert.deepEqual(choose(["lr", "epoch", "val/acc", "train/loss"], 2), ["train/loss", "val/acc"]);
  assert.deepEqual(choose(["b", "a"], 2), ["a", "b"]);
});

test("settings are flattened and values stay as they are written", () => {
  const rows = flatten({ lr: 3e-4, model: { depth: 2, sizes: [1, 2] }, none: null, empty: {}, text: "x" });
  assert.deepEqual(rows, [
    ["lr", "0.0003"],
    ["model/depth", "2"],
    ["model/sizes", "[1,2]"],
    ["none", "null"],
    ["empty", "{}"],
    ["text", "x"],
  ]);
});

test("a command is shown as one would type it", () => {
  assert.deepEqual(flatten({ command: ["python3", "a b.py", "--x=1", "it's", ""] }), [
    ["command", `python3 'a b.py' --x=1 'it'\\''s' ''`],
  ]);
});

test("what others wrote stands in a line without its colours, with its control bytes visible", () => {
  assert.equal(firstLine("\x1b[1;31mbad\x1b[0m\x07 \u202eend\nmore"), "bad␇ ‹202E›end");
});

/** An attempt without its times. */
const attempt = {
  attempt_id: "a",
  ordinal: 0,
  status: /** @type {const} */ ("ERRORED"),
  end_reason: "worker_failed",
  status_detail: "rank 1",
  workers: [],
};

test("bars lie within the axis whatever the clocks say", () => {
  const made = bars(
    [
      { ...attempt, start_time_ms: 0, end_time_ms: 250 },
      { ...attempt, start_time_ms: 500, end_time_ms: null },
      { ...attempt, start_time_ms: 900, end_time_ms: 100 },
      { ...attempt, start_time_ms: -50, end_time_ms: 5000 },
    ],
    0,
    1000,
  );
  assert.deepEqual(
    made.map((b) => [b.left, b.width]),
    [
      [0, 0.25],
      [0.5, 0.5],
      [0.9, 0],
      [0, 1],
    ],
  );
  assert.equal(reason({ ...attempt, start_time_ms: 0, end_time_ms: 1 }), "rank 1");
  const silent = { ...attempt, status_detail: null, start_time_ms: 0, end_time_ms: 1 };
  assert.equal(reason(silent), "Worker failed");
});

test("what became of an attempt's processes is said in words", () => {
  /** @param {number[]} processes_ended @param {boolean} forced @param {number[]} left */
  const said = (processes_ended, forced, left) =>
    ended({ ...attempt, start_time_ms: 0, end_time_ms: 1, stop_report: { processes_ended, forced, left } });
  assert.equal(said([], false, []), "nothing was left");
  assert.equal(said([7], false, []), "1 process ended");
  assert.equal(said([7, 8], true, [9, 10]), "2 processes ended by force; 9, 10 could not be ended");
  assert.equal(ended({ ...attempt, start_time_ms: 0, end_time_ms: 1 }), "");
});

test("a run keeps its colour, and neighbours differ", () => {
  assert.equal(seriesIndex("run-1"), seriesIndex("run-1"));
  const used = new Set(Array.from({ length: 100 }, (_, i) => seriesIndex(`run-${i}`)));
  assert.equal(used.size, SERIES);
});
