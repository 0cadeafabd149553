// A head that goes away and comes back, seen from an open page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, row, screenshot } from "./browser.mjs";
import { Head } from "./head.mjs";

const head = new Head();
/** @type {import("playwright-core").Browser} */
let browser;

before(async () => {
  await head.start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await head.close();
});

test("a lost head is shown, what was known stays, and the page heals on the same port", async () => {
  const old = await head.register({ name: "before-the-loss" });
  const { page, problems } = await open(browser);
  await page.goto(head.url);
  await row(page, old.id).waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  assert.deepEqual(problems, []);

  await head.stop();
  await page.getByText("Not connected").waitFor();
  await page.getByText("The head has not answered since").waitFor();
  await row(page, old.id).waitFor();
  await screenshot(page, "lost-light");

  await head.start();
  const fresh = await head.register({ name: "after-the-loss" });
  await page.getByText("Live", { exact: true }).waitFor({ timeout: 20_000 });
  await page.getByText("The head has not answered since").waitFor({ state: "hidden" });
  await row(page, fresh.id).waitFor();
  await old.end("FINISHED");
  await row(page, old.id).getByText("Finished").waitFor();
  await page.close();
});

test("a run page heals too", async () => {
  const run = await head.register({ name: "trains-on" });
  await run.run(1);
  const { page } = await open(browser);
  await page.goto(`${head.url}runs/${run.id}?tab=metrics`);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByText("No metric has been reported yet").waitFor();
  await head.stop();
  await page.getByText("Not connected").waitFor();
  await head.start();
  await run.report([{ step: 1, metrics: { loss: 0.25 } }]);
  await page.locator('[data-metric="loss"] [data-value]').getByText("0.2500").waitFor({ timeout: 20_000 });
  await page.close();
});

test("a hidden tab is quiet, and catches up when it is looked at again", async () => {
  const { page, problems } = await open(browser);
  await page.clock.install();
  /** @type {string[]} */
  const requests = [];
  await page.goto(head.url);
  await page.getByText("Live", { exact: true }).waitFor();
  page.on("request", (r) => requests.push(r.url()));
  const hide = (/** @type {boolean} */ hidden) =>
    page.evaluate((to) => {
      Object.defineProperty(document, "hidden", { value: to, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  await hide(true);
  await page.clock.fastForward(60_000);
  const run = await head.register({ name: "while-hidden" });
  await run.run(1);
  await page.clock.fastForward(60_000);
  assert.equal(requests.join(), "");
  await hide(false);
  await row(page, run.id).getByText("running").waitFor();
  const streams = requests.filter((/** @type {string} */ r) => r.includes("api/train/events"));
  assert.equal(streams.length, 1);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});
