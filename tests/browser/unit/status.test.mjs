// The status mark and the sentence that says why.
import assert from "node:assert/strict";
import { test } from "node:test";
import { endings, exitText, mark, reasonOf, why, workerMark } from "../../../static/js/model/status.js";
import { makeRun, makeWorker } from "./fixtures.mjs";

test("a started run shows the finer state of its controller", () => {
  assert.deepEqual(mark(makeRun()), { shape: "started", word: "Started", detail: "running" });
  const restarting = makeRun({ controller_state: "RESTARTING", phase: "RESTARTING", num_attempts: 3 });
  assert.equal(mark(restarting).detail, "restarting, attempt 3");
  assert.equal(mark(makeRun({ num_attempts: 3 })).detail, "running, attempt 2");
  assert.equal(mark(makeRun({ controller_state: null, phase: "SCHEDULING" })).detail, "scheduling");
  assert.equal(mark(makeRun({ stop_requested_at_ms: 5 })).detail, "stopping");
});

test("an ended run shows its status alone", () => {
  for (const run_status of /** @type {const} */ (["FINISHED", "ERRORED", "ABORTED"])) {
    const shown = mark(makeRun({ run_status, phase: run_status, controller_state: run_status }));
    assert.deepEqual([shown.shape, shown.detail], [run_status.toLowerCase(), ""]);
  }
});

test("a stall is a mark of its own and says since when", () => {
  const run = makeRun();
  assert.ok(run.evidence);
  Object.assign(run.evidence.progress, { stalled: true, stalled_since_ms: 0 });
  assert.equal(mark(run).shape, "stalled");
  assert.match(
    why(run, 180_000, null),
    /^Stalled: no step for 3\u202fmin.*after step 10, where a step usually takes 500\u202fms\.$/,
  );
});

test("a run that is being restarted is not called stalled, whatever was known of the attempt before", () => {
  const run = makeRun({ phase: "RESTARTING", controller_state: "RESTARTING" });
  assert.ok(run.evidence);
  Object.assign(run.evidence.progress, { stalled: true, stalled_since_ms: 0 });
  assert.deepEqual([mark(run).shape, mark(run).detail], ["started", "restarting, attempt 1"]);
  assert.match(why(run, 180_000, null), /^Restarting: attempt 1/);
});

test("the reason of an end is the head's own sentence, made one", () => {
  const run = makeRun({
    run_status: "ERRORED",
    status_detail: "rank 1 exited with code 1: boom\nsecond line",
  });
  assert.equal(why(run, 0, null), "Rank 1 exited with code 1: boom.");
});

test("colours in a reason are taken out, control bytes are made visible", () => {
  const run = makeRun({ run_status: "ERRORED", status_detail: "rank 1 failed: \u001b[31mno\u0000\u001b[0m" });
  assert.equal(why(run, 0, null), "Rank 1 failed: no␀.");
  assert.equal(reasonOf(run), "rank 1 failed: no␀");
  assert.equal(reasonOf(makeRun({ run_status: "FINISHED", status_detail: "all done" })), "");
});

test("how others ended is said by kind, with ranges of ranks", () => {
  const killed = [5, 0, 1, 2].map((rank) => ({ rank, exit_code: null, signal: "SIGTERM" }));
  assert.equal(
    endings([{ rank: 7, exit_code: 1, signal: null }, ...killed]),
    "ranks 0–2, 5 ended with SIGTERM; rank 7 ended with code 1",
  );
});

test("a worker that was taken down did not fail", () => {
  const dead = (/** @type {number | null} */ code, /** @type {string | null} */ signal) => ({
    ...makeWorker(0),
    status: /** @type {const} */ ("DEAD"),
    exit: { code, signal, time_ms: 0, cause: null },
  });
  const words = [
    workerMark(makeWorker(0), { taken: false }),
    workerMark(dead(0, null), { taken: true }),
    workerMark(dead(1, null), { taken: false }),
    workerMark(dead(null, "SIGTERM"), { taken: true }),
    workerMark({ ...dead(0, null), exit: null }, { taken: false }),
  ].map((m) => `${m.shape} ${m.word}`);
  assert.deepEqual(words, [
    "alive Alive",
    "finished Done",
    "errored Failed",
    "aborted Stopped",
    "aborted Lost",
  ]);
});

test("an end without a reason says so", () => {
  const aborted = makeRun({ run_status: "ABORTED", ended_by: "user", duration_ms: 61_000 });
  assert.equal(
    why(aborted, 0, null),
    "Aborted after 1\u202fmin\u00a01\u202fs, recorded by the user; no reason was given.",
  );
  assert.equal(
    why(makeRun({ run_status: "FINISHED", duration_ms: 9000 }), 0, null),
    "Finished after 9\u202fs: 2 workers done.",
  );
});

test("a running run says who is alive, where it is and how fast", () => {
  assert.equal(why(makeRun(), 0, 2), "Running: 2 of 2 workers alive, at step 10, 2.00\u202fsteps/s.");
  assert.equal(
    why(makeRun({ workers: [], evidence: undefined }), 0, null),
    "Running: no workers named yet, no step reported yet.",
  );
});

test("exits name the signal, else the code, else admit not to know", () => {
  assert.equal(exitText({ code: null, signal: "SIGKILL" }), "SIGKILL");
  assert.equal(exitText({ code: 0, signal: null }), "code 0");
  assert.equal(exitText({ code: null, signal: null }), "unknown");
});
