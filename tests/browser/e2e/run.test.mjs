// The Run page in a real browser against the real head.
import assert from "node:assert/strict";
import { test } from "node:test";
import { row, screenshot } from "./browser.mjs";
import { stage } from "./stage.mjs";

const TABS = ["Overview", "Metrics", "Checkpoints", "Workers", "Logs", "Events"];
const { head, open } = stage({ begin: fill });
/** @type {import("./head.mjs").Controller} */
let run;

async function fill() {
  run = await head.register({
    name: "digits-1",
    settings: { lr: 0.0003, model: { depth: 12 } },
    framework_versions: { torch: "2.8.0" },
    tags: { team: "vision" },
  });
  await run.run(2);
  const steps = Array.from({ length: 60 }, (_, step) => ({
    step,
    metrics: {
      "train/loss": step === 20 ? "NaN" : 2 / (step + 1),
      "train/grad": step === 3 ? "Infinity" : 1,
      lr: 0.1,
    },
  }));
  await run.report(steps);
}

test("the run page opens by link and by reload, and says what is happening", async () => {
  const { page, problems } = await open();
  await page.goto(head.url);
  await row(page, run.id).locator("[data-row-link]").click();
  await page.waitForURL(`**/runs/${run.id}`);
  for (let visit = 0; visit < 2; visit += 1) {
    await page.getByRole("heading", { name: "digits-1" }).waitFor();
    await page.locator(".why", { hasText: "Running: 2 of 2 workers alive, at step 59" }).waitFor();
    await page.locator(".fact", { hasText: "Process" }).waitFor();
    await page.locator(".fact", { hasText: "Contact" }).getByText("lease").waitFor();
    await page.locator(".fact", { hasText: "Progress" }).getByText("step 59").waitFor();
    await page.locator(".pairs").getByText("model/depth").waitFor();
    await page.locator(".pairs").getByText("2.8.0").waitFor();
    await page.reload();
  }
  assert.deepEqual(problems, []);
  await page.close();
});

test("every tab has its own URL and draws without an error", async () => {
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}`);
  for (const tab of TABS) {
    await page.locator(".tabs").getByText(tab, { exact: true }).click();
    await page.locator(".tabs a[aria-current=page]", { hasText: tab }).waitFor();
    if (tab !== "Overview") assert.match(page.url(), new RegExp(`tab=${tab.toLowerCase()}`));
  }
  await page.locator(".events tbody tr").first().waitFor();
  assert.match(await page.locator(".events").innerText(), /SCHEDULING → RUNNING/);
  await page.goto(`${head.url}runs/${run.id}?tab=workers`);
  await page.locator(".workers").getByText("node-a").first().waitFor();
  assert.equal(await page.locator(".workers tbody tr").count(), 2);
  await page.goBack();
  assert.deepEqual(problems, []);
  await page.close();
});

test("checkpoints come by themselves, say what they are kept as, and can be pinned", async () => {
  const { page, problems } = await open();
  const settings = {
    checkpoints: { num_to_keep: 1, score_attribute: "accuracy", score_order: "max" },
  };
  const keeper = await head.register({ name: "keeper", settings });
  await keeper.run(1);
  await page.goto(`${head.url}runs/${keeper.id}?tab=checkpoints`);
  await page.getByText("No checkpoint yet").waitFor();
  const line = (/** @type {number} */ step) =>
    page.locator(".checkpoints tbody tr", { has: page.locator(`td:nth-child(2):text-is("${step}")`) });
  await keeper.checkpoint(0, "COMMITTED", 0.9);
  await line(0).getByText("best, latest").waitFor();
  await keeper.checkpoint(1, "COMMITTED", 0.8);
  await line(10).getByText("latest", { exact: true }).waitFor();
  await line(0).getByText("best", { exact: true }).waitFor();
  await keeper.checkpoint(2, "COMMITTED", 0.7);
  await line(10).getByText("goes next").waitFor();
  await page.getByRole("button", { name: "Pin checkpoint 1" }).click();
  await line(10).getByText("pinned").waitFor();
  await keeper.checkpoint(0, "MISSING", 0.9);
  await line(0).getByText("Missing").waitFor();
  assert.equal(await line(0).getByRole("button").count(), 0);
  await screenshot(page, "checkpoints");
  assert.deepEqual(problems, []);
  await page.close();
});

test("a metric that only another rank reports is shown as that rank's, and extends", async () => {
  const some = await head.register({ name: "by-rank-1" });
  await some.run(2);
  await some.report([{ step: 1, metrics: { loss: 0.5 } }]);
  await some.report([{ step: 1, metrics: { "io/wait": 7 } }], 1);
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${some.id}?tab=metrics`);
  const chart = page.locator('[data-metric="io/wait"]');
  await chart.getByText("rank 1", { exact: true }).waitFor();
  await chart.locator("[data-value]").getByText("7").waitFor();
  await some.report([{ step: 2, metrics: { "io/wait": 8 } }], 1);
  await chart.locator("[data-value]").getByText("8").waitFor();
  await page.goto(`${head.url}runs/${some.id}?tab=logs`);
  await page.getByText("This head holds no log of rank 0 in attempt 0.").waitFor();
  await some.end("FINISHED");
  await page.locator(".run-title").getByText("Finished").waitFor();
  await page.locator(".why", { hasText: "Finished after" }).waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("an unknown run and an unknown page say so", async () => {
  const { page } = await open();
  await page.goto(`${head.url}runs/no-such-run`);
  await page.getByText("There is no such run").waitFor();
  await page.getByRole("link", { name: "All runs" }).click();
  await row(page, run.id).waitFor();
  await page.close();
});
