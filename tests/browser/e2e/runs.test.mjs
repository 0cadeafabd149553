// The Runs page in a real browser against the real head.
import assert from "node:assert/strict";
import { test } from "node:test";
import { held, row, until } from "./browser.mjs";
import { integer } from "../../../static/js/model/format.js";
import { stage } from "./stage.mjs";

const rows = (/** @type {import("playwright-core").Page} */ page) => page.locator("tr[data-run]");
const { head, open } = stage();

test("an empty head teaches how to make the first run, which then appears by itself", async () => {
  const { page, problems } = await open();
  await page.goto(head.url);
  await page.getByText("No runs yet").waitFor();
  const text = await page.locator("main").innerText();
  assert.match(text, /trainhead run --workers 2 -- python3 train\.py/);
  assert.ok(text.includes(`trainhead run --head ${head.url.replace(/\/$/, "")}`));
  assert.match(text, /curl -X POST \S+\/api\/train\/runs/);

  const run = await head.register({ name: "first-run" });
  await row(page, run.id).waitFor();
  assert.equal(await page.getByText("No runs yet").count(), 0);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("a new run, its states and its metrics appear without a reload", async () => {
  const { page, problems } = await open();
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
  const { page, problems } = await open();
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
  assert.equal(await rows(page).count(), 1);

  await page.locator("input[type=search]").fill("no such run");
  await page.getByText("No run matches.").waitFor();
  await page.getByText("Show all runs").click();
  await row(page, done.id).waitFor();
  await live.end("ABORTED", "test");
  assert.deepEqual(problems, []);
  await page.close();
});

test("further pages come by scrolling, each run once, and only rows in sight are in the page", async () => {
  const all = await Promise.all(Array.from({ length: 330 }, (_, i) => head.register({ name: `many-${i}` })));
  const { page, problems } = await open();
  await page.goto(`${head.url}?q=many-`);
  await rows(page).first().waitFor();
  await page.mouse.move(700, 500);
  /** @type {Set<string | null>} */
  const seen = new Set();
  await until(async () => {
    const ids = await rows(page).evaluateAll((all) => all.map((r) => r.getAttribute("data-run")));
    assert.ok(ids.length < 120, `${ids.length} rows are in the page`);
    assert.equal(new Set(ids).size, ids.length);
    ids.forEach((id) => seen.add(id));
    await page.mouse.wheel(0, 600);
    return seen.size === all.length;
  }, "all rows");
  await page.getByText("330 runs", { exact: true }).waitFor();

  const frame = page.locator(".table-frame");
  // Who walks up comes to no row that lies below the head.
  await frame.evaluate((e) => e.scrollTo(0, 3010));
  await page.waitForFunction(() => document.elementFromPoint(300, 500)?.closest("tr[data-run]"));
  const isInSight = () =>
    page.evaluate(() => {
      const row = /** @type {Element} */ (document.activeElement?.closest("tr[data-run]"));
      const { top, bottom } = row.getBoundingClientRect();
      const seen = [top + 1, bottom - 1].map((y) => document.elementFromPoint(300, y)?.closest("tr"));
      return seen.every((r) => r === row);
    });
  for (let i = 0; i < 30; i += 1) {
    await page.keyboard.press("k");
    assert.ok(await isInSight(), `after ${i + 1} steps up`);
  }
  // Whoever opens a run and comes back finds the list where it was.
  await frame.evaluate((e) => e.scrollTo(0, 5000));
  const shown = rows(page).filter({ hasText: "many-" });
  await until(async () => (await shown.count()) > 0, "rows there");
  const before = await frame.evaluate((e) => e.scrollTop);
  await page.locator(".c-name a").nth(30).click();
  await page.waitForURL("**/runs/*");
  await page.goBack();
  await rows(page).first().waitFor();
  assert.equal(await frame.evaluate((e) => e.scrollTop), before);

  // A new run at the top does not move what is looked at.
  const top = () =>
    page.evaluate(() => {
      const frame = /** @type {Element} */ (document.querySelector(".table-frame")).getBoundingClientRect();
      const row = document.elementFromPoint(frame.left + 400, frame.top + 100)?.closest("tr");
      return `${row?.getAttribute("data-run")} ${row?.getBoundingClientRect().top}`;
    });
  const looked = await top();
  const fresh = await head.register({ name: "many-fresh" });
  await page.getByText("331 runs", { exact: true }).waitFor({ state: "attached" });
  assert.equal(await top(), looked);
  await Promise.all([...all, fresh].map((r) => r.end("FINISHED")));
  assert.deepEqual(problems, []);
  await page.close();
});

test("coming back to the list it counts what happened meanwhile, and an emptied search is no empty head", async () => {
  const [a, b] = [await head.register({ name: "back-a" }), await head.register({ name: "back-b" })];
  const { page, problems } = await open();
  await page.goto(`${head.url}?q=back-`);
  const started = page.locator(".chip", { hasText: "Started" }).locator(".num");
  await until(async () => (await started.innerText()) === "2", "two that go on");
  await row(page, a.id).locator("[data-row-link]").click();
  await page.getByRole("heading", { name: "back-a" }).waitFor();
  await b.end("FINISHED");
  await a.end("FINISHED");
  await page.locator(".run-title").getByText("Finished").waitFor();
  await page.goBack();
  await row(page, b.id).getByText("Finished").waitFor();
  await until(async () => (await started.innerText()) === "0", "none that goes on");

  await page.goto(`${head.url}?q=nothing-is-called-this`);
  await page.getByText("No run matches.").waitFor();
  const hold = held(page, "**/api/train/runs?*");
  await page.locator("input[type=search]").fill("");
  await hold.asked;
  assert.equal(await page.getByText("No runs yet").count(), 0);
  await page.getByText("No run matches.").waitFor();
  hold.release();
  await row(page, b.id).waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("the list is sorted by its heads, and in another order rows stay until somebody asks", async () => {
  const [b, c, a] = [
    await head.register({ name: "sort-b" }),
    await head.register({ name: "sort-c" }),
    await head.register({ name: "sort-a" }),
  ];
  for (const [run, loss] of /** @type {const} */ ([
    [a, 0.5],
    [b, 0.1],
    [c, "NaN"],
  ])) {
    await run.run(1);
    await run.report([{ step: 1, metrics: { "train/loss": loss } }]);
    await run.end("FINISHED");
  }
  const { page, problems } = await open({ width: 1800 });
  await page.goto(`${head.url}?q=sort-`);
  const order = async () => (await page.locator(".c-name a").allInnerTexts()).join();
  const sorted = (/** @type {string} */ text) => until(async () => (await order()) === text, text);
  await sorted("sort-a,sort-c,sort-b");
  await page.getByRole("button", { name: "Name" }).click();
  await sorted("sort-a,sort-b,sort-c");
  await page.getByRole("button", { name: "Name" }).click();
  await sorted("sort-c,sort-b,sort-a");
  assert.match(page.url(), /sort=-name/);
  await page.reload();
  await sorted("sort-c,sort-b,sort-a");
  await page.getByRole("button", { name: "train/loss" }).click();
  await sorted("sort-a,sort-b,sort-c");
  assert.equal(
    await page.getByRole("columnheader", { name: "train/loss" }).getAttribute("aria-sort"),
    "descending",
  );
  // A run that changes otherwise stays where it is, and one that is not in the list is no change of it.
  await head.register({ name: "elsewhere" });
  await a.annotate({ name: "sort-first" });
  await row(page, a.id).getByText("sort-first").waitFor();
  assert.equal(await page.getByRole("button", { name: /sort again/ }).count(), 0);
  const late = await head.register({ name: "sort-z" });
  await page.getByRole("button", { name: "1 change: sort again" }).click();
  await sorted("sort-first,sort-b,sort-z,sort-c");
  await late.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("columns are chosen by the reader: metrics with small curves, settings, and what is in the URL", async () => {
  const run = await head.register({ name: "columns-1", settings: { optimizer: { lr: 0.0003 } } });
  await run.run(1);
  await run.report([1, 2, 3].map((step) => ({ step, metrics: { "val/f1": step / 10 } })));
  const { page, problems } = await open();
  await page.goto(`${head.url}?q=columns-`);
  await row(page, run.id).waitFor();
  await page.getByRole("button", { name: "Columns", exact: true }).click();
  for (const name of ["Experiment", "Attempts", "Tags"])
    await page.getByLabel(name, { exact: true }).uncheck();
  await page.getByLabel("Search columns").fill("lr");
  await page.getByText("Attempts", { exact: true }).waitFor({ state: "detached" });
  await page.getByLabel("optimizer/lr").check();
  await page.getByLabel("Search columns").fill("f1");
  await page.getByLabel("optimizer/lr").waitFor({ state: "detached" });
  const f1 = page.getByLabel("val/f1");
  if (!(await f1.isChecked())) await f1.check();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  const look = async () => {
    await row(page, run.id).getByText("0.0003").waitFor();
    await row(page, run.id).getByText("0.3000").waitFor();
    await row(page, run.id).locator(".spark path").waitFor({ state: "attached" });
    assert.equal(await page.getByRole("columnheader", { name: "Experiment" }).count(), 0);
  };
  await look();
  await page.reload();
  await look();
  const names = async () => (await page.locator(".c-name a").allInnerTexts()).join();
  const other = await head.register({ name: "columns-2", settings: { optimizer: { lr: 0.01 } } });
  await until(async () => (await names()) === "columns-2,columns-1", "both, the newer one first");
  await page.getByRole("button", { name: "optimizer/lr" }).click();
  await until(async () => (await names()) === "columns-1,columns-2", "the smaller setting first");
  assert.equal(new URL(page.url()).searchParams.get("sort"), "setting:optimizer/lr");
  await other.end("FINISHED");
  await run.report([{ step: 4, metrics: { "val/f1": 0.9 } }]);
  await row(page, run.id).getByText("0.9000").waitFor();
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("a list that is open for long keeps nothing of what it showed before", async () => {
  const runs = await Promise.all(Array.from({ length: 25 }, (_, i) => head.register({ name: `heap-${i}` })));
  for (const run of runs) await run.run(1);
  const { page } = await open();
  await page.goto(`${head.url}?q=heap-`);
  await page.getByText("Live", { exact: true }).waitFor();
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  let step = 0;
  /** Rounds in which each run moves on by itself, so that others stay as they are; then the heap, MB. */
  const after = async (/** @type {number} */ rounds) => {
    for (let i = 0; i < rounds; i += 1) {
      step += 1;
      for (const run of runs) {
        await run.report([{ step, metrics: { loss: 1 / step } }]);
        await page.evaluate(() => new Promise(requestAnimationFrame));
      }
    }
    await row(page, runs[24].id).locator(".c-step").getByText(integer(step)).waitFor();
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    return (metrics.find((m) => m.name === "JSHeapUsedSize")?.value ?? NaN) / 1e6;
  };
  const before = await after(3);
  const grown = (await after(9)) - before;
  assert.ok(grown < 1, `the heap has grown by ${grown.toFixed(1)} MB`);
  for (const run of runs) await run.end("FINISHED");
  await page.close();
});

test("small curves that cannot be had are asked for again rarely, and that are refused not at all", async () => {
  const { page } = await open();
  await page.clock.install();
  let status = 503;
  let asked = 0;
  await page.route("**/metrics/query", (route) => {
    asked += 1;
    return route.fulfill({ status, contentType: "application/problem+json", body: "{}" });
  });
  await page.goto(`${head.url}?q=no-curve`);
  await page.getByText("Live", { exact: true }).waitFor();
  // Each is asked for by itself, and the answers are late one after the other.
  const runs = [];
  for (const n of [1, 2, 3]) {
    const run = await head.register({ name: `no-curve-${n}` });
    await run.run(1);
    await run.report([{ step: 1, metrics: { loss: 1 } }]);
    await row(page, run.id).waitFor();
    const before = asked;
    await until(async () => {
      await page.clock.runFor(500);
      return asked > before;
    }, "a question for its curve");
    runs.push(run);
  }
  const minute = async () => {
    const before = asked;
    for (let i = 0; i < 60; i += 1) await page.clock.runFor(1_000);
    return asked - before;
  };
  const again = await minute();
  assert.ok(again > 0 && again <= 15, `${again} questions in a minute`);
  status = 403;
  await minute();
  assert.equal(await minute(), 0);
  for (const run of runs) await run.end("FINISHED");
  await page.close();
});

test("one run that was deleted for good does not take the small curves of the others", async () => {
  /** @type {import("./head.mjs").Controller[]} */
  const runs = [];
  for (const n of [1, 2, 3]) {
    const run = await head.register({ name: `purged-${n}` });
    await run.run(1);
    await run.report([0, 1, 2].map((step) => ({ step, metrics: { loss: step } })));
    await run.end("FINISHED");
    runs.push(run);
  }
  const { page } = await open();
  // As if the second were gone since the list was asked for.
  await page.route("**/metrics/query", (route) =>
    route.request().postDataJSON().runs.includes(runs[1].id)
      ? route.fulfill({ status: 404, contentType: "application/problem+json", body: "{}" })
      : route.continue(),
  );
  await page.goto(`${head.url}?q=purged-`);
  const curve = (/** @type {number} */ i) => row(page, runs[i].id).locator(".spark path");
  await curve(0).first().waitFor();
  await curve(2).first().waitFor();
  assert.equal(await curve(1).count(), 0);
  await page.close();
});

test("runs are selected by box, stretch and key, stay so as others come, and can be compared", async () => {
  const all = [];
  for (let i = 0; i < 4; i += 1) all.push(await head.register({ name: `pick-${i}` }));
  const { page, problems } = await open();
  await page.goto(`${head.url}?q=pick-`);
  await row(page, all[0].id).waitFor();
  await page.getByLabel("Select pick-3").click();
  await page.getByLabel("Select pick-1").click({ modifiers: ["Shift"] });
  await page.getByText("3 runs selected").waitFor();
  const late = await head.register({ name: "pick-late" });
  await row(page, late.id).waitFor();
  await page.reload();
  await page.getByText("3 runs selected").waitFor();
  const chosen = await page
    .locator("tr.is-selected")
    .evaluateAll((rows) => rows.map((r) => r.getAttribute("data-run")));
  assert.deepEqual(chosen.sort(), [all[1].id, all[2].id, all[3].id].sort());
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByText("4 runs selected").waitFor();
  await page.keyboard.press("x");
  await page.getByText("3 runs selected").waitFor();
  await page.keyboard.press("c");
  await page.waitForURL(/compare\?runs=/);
  await page.goBack();
  await page.getByText("3 runs selected").waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("3 runs selected").waitFor({ state: "hidden" });
  await Promise.all([...all, late].map((r) => r.end("FINISHED")));
  assert.deepEqual(problems, []);
  await page.close();
});

test("many runs are stopped, deleted, brought back by undo and out of the trash", async () => {
  const live = await head.register({ name: "bulk-live" });
  await live.run(1);
  const ended = [await head.register({ name: "bulk-a" }), await head.register({ name: "bulk-b" })];
  for (const run of ended) await run.end("FINISHED");
  const { page, problems } = await open();
  await page.goto(`${head.url}?q=bulk-`);
  await row(page, live.id).waitFor();
  await page.getByLabel("Select all").click();
  await page.getByRole("button", { name: "Delete 2" }).click();
  await page.getByText("2 runs deleted").waitFor();
  await row(page, ended[0].id).waitFor({ state: "detached" });
  await row(page, live.id).waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await row(page, ended[0].id).waitFor();
  await row(page, ended[1].id).waitFor();

  await page.getByRole("button", { name: "Stop 1…" }).click();
  await page.getByRole("button", { name: "Stop 1 run" }).click();
  await row(page, live.id).getByText("stopping").waitFor();

  // What is selected is known though the list no longer shows it.
  await page.locator(".chip", { hasText: "Finished" }).click();
  await row(page, live.id).waitFor({ state: "detached" });
  await page.reload();
  await page.getByRole("button", { name: "Stop 1…" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Delete" }).count(), 0);
  await page.locator(".chip", { hasText: "All" }).click();
  await row(page, live.id).waitFor();

  // What the head refuses of many is counted, with its words.
  await page.getByLabel("Select bulk-a").click();
  await page.getByLabel("Select bulk-b").click();
  await page.route(`**/api/train/runs/${ended[1].id}`, (route) =>
    route.fulfill({
      status: 409,
      contentType: "application/problem+json",
      body: JSON.stringify({ title: "Conflict", status: 409, detail: "It is being looked at." }),
    }),
  );
  await page.getByRole("button", { name: "Delete 2" }).click();
  await page.getByText("1 run deleted").waitFor();
  await page.getByText("1 of 2 runs was not deleted: It is being looked at.").waitFor();
  await page.getByRole("button", { name: "Undo" }).last().click();
  await row(page, ended[0].id).waitFor();
  await page.unroute(`**/api/train/runs/${ended[1].id}`);
  await page.getByLabel("Select bulk-live").click();
  await page.getByLabel("Select bulk-b").click();
  await page.getByLabel("Select bulk-a").click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await row(page, ended[0].id).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Trash" }).click();
  await row(page, ended[0].id).waitFor();
  await page.reload();
  await page.getByLabel("Select bulk-a").click();
  await page.getByRole("button", { name: "Restore" }).click();
  await row(page, ended[0].id).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Trash" }).click();
  await row(page, ended[0].id).waitFor();
  // Refused, as it must be.
  assert.deepEqual(
    problems.filter((p) => !p.includes("status of 409")),
    [],
  );
  await live.end("ABORTED");
  await page.close();
});

test("a click on an experiment or a tag narrows the list, and can be taken back", async () => {
  const one = await head.register({ name: "narrow-1", experiment: "speech", tags: { team: "audio" } });
  const two = await head.register({ name: "narrow-2", experiment: "vision", tags: { team: "audio" } });
  const { page, problems } = await open({ width: 2000 });
  await page.goto(`${head.url}?q=narrow-`);
  await row(page, two.id).waitFor();
  await row(page, one.id).getByTitle("Only speech").click();
  await row(page, two.id).waitFor({ state: "detached" });
  assert.match(page.url(), /experiment=speech/);
  await page.getByRole("button", { name: "Without the filter speech" }).click();
  await row(page, two.id).waitFor();
  await row(page, one.id).getByTitle("Only team:audio").click();
  await page.waitForURL(/tag=team%3Aaudio/);
  await row(page, two.id).waitFor();
  await one.end("FINISHED");
  await two.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("rows are walked and opened from the keyboard, and ? lists the keys", async () => {
  const [b, a] = [await head.register({ name: "keys-b" }), await head.register({ name: "keys-a" })];
  const { page, problems } = await open();
  await page.goto(`${head.url}?q=keys-`);
  await row(page, a.id).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog").getByText("Next and previous row").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  for (const key of ["j", "j", "k", "j"]) await page.keyboard.press(key);
  const focused = await page.evaluate(() => document.activeElement?.closest("tr")?.getAttribute("data-run"));
  const second = await rows(page).nth(1).getAttribute("data-run");
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
  const { page, problems } = await open({ width: 1800 });
  await page.goto(head.url);
  await row(page, run.id).waitFor();
  const shown = name.replace("\u202e", "‹202E›");
  assert.equal(await row(page, run.id).locator("[data-row-link]").textContent(), shown);
  assert.equal(await page.locator("td img, td script, td i, td b:not(.mark b)").count(), 0);
  await row(page, run.id).locator("[data-row-link]").click();
  await page.getByRole("heading", { level: 1 }).waitFor();
  assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), shown);
  assert.equal(await page.locator("main img, main script").count(), 0);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("stop asks once and calls the API", async () => {
  const run = await head.register({ name: "to-stop" });
  await run.run(1);
  const { page, problems } = await open();
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
