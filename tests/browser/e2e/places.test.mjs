// The Experiments page and the Nodes page in a real browser against the real head.
import assert from "node:assert/strict";
import { test } from "node:test";
import { row, screenshot, until } from "./browser.mjs";
import { stage } from "./stage.mjs";

const { head, open } = stage();

const NODES = [
  {
    node_id: "gpu-box",
    node_ip: "10.0.0.7",
    resources: { CPU: 64, licence: 1 },
    gpu_ids: ["0", "1", "2", "3"],
  },
];

test("without experiments, and without workers, the pages teach", async () => {
  const { page, problems } = await open();
  await page.goto(`${head.url}experiments`);
  await page.getByText("No experiments yet").waitFor();
  assert.match(await page.locator("main").innerText(), /trainhead run --experiment digits/);
  await page.goto(`${head.url}nodes`);
  await page.getByText("No worker runs anywhere").waitFor();
  assert.match(await page.locator("main").innerText(), /--gpus-per-worker 1/);
  assert.deepEqual(problems, []);
  await page.close();
});

test("experiments count their runs by status, live, and lead to the filtered list", async () => {
  const { page, problems } = await open();
  await page.goto(`${head.url}experiments`);
  await page.getByText("Live", { exact: true }).waitFor();
  const other = await head.register({ name: "elsewhere", experiment: "<b>other</b>" });
  const run = await head.register({ name: "first", experiment: "digits & more" });
  const shown = page.locator('tr[data-experiment="digits & more"]');
  await shown.getByTitle("1 started").first().waitFor();
  assert.equal(await shown.locator(".x-newest a").textContent(), "first");
  assert.equal(await shown.locator(".x-newest a").getAttribute("title"), run.id);
  await run.end("ERRORED", "no data");
  await shown.getByTitle("1 errored").first().waitFor();
  const second = await head.register({ name: "second", experiment: "digits & more" });
  await until(async () => (await shown.locator(".x-runs").innerText()).startsWith("2"), "two runs");
  assert.equal(await shown.locator(".status-bar").getAttribute("aria-label"), "1 started, 1 errored");
  assert.equal(await page.locator("td b").count(), 0, "names are text");
  await screenshot(page, "experiments");

  await page.keyboard.press("/");
  await page.keyboard.type("MORE dig");
  await page.waitForURL(/experiments\?q=MORE\+dig$/);
  await page.getByText("1 of 2 experiments").waitFor();
  await page.reload();
  await shown.waitFor();
  assert.equal(await page.locator("tr[data-experiment]").count(), 1);
  await page.locator("input[type=search]").fill("nothing like it");
  await page.getByText("No experiment matches.").waitFor();
  await page.getByText("Show all experiments").click();
  await page.locator("tr[data-experiment]").nth(1).waitFor();

  await shown.locator("[data-row-link]").click();
  await page.waitForURL(/\?experiment=digits/);
  await row(page, second.id).waitFor();
  await until(async () => (await row(page, other.id).count()) === 0, "runs of other experiments to be away");
  await Promise.all([second, other].map((r) => r.end("FINISHED")));
  assert.deepEqual(problems, []);
  await page.close();
});

test("nodes show who is where, on which device, and that it is free again", async () => {
  const { page, problems } = await open();
  const run = await head.register({ name: "on-gpus" });
  await run.run(2, NODES);
  const waiting = await head.register({ name: "has-room" });
  await waiting.placeAttempt(1, NODES);
  await page.goto(`${head.url}nodes`);
  const node = page.locator('[data-node="gpu-box"]');
  await node.getByText("10.0.0.7").waitFor();
  await node.getByText("CPU and memory use unknown").waitFor();
  await node.getByText("1 of 4 free, use unknown").waitFor();
  const gpu = (/** @type {number} */ i) => node.locator(`[data-gpu="${i}"]`);
  assert.match(await gpu(1).innerText(), /on-gpus\s*rank 1/);
  assert.match(await gpu(2).innerText(), /has-room\s*reserved/);
  assert.match(await gpu(3).innerText(), /free/);
  assert.equal(await gpu(0).locator("a").getAttribute("href"), `runs/${run.id}`);
  const shown = node.locator(`tr[data-run="${run.id}"]`);
  assert.match(await shown.innerText(), /on-gpus\s+2\s+ranks 0, 1, attempt 0\s+0, 1\s+8 CPU, 2 GPU/);
  assert.equal(await shown.locator(".n-ranks").getAttribute("title"), "rank 0: pid 4711\nrank 1: pid 4712");
  const cpu = node.locator(".resources tr", { hasText: "CPU" });
  assert.match(await cpu.innerText(), /CPU\s+64\s+12\s+52/);

  const own = page.locator("section.node", { has: page.getByText("head", { exact: true }) });
  assert.match(await own.innerText(), /% of \d+ processors?/);
  await screenshot(page, "nodes");
  await run.end("FINISHED");
  await node.getByText("3 of 4 free").waitFor();
  await until(async () => (await shown.count()) === 0, "the run to leave the node");
  await waiting.end("ABORTED");
  await page.getByText("No worker runs anywhere").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});
