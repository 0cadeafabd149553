// How changes and metric ticks enter the loaded list.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  appendPage,
  applyChange,
  applyTick,
  keepSame,
  matches,
  noticeStalls,
  toRow,
} from "../../../static/js/model/run_list.js";
import { ALL_RUNS } from "../../../static/js/model/view.js";
import { makeRun } from "./fixtures.mjs";

const at = (/** @type {string} */ id, /** @type {number} */ start_time_ms) => makeRun({ id, start_time_ms });
const rows = () => appendPage([], [at("c", 30), at("b", 20), at("a", 10)]);
const ids = (/** @type {{ id: string }[]} */ list) => list.map((r) => r.id).join("");

/** Of a step that was made right then. @param {number} last_step @param {number} time_ms */
const tickOf = (last_step, time_ms) => ({
  run_id: "r1",
  last_step,
  last_advance_ms: time_ms,
  time_ms,
  last_metrics: {},
  points: 1,
});

test("a new run enters at its place", () => {
  assert.equal(ids(applyChange({ rows: rows(), complete: false }, at("d", 40), ALL_RUNS)), "dcba");
  assert.equal(ids(applyChange({ rows: rows(), complete: false }, at("x", 15), ALL_RUNS)), "cbxa");
});

test("a run beyond the loaded part only enters when there are no further pages", () => {
  assert.equal(ids(applyChange({ rows: rows(), complete: false }, at("0", 1), ALL_RUNS)), "cba");
  assert.equal(ids(applyChange({ rows: rows(), complete: true }, at("0", 1), ALL_RUNS)), "cba0");
});

test("a changed run keeps its place and all other rows stay the same objects", () => {
  const before = rows();
  const after = applyChange({ rows: before, complete: true }, { ...at("b", 20), name: "new" }, ALL_RUNS);
  assert.equal(after[1].name, "new");
  assert.equal(after[1].evidence?.process.pid, 1);
  assert.equal(after[0], before[0]);
  assert.equal(after[2], before[2]);
});

test("a run that no longer fits the filter leaves", () => {
  const ended = { ...at("b", 20), run_status: /** @type {const} */ ("FINISHED") };
  const view = { ...ALL_RUNS, status: [/** @type {const} */ ("STARTED")] };
  assert.equal(ids(applyChange({ rows: rows(), complete: true }, ended, view)), "ca");
});

test("a page never brings a run twice", () => {
  assert.equal(ids(appendPage(rows(), [at("a", 10), at("9", 9)])), "cba9");
});

test("searching looks at name, id, job and tags, in any case", () => {
  const run = makeRun({ id: "id-7", name: "Résumé", job_id: "slurm-9", tags: { team: "NLP" } });
  for (const q of ["résu", "ID-7", "SLURM", "team:nlp", " nlp "])
    assert.ok(matches(run, { ...ALL_RUNS, q }), q);
  assert.ok(!matches(run, { ...ALL_RUNS, q: "other" }));
});

test("the trash, an experiment and tags narrow the list", () => {
  const run = makeRun({ experiment: "vision", tags: { team: "nlp", gpu: "a" } });
  assert.ok(!matches({ ...run, trashed_at_ms: 1 }, ALL_RUNS));
  assert.ok(matches({ ...run, trashed_at_ms: 1 }, { ...ALL_RUNS, trashed: true }));
  assert.ok(!matches(run, { ...ALL_RUNS, trashed: true }));
  assert.ok(matches(run, { ...ALL_RUNS, experiment: "vision", tag: ["team:nlp", "gpu:a"] }));
  assert.ok(!matches(run, { ...ALL_RUNS, experiment: "visio" }));
  assert.ok(!matches(run, { ...ALL_RUNS, tag: ["team:nlp", "gpu:b"] }));
});

test("in another order nothing enters or moves by itself", () => {
  const view = { ...ALL_RUNS, sort: "name" };
  assert.equal(ids(applyChange({ rows: rows(), complete: true }, at("d", 40), view)), "cba");
  const [first] = applyChange({ rows: rows(), complete: true }, { ...at("c", 30), name: "z" }, view);
  assert.equal(first.name, "z");
});

test("ticks bring step, metrics and a measured rate, and end a stall", () => {
  const start = toRow(makeRun());
  assert.ok(start.evidence);
  start.evidence.progress.stalled = true;
  const tick = {
    run_id: "r1",
    last_step: 14,
    last_advance_ms: 7000,
    time_ms: 7000,
    last_metrics: { loss: 1 },
    points: 1,
  };
  const [row] = applyTick([start], tick);
  assert.equal(row.evidence?.progress.last_step, 14);
  assert.equal(row.evidence?.progress.stalled, false);
  assert.deepEqual(row.last_metrics, { loss: 1 });
  // Two a second by the median until now, two a second measured.
  assert.equal(row.rate, 2);
  // Back to step 3 after a restart: the rate is not negative, it is measured anew.
  const [back] = applyTick([row], { ...tick, last_step: 3, time_ms: 9000 });
  assert.deepEqual([back.rate, back.measured], [2, { step: 3, time_ms: 9000 }]);
});

test("a change that does not say how far the run is does not unsay it", () => {
  const [row] = applyChange(
    { rows: [toRow(makeRun())], complete: true },
    {
      ...makeRun({ run_status: "FINISHED" }),
      progress: { last_step: null, last_report_ms: null, last_advance_ms: null },
    },
    ALL_RUNS,
  );
  assert.equal(row.evidence?.progress.last_step, 10);
  assert.equal(row.evidence?.progress.last_report_ms, 5000);
});

test("what is too long for a list is not gone with a change", () => {
  const known = toRow(makeRun({ settings: { lr: 0.1 }, notes: "kept" }));
  const change = makeRun({ name: "new", settings: null, notes: null, omitted: ["settings"] });
  const [row] = applyChange({ rows: [known], complete: true }, change, ALL_RUNS);
  assert.deepEqual([row.name, row.settings, row.notes], ["new", { lr: 0.1 }, null]);
});

test("an attempt that has not made a step yet may load for as long as it likes", () => {
  const before = toRow(makeRun());
  const progress = { last_step: 10, last_report_ms: 5000, last_advance_ms: null };
  const change = { ...makeRun({ num_attempts: 2 }), progress };
  const [row] = applyChange({ rows: [before], complete: true }, change, ALL_RUNS);
  assert.equal(noticeStalls([row], 600_000)[0], row);
});

test("a run that came by the stream alone can still show its progress", () => {
  const bare = toRow(makeRun({ evidence: undefined, last_metrics: undefined }));
  const [row] = applyTick([bare], tickOf(1, 1));
  assert.equal(row.evidence?.progress.last_step, 1);
});

test("a tick for a run that is not loaded changes nothing", () => {
  const list = rows();
  assert.equal(applyTick(list, { ...tickOf(1, 1), run_id: "zz" }), list);
});

test("what is loaded anew and is the same stays the same object, with the rate that was measured", () => {
  const before = rows();
  before[1] = { ...before[1], rate: 7 };
  const [c, b, a] = keepSame(
    before,
    appendPage([], [at("c", 30), at("b", 20), { ...at("a", 10), name: "new" }]),
  );
  assert.equal(c, before[0]);
  assert.equal(b, before[1]);
  assert.equal(a.name, "new");
});

test("a run that makes no steps is stalled by the clock, and goes on with its next step alone", () => {
  const [row] = appendPage([], [makeRun()]);
  // Its last step was at 5 s, and a step usually takes half a second: ten seconds are the least.
  assert.equal(noticeStalls([row], 15_000)[0], row);
  const [stalled] = noticeStalls([row], 15_001);
  assert.deepEqual(
    [stalled.evidence?.progress.stalled, stalled.evidence?.progress.stalled_since_ms, stalled.rate],
    [true, 5000, null],
  );
  assert.equal(noticeStalls([stalled], 16_000)[0], stalled, "and is not drawn again");
  const beats = { ...tickOf(10, 20_000), last_advance_ms: 5000 };
  assert.equal(applyTick([stalled], beats)[0].evidence?.progress.stalled, true, "a report without a step");
  assert.equal(applyTick([stalled], tickOf(11, 20_000))[0].evidence?.progress.stalled, false);
  const slow = makeRun();
  if (slow.evidence) slow.evidence.progress.median_step_interval_ms = 60_000;
  const [patient] = appendPage([], [slow]);
  assert.equal(noticeStalls([patient], 600_000)[0], patient);
  for (const change of /** @type {const} */ ([
    { run_status: "FINISHED", phase: "FINISHED" },
    { phase: "RESTARTING" },
  ])) {
    const [other] = appendPage([], [makeRun(change)]);
    assert.equal(noticeStalls([other], 1e9)[0], other);
  }
});
