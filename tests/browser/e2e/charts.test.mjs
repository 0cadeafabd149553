// Charts where something goes wrong or away: a run that ends, one that fails to answer or is deleted, a chart
// that fills the window and goes back, a search in a group far below.
/** @import { Page } from "playwright-core" */

import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "./browser.mjs";
import { stage } from "./stage.mjs";

const { head, open } = stage();

/** @param {string} name @param {number} [points] */
async function started(name, points = 3) {
  const run = await head.register({ name });
  await run.run(1);
  const step = Array.from({ length: points }, (_, i) => i);
  const time_ms = step.map((s) => run.registered_ms + s * 100);
  await run.columns({ step, time_ms, metrics: { loss: step.map((s) => s + 0.5), other: step } });
  return run;
}
const chart = (/** @type {Page} */ page, /** @type {string} */ key) =>
  page.locator(`.chart-slot[data-metric="${key}"]`);
const value = (/** @type {Page} */ page, /** @type {string} */ key) =>
  chart(page, key).locator("[data-value]");
const compare = (/** @type {{ id: string }[]} */ runs, query = "") =>
  `${head.url}compare?runs=${runs.map((r) => r.id).join(",")}${query}`;

test("a chart lives on after it filled the window, and nothing behind that takes keys or the focus", async () => {
  const run = await started("full");
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=metrics&zoom=0..1`);
  await value(page, "loss").waitFor();
  const button = chart(page, "loss").getByRole("button", { name: "Full screen: loss" });
  await chart(page, "loss").locator(".chart").hover();
  await button.click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("heading", { name: "loss" }).waitFor();
  const inside = () => page.evaluate(() => document.activeElement?.closest("dialog") !== null);
  assert.ok(await inside(), "the focus is in it");
  for (let i = 0; i < 12; i += 1) {
    await page.keyboard.press("Tab");
    const where = await page.evaluate(() => {
      const at = document.activeElement;
      return at === document.body || at?.closest("dialog") ? "" : at?.outerHTML;
    });
    assert.equal(where, "");
  }
  await page.keyboard.press("/");
  assert.ok(!(await page.evaluate(() => document.activeElement?.matches("input[type=search]"))));

  await dialog.getByRole("button", { name: "Reset zoom" }).click();
  await until(async () => !page.url().includes("zoom"), "all of it");
  assert.ok(await inside(), "the button is gone, the focus is not");
  await page.keyboard.press("ArrowRight");
  await dialog.getByRole("heading", { name: "other" }).waitFor();
  const next = dialog.getByRole("button", { name: "Next" });
  assert.equal(await next.getAttribute("aria-disabled"), "true");
  await dialog.getByRole("button", { name: "Previous" }).click();
  await dialog.getByRole("heading", { name: "loss" }).waitFor();
  await dialog.locator("[data-value]").waitFor();
  await page.keyboard.press("Escape");
  await until(async () => (await dialog.count()) === 0, "it is closed");
  assert.ok(await button.evaluate((b) => b === document.activeElement), "the focus is back");

  await run.report([{ step: 3, metrics: { loss: 77 } }]);
  await value(page, "loss").getByText("77").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("the last points of a run that ends are drawn, also of a key that is new", async () => {
  const run = await started("ends");
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=metrics`);
  await value(page, "loss").getByText("2.5").waitFor();
  for (let i = 3; i < 6; i += 1) await run.report([{ step: i, metrics: { loss: i } }]);
  // At once after the last report: the head drops the tick that would have told of it.
  await run.report([{ step: 6, metrics: { loss: 88, "val/last": 99 } }]);
  await run.end("FINISHED");
  await value(page, "loss").getByText("88").waitFor();
  await value(page, "val/last").getByText("99").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("by the clock, a part of several runs has finer points of each", async () => {
  const runs = [await started("a", 5000), await started("b", 5000)];
  const { page, problems } = await open();
  /** @type {string[]} */
  const asked = [];
  page.on("request", (r) => /metrics\/(query|series)/.test(r.url()) && asked.push(r.url()));
  const from = Math.max(...runs.map((r) => r.registered_ms)) + 100_000;
  await page.goto(compare(runs, `&x=wall&zoom=${from}..${from + 20_000}`));
  await chart(page, "loss").locator("canvas").waitFor();
  const points = chart(page, "loss").locator("[data-points]");
  await until(async () => asked.some((u) => u.includes("from_ms")), "the part is asked for");
  await until(async () => (await points.count()) === 0, "every point of that part");
  const parts = asked.filter((u) => u.includes("from_ms"));
  assert.ok(parts.length >= 2 && parts.every((u) => u.includes("/series")), asked.join("\n"));
  assert.deepEqual(problems, []);
  await page.close();
});

test("one run that cannot be had, or is deleted, holds up no other", async () => {
  const [good, bad] = [await started("good"), await started("bad")];
  await good.report([{ step: 3, metrics: { fine: 1 } }]);
  await bad.report([{ step: 3, metrics: { late: 1 } }]);
  const { page } = await open();
  const busy = (/** @type {import("playwright-core").Route} */ route) =>
    route.fulfill({ status: 503, json: { title: "Busy", detail: "The head is busy." } });
  await page.route(`**/runs/${bad.id}/metrics`, busy);
  await page.goto(compare([good, bad]));
  await page.getByRole("alert").getByText("The head is busy.").waitFor();
  await value(page, "fine").waitFor();
  assert.equal(await chart(page, "late").count(), 0);
  await page.unroute(`**/runs/${bad.id}/metrics`);
  await chart(page, "late").locator("canvas").waitFor();
  await until(async () => (await page.getByRole("alert").count()) === 0, "the words are gone");

  await bad.end("FINISHED");
  await head.call("DELETE", `api/train/runs/${bad.id}`);
  await head.call("POST", "api/train/gc", { purge: true, trash_for_ms: 0 });
  await page.locator(`tr[data-run="${bad.id}"]`).getByText("There is no such run").waitFor();
  await good.report([{ step: 4, metrics: { fine: 55 } }]);
  await page.locator(".chart-slot[data-metric=fine] canvas").waitFor();
  await value(page, "fine").getByText("55").first().waitFor();
  await page.close();
});

test("an answer that breaks off is asked for again, also of a run that is over", async () => {
  const run = await started("over");
  await run.end("FINISHED");
  const { page } = await open();
  let breaks = true;
  await page.route(/metrics\/series/, (route) =>
    breaks ? route.fulfill({ contentType: "application/json", body: '{"series":[' }) : route.continue(),
  );
  await page.goto(`${head.url}runs/${run.id}?tab=metrics`);
  await page.getByRole("alert").waitFor();
  breaks = false;
  await value(page, "loss").getByText("2.5").waitFor();
  await until(async () => (await page.getByRole("alert").count()) === 0, "the words are gone");
  await page.close();
});

test("a search leaves no group blank that was far below", async () => {
  const run = await head.register({ name: "groups" });
  await run.run(1);
  const names = Array.from({ length: 30 }, (_, i) => String(i).padStart(2, "0"));
  const metrics = Object.fromEntries(names.flatMap((n) => [`a/${n}`, `z/${n}`]).map((key) => [key, 1]));
  await run.report([{ step: 0, metrics }]);
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=metrics`);
  await value(page, "a/00").waitFor();
  assert.equal(await chart(page, "z/00").count(), 0, "its place is far below");
  // Less than a block of the second group and most of the first, so that it is far below still.
  await page.locator("input[type=search]").fill("0");
  await until(async () => page.url().includes("q=0"), "the search");
  await chart(page, "z/00").scrollIntoViewIfNeeded();
  await value(page, "z/00").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("further experiments are added to those that are there, and a page that failed is asked for again", async () => {
  const { page } = await open();
  const names = Array.from({ length: 12 }, (_, i) => `made-${String(i).padStart(2, "0")}`);
  /** @type {string[]} */
  const asked = [];
  let busy = true;
  await page.route(/api\/train\/experiments/, (route) => {
    const at = Number(new URL(route.request().url()).searchParams.get("page_token") ?? 0);
    asked.push(String(at));
    if (at === 8 && busy) return route.fulfill({ status: 503, json: { detail: "The head is busy." } });
    const experiments = names.slice(at, at + 4).map((name) => {
      return {
        name,
        num_runs: 1,
        counts: { FINISHED: 1 },
        newest_run_id: null,
        newest_run_name: null,
        newest_start_time_ms: 1000,
      };
    });
    return route.fulfill({
      json: { experiments, next_page_token: at + 4 < names.length ? String(at + 4) : null },
    });
  });
  await page.goto(`${head.url}experiments`);
  await page.getByRole("alert").getByText("The head is busy.").waitFor();
  busy = false;
  await page.locator('tr[data-experiment="made-11"]').waitFor();
  assert.equal(await page.locator("tr[data-experiment]").count(), names.length);
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.deepEqual(asked.filter((at) => at !== "8").slice(-2), ["0", "4"], "no page is asked for twice");
  assert.ok(asked.filter((at) => at === "0").length <= 2, asked.join(" "));
  await page.close();
});

test("a sweep has the values of a run that is over also if they could not be had at first", async () => {
  const runs = [];
  for (const lr of [0.1, 0.2]) {
    const run = await head.register({ name: `lr-${lr}`, settings: { lr } });
    await run.run(1);
    await run.report([0, 1].map((step) => ({ step, metrics: { loss: step + lr } })));
    await run.end("FINISHED");
    runs.push(run);
  }
  const { page } = await open();
  const url = `**/runs/${runs[1].id}/metrics`;
  await page.route(url, (route) => route.fulfill({ status: 503, json: { detail: "The head is busy." } }));
  await page.goto(compare(runs, "&tab=sweep&take=min"));
  await page.getByRole("alert").getByText("The head is busy.").waitFor();
  await page.getByText("Loading values…").waitFor();
  await page.unroute(url);
  await page.locator(`[data-point="${runs[1].id}"]`).waitFor();
  assert.equal(await page.getByText("Loading values…").count(), 0);
  await page.close();
});
