// Questions for series: on which grid several runs come, with an answer in the place of the head.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketWidth } from "../../../static/js/model/series.js";
import { fetchLines } from "../../../static/js/state/chart_fetch.js";
import { wire } from "./fixtures_series.mjs";

const [FROM, TO, BUCKETS] = [1000, 5100, 4];
/** Of each bucket of 1536 steps two points. Sparse: none stands at the ends of the part. */
const STEPS = [1100, 1200, 1600, 2900, 3100, 4500, 5008, 5058];

/** As the head thins them out. @param {string} mode */
const thin = (mode) =>
  wire(
    STEPS.filter((_, i) => mode !== "mean" || i % 2 === 0).map((step, i) => [
      step,
      mode === "mean" ? 4 : i % 2 === 0 ? 1 : 9,
    ]),
    { count: 1000 },
  );

test("runs on one grid come by the part that is asked for, also where points are sparse", async () => {
  assert.equal(bucketWidth(FROM, TO, BUCKETS), 1536);
  assert.equal(bucketWidth(STEPS[0], STEPS[7], BUCKETS), 1024, "by its points alone it would be finer");
  const before = globalThis.fetch;
  globalThis.fetch = async (_, init) => {
    const { runs, mode } = JSON.parse(String(init?.body));
    const lines = runs.map((/** @type {string} */ run_id) =>
      JSON.stringify({ run_id, series: [thin(mode)] }),
    );
    return new Response(lines.join("\n"));
  };
  try {
    const part = { from_step: FROM, to_step: TO };
    const { signal } = new AbortController();
    const [{ line }] = await fetchLines(["a", "b"], ["k"], part, 2 * BUCKETS, signal, [0, 100_000]);
    const { step, low, high, value } = line.series;
    // The first and the last point stay by themselves.
    assert.deepEqual(step, [1100, 1200, 2250, 3800, 5008, 5058]);
    assert.deepEqual(
      [low.slice(2, 4), high.slice(2, 4), value.slice(2, 4)],
      [
        [1, 1],
        [9, 9],
        [4, 4],
      ],
    );
  } finally {
    globalThis.fetch = before;
  }
});
