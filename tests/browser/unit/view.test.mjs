// The view in the URL: what is written is read back the same, and nonsense becomes the default.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ALL_RUNS,
  compareView,
  formatView,
  MOST_SELECTED,
  parseView,
  runView,
} from "../../../static/js/model/view.js";

/** @param {string} url */
function parse(url) {
  const { pathname, searchParams } = new URL(url, "http://head/");
  return parseView(pathname.slice(1), searchParams);
}

/** @type {import("../../../static/js/model/view.js").View[]} */
const VIEWS = [
  ALL_RUNS,
  { ...ALL_RUNS, status: ["STARTED", "ERRORED"], q: "a b&c=/?#%" },
  {
    ...ALL_RUNS,
    experiment: "<i>,é",
    tag: ["a:b,c", "x:1"],
    sort: "-metric:val/loss",
    col: ["step", "metric:a,b"],
    selected: ["r-1", "r_2"],
    trashed: true,
  },
  runView("0199-x"),
  { ...runView("weird/id ?#"), tab: "metrics", q: "loss", smooth: 0.6, x: "time", scale: "log" },
  { ...runView("r"), tab: "metrics", zoom: [0.125, 3e6], full: "train/loss", closed: ["train", "a,b"] },
  { ...runView("r"), tab: "metrics", x: "wall", zoom: [1_767_225_600_000, 1_767_225_660_000] },
  { ...runView("r"), tab: "logs", attempt: 0, rank: 12, find: "err or", at: 5_000_000_000 },
  { ...runView("r"), tab: "logs", rank: "all" },
  { ...runView("r"), tab: "workers", attempts: "all" },
  compareView(["a", "b"]),
  { ...compareView(["a", "b"]), tab: "sweep", across: "lr", score: "val/loss", rows: "all" },
  {
    ...compareView(["a", "b"]),
    brush: [
      ["a:b..c,d", [0.25, 1]],
      ["", [0, 0.1234]],
    ],
  },
  { page: "experiments", q: "x" },
  { page: "nodes" },
];

test("every view survives its own URL", () => {
  for (const view of VIEWS) assert.deepEqual(parse(formatView(view)), view);
});

test("defaults are not in the URL", () => {
  assert.equal(formatView(ALL_RUNS), "./");
  assert.equal(formatView(runView("r")), "runs/r");
});

test("unknown values become the default", () => {
  assert.deepEqual(parse("/?status=NOPE&status=ERRORED"), { ...ALL_RUNS, status: ["ERRORED"] });
  const nonsense = "tab=nope&smooth=7&x=q&scale=&zoom=9..1&attempt=-1&rank=1e9&at=x&attempts=no";
  assert.deepEqual(parse(`/runs/r?${nonsense}`), runView("r"));
  assert.deepEqual(parse("/compare?runs=,a,,a&tab=x"), compareView(["a"]));
  assert.deepEqual(parse("/compare?runs=a&brush=1..0:x&brush=0..2:x&brush=x"), compareView(["a"]));
});

test("other paths, and ids that cannot be decoded, are no pages", () => {
  assert.equal(parse("/else").page, "missing");
  assert.equal(parse("/runs/").page, "missing");
  assert.equal(parse("/runs/%E0%A4%A").page, "missing");
});

test("as many runs can be selected as a URL has room for", () => {
  const many = Array.from({ length: 500 }, (_, i) => `01a22e6c-8fe4-75e0-9bf0-a1f8781d4${i}`);
  const view = parse(formatView({ ...ALL_RUNS, selected: many }));
  assert.equal(view.page === "runs" && view.selected.length, MOST_SELECTED);
  // nginx takes 8 kB of a request's first line.
  assert.ok(formatView(view).length < 7000);
});
