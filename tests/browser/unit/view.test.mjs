// The view in the URL: what is written is read back the same, and nonsense becomes the default.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL_RUNS, formatView, parseView, runView } from "../../../static/js/model/view.js";

/** @param {string} url */
function parse(url) {
  const { pathname, searchParams } = new URL(url, "http://head/");
  return parseView(pathname.slice(1), searchParams);
}

/** @type {import("../../../static/js/model/view.js").View[]} */
const VIEWS = [
  ALL_RUNS,
  { page: "runs", status: ["STARTED", "ERRORED"], q: "a b&c=/?#%" },
  runView("0199-x"),
  { ...runView("weird/id ?#"), tab: "metrics", q: "loss", smooth: 0.6, x: "time" },
  { ...runView("r"), tab: "logs", attempt: 0, rank: 12 },
  { ...runView("r"), tab: "workers" },
];

test("every view survives its own URL", () => {
  for (const view of VIEWS) assert.deepEqual(parse(formatView(view)), view);
});

test("defaults are not in the URL", () => {
  assert.equal(formatView(ALL_RUNS), "./");
  assert.equal(formatView(runView("r")), "runs/r");
});

test("unknown values become the default", () => {
  assert.deepEqual(parse("/?status=NOPE&status=ERRORED"), { page: "runs", status: ["ERRORED"], q: "" });
  assert.deepEqual(parse("/runs/r?tab=nope&smooth=7&x=q&attempt=-1&rank=1e9"), runView("r"));
});

test("other paths, and ids that cannot be decoded, are no pages", () => {
  assert.equal(parse("/else").page, "missing");
  assert.equal(parse("/runs/").page, "missing");
  assert.equal(parse("/runs/%E0%A4%A").page, "missing");
});
