// A head that goes away and comes back, seen from an open page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { row, screenshot, until } from "./browser.mjs";
import { stage } from "./stage.mjs";

const { browser, head, open } = stage();

test("a lost head is shown, what was known stays, and the page heals on the same port", async () => {
  const old = await head.register({ name: "before-the-loss" });
  const { page, problems } = await open();
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

test("who has scrolled far stays there when the head comes back", async () => {
  const all = await Promise.all(Array.from({ length: 90 }, (_, i) => head.register({ name: `far-${i}` })));
  const { page } = await open();
  await page.goto(`${head.url}?q=far-`);
  const frame = page.locator(".table-frame");
  await page.getByText("50 of 90 runs").waitFor({ state: "attached" });
  await frame.evaluate((e) => e.scrollTo(0, 1e6));
  await page.getByText("90 runs", { exact: true }).waitFor();
  await frame.evaluate((e) => e.scrollTo(0, 1e6));
  const before = await frame.evaluate((e) => e.scrollTop);
  await head.stop();
  await page.getByText("Not connected").waitFor();
  await head.start();
  const [last] = all;
  await last.end("FINISHED");
  await row(page, last.id).getByText("Finished").waitFor();
  assert.equal(await frame.evaluate((e) => e.scrollTop), before);
  await Promise.all(all.slice(1).map((r) => r.end("FINISHED")));
  await page.close();
});

test("a long list that is loaded anew has each run once, also those that came meanwhile", async () => {
  const register = async (/** @type {number} */ from, /** @type {number} */ to) => {
    for (let i = from; i < to; i += 50)
      await Promise.all(Array.from({ length: 50 }, (_, n) => head.register({ name: `deep-${i + n}` })));
  };
  await register(0, 1250);
  const { page } = await open();
  await page.goto(`${head.url}?q=deep-`);
  const frame = page.locator(".table-frame");
  const foot = page.locator(".more");
  const toEnd = (/** @type {string} */ text) =>
    until(async () => {
      await frame.evaluate((e) => e.scrollTo(0, 1e6));
      return (await foot.innerText()).trim() === text;
    }, text);
  await toEnd("1\u202f250 runs");
  await head.stop();
  await page.getByText("Not connected").waitFor();
  await head.start();
  await register(1250, 1300);
  await page.getByText("Live", { exact: true }).waitFor();
  await toEnd("1\u202f300 runs");
  /** @type {Set<string | null>} */
  const seen = new Set();
  await frame.evaluate((e) => e.scrollTo(0, 0));
  await page.mouse.move(700, 500);
  await until(async () => {
    const rows = page.locator("tr[data-run]");
    const ids = await rows.evaluateAll((all) => all.map((r) => r.getAttribute("data-run")));
    ids.forEach((id) => seen.add(id));
    await page.mouse.wheel(0, 600);
    return seen.size === 1300;
  }, "each of them");
  await page.close();
});

test("a run page heals too", async () => {
  const run = await head.register({ name: "trains-on" });
  await run.run(1);
  const { page } = await open();
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

/** How many streams of events the head has open. */
async function streams() {
  const figures = await (await fetch(new URL("metrics", head.url))).text();
  return Number(/^trainhead_streams (\d+)/m.exec(figures)?.[1]);
}

/** @param {number} n */
const streamsAre = (n) => until(async () => (await streams()) === n, `${n} streams at the head`);

/** @param {import("playwright-core").Page} page @param {boolean} hidden */
const hide = (page, hidden) =>
  page.evaluate((to) => {
    Object.defineProperty(document, "hidden", { value: to, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);

test("a hidden tab is quiet, and catches up when it is looked at again", async () => {
  await streamsAre(0);
  const { page, problems } = await open();
  await page.clock.install();
  /** @type {string[]} */
  const requests = [];
  // What is asked for when the page is opened, and a second later for the page that is likely next, is not meant.
  const last = page.waitForEvent("requestfinished", (r) => r.url().endsWith("/ui/workers_tab.js"));
  await page.goto(head.url);
  await page.getByText("Live", { exact: true }).waitFor();
  await streamsAre(1);
  await until(async () => {
    await page.clock.runFor(500);
    return (await page.locator(".spark:not(:has(path))").count()) === 0;
  }, "the small curves of the list");
  await last;
  page.on("request", (r) => requests.push(r.url()));
  await hide(page, true);
  await page.clock.fastForward(60_000);
  await streamsAre(0);
  const run = await head.register({ name: "while-hidden" });
  await run.run(1);
  await page.clock.fastForward(60_000);
  assert.equal(requests.join(), "");
  await hide(page, false);
  await row(page, run.id).getByText("running").waitFor();
  await streamsAre(1);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("six tabs of a browser share one stream, and each hears what it must", async () => {
  await streamsAre(0);
  const context = await browser().newContext({ viewport: { width: 1200, height: 700 } });
  const pages = [];
  for (let i = 0; i < 6; i += 1) {
    const page = await context.newPage();
    await page.goto(head.url);
    await page.getByText("Live", { exact: true }).waitFor();
    pages.push(page);
  }
  assert.equal(await streams(), 1);
  const run = await head.register({ name: "for-all-six" });
  for (const page of pages) await row(page, run.id).waitFor();

  // One that is hidden misses what happens, and hears of it when it is looked at again.
  const [first, second] = pages;
  await first.clock.install();
  await hide(first, true);
  await first.clock.fastForward(20_000);
  await run.run(1);
  await row(second, run.id).getByText("running").waitFor();
  assert.equal(await row(first, run.id).getByText("running").count(), 0);
  await hide(first, false);
  await row(first, run.id).getByText("running").waitFor();

  // The stream is nobody's own: it goes on when the tab that came first is closed.
  await first.close();
  await run.end("FINISHED");
  for (const page of pages.slice(1)) await row(page, run.id).getByText("Finished").waitFor();
  assert.equal(await streams(), 1);
  await context.close();
  await streamsAre(0);
});

test("a browser without shared workers listens in each tab by itself", async () => {
  const { page, problems } = await open();
  await page.addInitScript(() => void Reflect.deleteProperty(window, "SharedWorker"));
  await page.goto(head.url);
  await page.getByText("Live", { exact: true }).waitFor();
  const run = await head.register({ name: "old-browser" });
  await row(page, run.id).waitFor();
  await run.end("FINISHED");
  await row(page, run.id).getByText("Finished").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});
