// The Runs page in a real browser against the real head.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, row, screenshot, until } from "./browser.mjs";
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

test("an empty head teaches how to make the first run, which then appears by itself", async () => {
  const { page, problems } = await open(browser);
  await page.goto(head.url);
  await page.getByText("No runs yet").waitFor();
  const text = await page.locator("main").innerText();
  assert.match(text, /trainhead run --workers 2 -- python3 train\.py/);
  assert.ok(text.includes(`trainhead run --head ${head.url.replace(/\/$/, "")}`));
  assert.match(text, /curl -X POST \S+\/api\/train\/runs/);
  await screenshot(page, "empty-light");

  const run = await head.register({ name: "first-run" });
  await row(page, run.id).waitFor();
  assert.equal(await page.getByText("No runs yet").count(), 0);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("a new run, its states and its metrics appear without a reload", async () => {
  const { page, problems } = await open(browser);
  await page.goto(head.url);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.evaluate(() => Object.assign(window, { notReloaded: true }));
  const run = await head.register({ name: "live-run", experiment: "digits", tags: { team: "vision" } });
  const shown = row(page, run.id);
  await shown.getByText("live-run").waitFor();
  await shown.getByText("initializing").waitFor();
  await run.run(3);
  await shown.getByText("running").waitFor();
  await shown.getByText("3/3").waitFor();
  await page.evaluate(() => {
    const shifts = Object.assign(window, { shifts: 0 });
    const add = (/** @type {PerformanceObserverEntryList} */ list) =>
      list.getEntries().forEach((e) => (shifts.shifts += /** @type {any} */ (e).value));
    new PerformanceObserver(add).observe({ type: "layout-shift" });
  });
  await run.report([{ step: 1200, metrics: { "train/loss": 0.314159 } }]);
  await shown.getByText("1\u202f200").waitFor();
  await shown.getByText("0.3142").waitFor();
  await run.end("ERRORED", "rank 1 exited with code 1");
  await shown.getByText("Errored").waitFor();
  await shown.locator(".reason", { hasText: "rank 1 exited with code 1" }).waitFor();
  await until(
    async () => (await page.locator(".chip", { hasText: "Errored" }).innerText()).includes("1"),
    "the count of errored runs",
  );
  assert.equal(await page.evaluate(() => "notReloaded" in window), true);
  // A number that grows to the left counts a little; a row that moves counts far more.
  const shifts = await page.evaluate(() => /** @type {any} */ (window).shifts);
  assert.ok(shifts < 0.0005, `something jumped: ${shifts}`);
  assert.deepEqual(problems, []);
  await page.close();
});

test("filters and search are in the URL and survive a reload", async () => {
  const done = await head.register({ name: "alpha-done" });
  await done.end("FINISHED");
  const live = await head.register({ name: "alpha-live", tags: { sweep: "lr-3" } });
  const { page, problems } = await open(browser);
  await page.goto(head.url);
  await row(page, done.id).waitFor();
  await page.locator(".chip", { hasText: "Started" }).click();
  await until(async () => (await row(page, done.id).count()) === 0, "finished runs to be filtered out");
  await row(page, live.id).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("SWEEP:lr");
  await page.waitForURL(/\?status=STARTED&q=SWEEP%3Alr$/);
  await page.reload();
  await row(page, live.id).waitFor();
  assert.equal(await page.locator("input[type=search]").inputValue(), "SWEEP:lr");
  assert.equal(await page.locator(".chip", { hasText: "Started" }).getAttribute("aria-pressed"), "true");
  assert.equal(await page.locator("tbody tr").count(), 1);

  await page.locator("input[type=search]").fill("no such run");
  await page.getByText("No run matches.").waitFor();
  await page.getByText("Show all runs").click();
  await row(page, done.id).waitFor();
  await live.end("ABORTED", "test");
  assert.deepEqual(problems, []);
  await page.close();
});

test("further pages come by scrolling, each run once", async () => {
  const all = await Promise.all(Array.from({ length: 130 }, (_, i) => head.register({ name: `many-${i}` })));
  const { page, problems } = await open(browser);
  await page.goto(`${head.url}?q=many-`);
  await page.getByText("50 of 130 runs").waitFor();
  await page.mouse.move(700, 500);
  await until(async () => {
    await page.mouse.wheel(0, 4000);
    return (await page.locator("tbody tr").count()) === all.length;
  }, "all rows");
  const ids = await page
    .locator("tbody tr")
    .evaluateAll((rows) => rows.map((r) => r.getAttribute("data-run")));
  assert.equal(new Set(ids).size, all.length);
  await Promise.all(all.map((r) => r.end("FINISHED")));
  assert.deepEqual(problems, []);
  await page.close();
});

test("rows are walked and opened from the keyboard, and ? lists the keys", async () => {
  const [b, a] = [await head.register({ name: "keys-b" }), await head.register({ name: "keys-a" })];
  const { page, problems } = await open(browser);
  await page.goto(`${head.url}?q=keys-`);
  await row(page, a.id).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog").getByText("Next and previous row").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  for (const key of ["j", "j", "k", "j"]) await page.keyboard.press(key);
  const focused = await page.evaluate(() => document.activeElement?.closest("tr")?.getAttribute("data-run"));
  const second = await page.locator("tbody tr").nth(1).getAttribute("data-run");
  assert.equal(focused, second);
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/runs/${focused}`);
  await page.goBack();
  await row(page, b.id).waitFor();
  await Promise.all([a, b].map((r) => r.end("FINISHED")));
  assert.deepEqual(problems, []);
  await page.close();
});

test("hostile names and tags are text", async () => {
  const name = `<img src=x onerror="alert(1)"> </td>\u202egpj.exe`;
  const run = await head.register({
    name,
    tags: { "<b>k</b>": `"><script>alert(2)</script>` },
    experiment: "<i>e</i>",
  });
  const { page, problems } = await open(browser, { width: 1800 });
  await page.goto(head.url);
  await row(page, run.id).waitFor();
  assert.equal(await row(page, run.id).locator("[data-row-link]").textContent(), name);
  assert.equal(await page.locator("td img, td script, td i, td b:not(.mark b)").count(), 0);
  await row(page, run.id).locator("[data-row-link]").click();
  await page.getByRole("heading", { level: 1 }).waitFor();
  assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), name);
  assert.equal(await page.locator("main img, main script").count(), 0);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("stop asks once and calls the API", async () => {
  const run = await head.register({ name: "to-stop" });
  await run.run(1);
  const { page, problems } = await open(browser);
  await page.goto(head.url);
  const stop = row(page, run.id).getByRole("button", { name: "Stop to-stop" });
  await stop.click();
  await page.getByRole("button", { name: "Keep" }).click();
  await stop.waitFor();
  assert.equal((await head.call("GET", `api/train/runs/${run.id}`)).stop_requested_at_ms, null);
  await stop.click();
  const [request] = await Promise.all([
    page.waitForRequest((r) => r.method() === "POST" && r.url().endsWith(`api/train/runs/${run.id}/stop`)),
    page.getByRole("button", { name: "Stop run" }).click(),
  ]);
  assert.equal((await request.response())?.status(), 202);
  await row(page, run.id)
    .getByText(/stopping|Aborted/)
    .waitFor();
  assert.equal(page.url(), head.url);
  assert.deepEqual(problems, []);
  await page.close();
});

test("the page holds on a phone and in both themes", async () => {
  const run = await head.register({ name: "looks", experiment: "digits", tags: { team: "vision" } });
  await run.run(2);
  await run.report([{ step: 5, metrics: { "train/loss": 0.5, "val/accuracy": 0.9 } }]);
  for (const [name, options] of /** @type {const} */ ([
    ["light", {}],
    ["dark", { dark: true }],
    ["phone", { width: 390, height: 844 }],
  ])) {
    const { page, problems } = await open(browser, options);
    await page.goto(head.url);
    await row(page, run.id).waitFor();
    await screenshot(page, `runs-${name}`);
    const wider = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.ok(wider <= 0, `${name}: ${wider} px stick out`);
    assert.deepEqual(problems, []);
    await page.close();
  }
  await run.end("FINISHED");
});
