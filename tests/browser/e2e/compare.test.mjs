// The Compare page in a real browser against the real head: legend, settings, sweep, and what is not there.
/** @import { Page } from "playwright-core" */

import assert from "node:assert/strict";
import { test } from "node:test";
import { row, screenshot, until } from "./browser.mjs";
import { stage } from "./stage.mjs";

const { head, open } = stage({ begin: fill });
/** @type {import("./head.mjs").Controller[]} */
const runs = [];
const SETTINGS = [
  { optimizer: { name: "adamw", lr: 0.0001 }, depth: 2, seed: 0, same: "x" },
  { optimizer: { name: "adamw", lr: 0.001 }, depth: 2, seed: 1, same: "x" },
  { optimizer: { name: "sgd", lr: 0.01 }, depth: 4, seed: 2, same: "x" },
  { optimizer: { name: "sgd", lr: 0.1 }, depth: 4, seed: 3, same: "x" },
];
const HOSTILE = `<img src=x onerror="alert(1)">`;

async function fill() {
  for (const [i, settings] of SETTINGS.entries()) {
    const name = i === 3 ? HOSTILE : `sweep-${i}`;
    const run = await head.register({ name, experiment: "sweep", settings, tags: { owner: `o${i % 2}` } });
    runs.push(run);
    await run.run(1);
    if (i === 3) continue;
    const loss = (/** @type {number} */ step) => (i + 1) / 10 + 1 / (1 + step) - (step === 1 ? 5 : 0);
    await run.report(
      [0, 1, 2].map((step) => ({ step, metrics: { "val/loss": loss(step), "val/acc": i / 4 } })),
    );
    await run.end("FINISHED");
  }
}

/** @param {Record<string, string>} [query] @param {string[]} [ids] */
const compare = (query = {}, ids = runs.map((r) => r.id)) =>
  `${head.url}compare?${new URLSearchParams({ runs: ids.join(","), ...query })}`;

/** @param {Page} page */
const shownSettings = (page) =>
  page.locator("tr[data-setting]").evaluateAll((rows) => rows.map((r) => r.getAttribute("data-setting")));

test("the legend names each run, follows its status and leaves a run out", async () => {
  const live = await head.register({ name: "still-going", experiment: "sweep" });
  await live.run(1);
  const { page, problems } = await open();
  await page.goto(compare({ tab: "settings" }, [...runs.map((r) => r.id), live.id]));
  await page.getByRole("heading", { name: "Compare 5 runs" }).waitFor();
  await row(page, live.id).getByText("running").waitFor();
  assert.equal(await row(page, runs[3].id).locator("[data-row-link]").textContent(), HOSTILE);
  assert.equal(await page.locator("main img").count(), 0);
  assert.equal(await row(page, runs[0].id).locator("svg.swatch path").count(), 1);
  await live.end("ERRORED", "rank 0 exited with code 1");
  await row(page, live.id).getByText("Errored").waitFor();

  await page.getByRole("button", { name: "Remove sweep-1 from the comparison" }).click();
  await page.getByRole("heading", { name: "Compare 4 runs" }).waitFor();
  assert.ok(!page.url().includes(runs[1].id));
  assert.equal(await row(page, runs[1].id).count(), 0);
  const focused = await page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
  assert.equal(focused, "Remove sweep-2 from the comparison");
  await page.goBack();
  await row(page, runs[1].id).waitFor();
  // The focus is still in the row of sweep-2.
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/runs/${runs[1].id}`);
  assert.deepEqual(problems, []);
  await page.close();
});

test("only what differs is shown until all is asked for, and the URL keeps it", async () => {
  const { page, problems } = await open();
  await page.goto(compare({ tab: "settings" }));
  await page.getByText("1 equal setting hidden").waitFor();
  const differing = await shownSettings(page);
  for (const key of ["depth", "optimizer/lr", "optimizer/name", "seed", "owner", "status"])
    assert.ok(differing.includes(key), `${key} of ${differing}`);
  assert.ok(!differing.includes("same"));
  const lr = page.locator('tr[data-setting="optimizer/lr"] td');
  assert.deepEqual(
    (await lr.allInnerTexts()).map((t) => t.replace(/\s*differs$/, "").trim()),
    ["0.0001", "0.001", "0.01", "0.1"],
  );
  assert.equal(await page.locator('tr[data-setting="depth"] td.is-other').count(), 2);
  await page.getByRole("button", { name: "All", exact: true }).click();
  await page.locator('tr[data-setting="same"]').waitFor();
  assert.match(page.url(), /rows=all/);
  await page.reload();
  await page.locator('tr[data-setting="same"]').waitFor();
  await screenshot(page, "compare-settings");
  assert.deepEqual(problems, []);
  await page.close();
});

test("a sweep sets the varying setting against the held-out loss; choices are in the URL and survive a reload", async () => {
  const { page, problems } = await open();
  await page.goto(compare({ tab: "sweep" }));
  await page.getByText(`1 run has no val/loss: ${HOSTILE}`).waitFor();
  const across = page.getByRole("combobox", { name: "Across" });
  const score = page.getByRole("combobox", { name: "Score" });
  assert.deepEqual(
    [await across.inputValue(), await score.inputValue()],
    ["optimizer/lr", "metric:val/loss"],
  );
  assert.equal(await page.locator("[data-point]").count(), 3);
  assert.equal(await page.locator("[data-line]").count(), 3);
  await page.locator(`[data-point="${runs[1].id}"]`).hover();
  const tip = page.locator(".tip");
  await tip.getByText("sweep-1").waitFor();
  assert.match(await tip.innerText(), /optimizer\/lr\s+0\.001\s+val\/loss\s+0\.5333/);
  await screenshot(page, "compare-sweep");

  await across.selectOption("optimizer/name");
  await score.selectOption("metric:val/acc");
  await page.waitForURL(/across=optimizer%2Fname.*score=val%2Facc/);
  await page.reload();
  await page.locator("[data-point]").first().waitFor();
  assert.deepEqual(
    [await across.inputValue(), await score.inputValue()],
    ["optimizer/name", "metric:val/acc"],
  );
  assert.ok((await page.locator('[data-chart="scatter"] svg').innerHTML()).includes("adamw"));

  await score.selectOption("metric:val/loss");
  await page.getByRole("button", { name: "Least" }).click();
  await page.waitForURL(/take=min/);
  await page.locator(`[data-point="${runs[0].id}"][aria-label*="least val/loss −4.4"]`).waitFor();
  await page.locator(`[data-point="${runs[0].id}"]`).click();
  await page.waitForURL(`**/runs/${runs[0].id}`);
  assert.deepEqual(problems, []);
  await page.close();
});

test("dragging along an axis, or keys, pick out runs, and the URL keeps it", async () => {
  const { page, problems } = await open({ height: 1400 });
  await page.goto(compare({ tab: "sweep" }));
  const zone = page.locator('[data-chart="parallel"] .brush-zone').first();
  const box = await until(() => zone.boundingBox(), "the first axis");
  const x = box.x + box.width / 2;
  await page.mouse.move(x, box.y + box.height - 16);
  await page.mouse.down();
  await page.mouse.move(x, box.y + box.height * 0.7, { steps: 4 });
  await page.mouse.up();
  await page.getByText("1 of 3 runs").waitFor();
  assert.equal(await page.locator(".parallel-line.is-out").count(), 2);
  await page.reload();
  await page.getByText("1 of 3 runs").waitFor();
  assert.equal(await page.locator(".parallel-line.is-out").count(), 2);
  await page.getByRole("button", { name: "Clear" }).click();
  await until(async () => (await page.locator(".parallel-line.is-out").count()) === 0, "no brush");
  await zone.focus();
  await page.keyboard.press("ArrowUp");
  await page.getByText("2 of 3 runs").waitFor();
  assert.equal(await zone.getAttribute("aria-valuetext"), "from 5 % to 100 % of its length");
  await page.keyboard.press("Delete");
  await page.getByText("2 of 3 runs").waitFor({ state: "detached" });
  assert.equal(new URL(page.url()).searchParams.get("brush"), null);
  assert.deepEqual(problems, []);
  await page.close();
});

test("a run that is not there is named and can be taken out; none and one run say what to do", async () => {
  const { page, problems } = await open();
  await page.goto(compare({ tab: "settings" }, [runs[0].id, "no-such-run"]));
  await row(page, "no-such-run").getByText("There is no such run").waitFor();
  await page.locator('tr[data-setting="same"]').waitFor();
  await page.getByRole("button", { name: "Remove no-such-run from the comparison" }).click();
  await page.getByText("One run alone has nothing to be compared with").waitFor();
  // The browser says itself that the head had no such run.
  assert.deepEqual(
    problems.filter((p) => !p.includes("404")),
    [],
  );
  await page.goto(`${head.url}compare`);
  await page.getByText("No runs are chosen").waitFor();
  await page.goto(
    compare({ tab: "settings" }, [runs[0].id, ...Array.from({ length: 110 }, (_, i) => `none-${i}`)]),
  );
  await page.getByText("More than 100 runs are named").waitFor();
  await page.getByRole("button", { name: "Remove the 99 runs that are not there" }).waitFor();
  await page.close();
});
