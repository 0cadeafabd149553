// The charts of the Run page in a real browser against the real head.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { screenshot, until } from "./browser.mjs";
import { stage } from "./stage.mjs";

/** @import { Page } from "playwright-core" */

const { head, open } = stage({ begin: fill });
/** @type {import("./head.mjs").Controller} */
let run;
/** More points than a chart asks for, with one spike. @type {import("./head.mjs").Controller} */
let long;

const POINTS = 20_000;
const SPIKE = 12_345;

async function fill() {
  run = await head.register({ name: "digits-1" });
  await run.run(2);
  const steps = Array.from({ length: 60 }, (_, step) => ({
    step,
    metrics: {
      "train/loss": step === 20 ? "NaN" : 2 / (step + 1),
      "train/grad": step === 3 ? "Infinity" : 1,
      "train/signed": step % 10 === 0 ? 0 : step === 5 ? -1 : step,
      "train/below": -1 - step,
      lr: 0.1,
    },
  }));
  await run.report(steps);
  long = await head.register({ name: "long" });
  await long.run(1);
  const step = Array.from({ length: POINTS }, (_, i) => i);
  await long.columns({
    step,
    time_ms: step.map((s) => long.registered_ms + s * 100),
    metrics: {
      loss: step.map((s) => (s === SPIKE ? 77 : 1 + Math.sin(s / 300))),
      other: step.map((s) => s),
    },
  });
}

const chart = (/** @type {Page} */ page, /** @type {string} */ key) =>
  page.locator(`.chart-slot[data-metric="${key}"]`);
const value = (/** @type {Page} */ page, /** @type {string} */ key) =>
  chart(page, key).locator("[data-value]");

/** What of the series is asked for, from now on. @param {Page} page */
function watched(page) {
  /** @type {URL[]} */
  const asked = [];
  page.on("request", (r) => r.url().includes("/metrics/series") && asked.push(new URL(r.url())));
  return asked;
}

/** Chooses a part of a chart with the mouse, as fractions of its width. @param {Page} page @param {string} key @param {number} from @param {number} to */
async function drag(page, key, from, to) {
  const over = chart(page, key).locator(".u-over");
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  assert.ok(box);
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * (from + to) * 0.5, y, { steps: 3 });
  await page.mouse.move(box.x + box.width * to, y, { steps: 3 });
  await page.mouse.up();
}

/** Points at a chart, at a fraction of its width. @param {Page} page @param {string} key @param {number} at */
async function point(page, key, at) {
  const over = chart(page, key).locator(".u-over");
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width * at, box.y + 30);
}

/** @param {Page} page */
const params = (page) => Object.fromEntries(new URL(page.url()).searchParams);

test("a chart extends live from its last step only, and a NaN breaks neither it nor others", async () => {
  const { page, problems } = await open();
  const asked = watched(page);
  await page.goto(`${head.url}runs/${run.id}?tab=metrics`);
  await value(page, "train/loss").getByText("0.03333").waitFor();
  await value(page, "train/grad").getByText("1", { exact: true }).waitFor();
  const titles = await page.locator(".chart-group h2").allInnerTexts();
  assert.deepEqual(
    titles.map((t) => t.replace(/\s+/g, " ")),
    ["Without a group 1", "train 4"],
  );
  await chart(page, "train/loss").getByText("1 not finite").waitFor();
  await chart(page, "lr").locator("canvas").waitFor();
  assert.equal(asked.length, 1, "all charts in sight are one question");
  asked.length = 0;

  await run.report([{ step: 60, metrics: { "train/loss": 0.125, "train/grad": 2, lr: 0.1, "val/new": 5 } }]);
  await value(page, "train/loss").getByText("0.1250").waitFor();
  await chart(page, "val/new").scrollIntoViewIfNeeded();
  await value(page, "val/new").getByText("5").waitFor();
  const loss = asked.filter((u) => u.searchParams.getAll("key").includes("train/loss"));
  assert.ok(
    loss.length > 0 && loss.every((u) => ["59", "60"].includes(u.searchParams.get("from_step") ?? "")),
  );

  await run.report([{ step: 61, metrics: { "train/loss": "NaN", "train/grad": 3, lr: 0.1 } }]);
  await value(page, "train/loss").getByText("NaN").waitFor();
  await value(page, "train/grad").getByText("3").waitFor();
  await chart(page, "train/loss").getByText("2 not finite").waitFor();
  assert.match(
    (await chart(page, "train/grad").getByRole("group").getAttribute("aria-label")) ?? "",
    /last 3 at step 61, from 1 to 3/,
  );
  assert.deepEqual(problems, []);
  await page.close();
});

test("what a tick costs does not grow with the history, and nothing moves", async () => {
  const { page, problems } = await open();
  let bytes = 0;
  page.on("response", async (r) => {
    if (r.url().includes("/metrics/series")) bytes += (await r.body().catch(() => Buffer.alloc(0))).length;
  });
  await page.goto(`${head.url}runs/${long.id}?tab=metrics`);
  await value(page, "other")
    .getByText(/19.999/)
    .waitFor();
  const whole = bytes;
  bytes = 0;
  const places = () =>
    page
      .locator(".chart-slot, .chart-head h3, .chart-plot")
      .evaluateAll((all) => all.map((e) => JSON.stringify(e.getBoundingClientRect())));
  const before = await places();
  for (let i = 0; i < 5; i += 1) {
    await long.columns({ step: [POINTS + i], metrics: { loss: [1], other: [POINTS + i] } });
    await value(page, "other")
      .getByText(new RegExp(`20.00${i}`))
      .waitFor();
  }
  assert.ok(bytes > 0 && bytes < whole / 20, `${bytes} of ${whole} bytes`);
  assert.deepEqual(await places(), before);
  assert.deepEqual(problems, []);
  await page.close();
});

test("search, smoothing, axis and scale of the charts are in the URL", async () => {
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=metrics`);
  await page.locator("input[type=search]").fill("grad");
  await until(async () => (await page.locator(".chart-slot").count()) === 1, "only the charts that match");
  await page.locator("input[type=range]").fill("0.6");
  await page.getByRole("group", { name: "X-axis" }).getByText("Time").click();
  await page.getByRole("group", { name: "Scale" }).getByText("Log").click();
  await until(async () => params(page).smooth === "0.6", "the smoothing in the URL");
  await page.reload();
  await chart(page, "train/grad").locator("canvas").waitFor();
  assert.deepEqual(params(page), { tab: "metrics", q: "grad", smooth: "0.6", x: "time", scale: "log" });
  assert.equal(await page.locator(".chart-slot").count(), 1);
  assert.equal(await page.locator("input[type=range]").inputValue(), "0.6");
  await chart(page, "train/grad").locator(".reading-smooth").waitFor();
  await page.locator("[data-found]", { hasText: "1 of" }).waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("a log scale says what it cannot show, and zeros and negatives break nothing", async () => {
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=metrics&scale=log&q=train`);
  await chart(page, "train/signed").getByText("7 points are not above 0").waitFor();
  await chart(page, "train/below").getByText("60 points are not above 0").waitFor();
  await value(page, "train/loss").waitFor();
  assert.equal(await chart(page, "train/loss").locator("[data-hidden]").count(), 0);
  assert.ok(await drawnPixels(page, "train/signed"));
  assert.deepEqual(problems, []);
  await page.close();
});

/** How many pixels of a chart's canvas are not transparent. @param {Page} page @param {string} key */
const drawnPixels = (page, key) =>
  chart(page, key)
    .locator("canvas")
    .evaluate((canvas) => {
      const c = /** @type {HTMLCanvasElement} */ (canvas);
      const copy = new OffscreenCanvas(c.width, c.height).getContext("2d");
      copy?.drawImage(c, 0, 0);
      const data = copy?.getImageData(0, 0, c.width, c.height).data ?? new Uint8ClampedArray();
      return data.filter((v, i) => i % 4 === 3 && v > 0).length;
    });

test("a drag zooms all charts, fetches finer points, survives a reload, and new points leave it alone", async () => {
  const { page, problems } = await open();
  const asked = watched(page);
  await page.goto(`${head.url}runs/${long.id}?tab=metrics`);
  const points = chart(page, "loss").locator("[data-points]");
  await points.getByText(/of 20.0\d\d points/).waitFor();
  await chart(page, "loss").locator(".chart").focus();
  assert.match(
    (await chart(page, "loss").getByRole("group").getAttribute("aria-label")) ?? "",
    /to 77/,
    "no spike is lost",
  );
  asked.length = 0;

  await drag(page, "loss", 0.6, 0.63);
  await until(async () => params(page).zoom, "the zoom in the URL");
  const [from, to] = params(page).zoom.split("..").map(Number);
  assert.ok(Math.abs(from - 12_000) < 300 && Math.abs(to - 12_600) < 300, params(page).zoom);
  await until(async () => (await points.count()) === 0, "every point of that part");
  const finer = asked.filter((u) => u.searchParams.get("from_step") === String(from));
  assert.ok(finer.length >= 1 && finer.every((u) => u.searchParams.get("to_step") === String(to)));
  assert.ok(
    finer.every((u) => u.searchParams.getAll("key").length === 2),
    "both charts",
  );

  const zoomed = params(page).zoom;
  await page.reload();
  await value(page, "loss").waitFor();
  await until(async () => (await points.count()) === 0, "every point of that part again");
  assert.equal(params(page).zoom, zoomed);
  await screenshot(page, "metrics-zoom");

  const before = await drawnPixels(page, "loss");
  asked.length = 0;
  await long.columns({ step: [POINTS + 100], metrics: { loss: [500], other: [1] } });
  await until(async () => asked.length > 0, "the new point is asked for");
  await page.waitForTimeout(200);
  assert.equal(params(page).zoom, zoomed);
  assert.equal(await drawnPixels(page, "loss"), before);
  assert.ok(
    asked.every((u) => !u.searchParams.has("to_step")),
    "the part is not asked for again",
  );

  asked.length = 0;
  await page.getByRole("button", { name: "Reset zoom" }).click();
  await points.getByText(/of 20.\d\d\d points/).waitFor();
  assert.equal(params(page).zoom, undefined);
  await page.waitForTimeout(200);
  assert.deepEqual(asked.map(String), [], "the overview was still there");

  await drag(page, "loss", 0.2, 0.5);
  await until(async () => params(page).zoom, "another zoom");
  await chart(page, "loss").locator(".u-over").dblclick();
  await until(async () => !params(page).zoom, "a double click goes back");
  assert.deepEqual(problems, []);
  await page.close();
});

test("a focused chart is zoomed and moved by keys; by relative and clock time as well", async () => {
  const { page, problems } = await open();
  for (const x of ["step", "time", "wall"]) {
    await page.goto(`${head.url}runs/${long.id}?tab=metrics&x=${x}`);
    await value(page, "loss").waitFor();
    await chart(page, "loss").locator(".chart").focus();
    await page.keyboard.press("+");
    await page.keyboard.press("+");
    const first = await until(async () => params(page).zoom, "a zoom");
    await page.keyboard.press("ArrowRight");
    await until(async () => params(page).zoom !== first, "another part");
    await page.keyboard.press("-");
    await page.keyboard.press("-");
    await page.keyboard.press("-");
    await until(async () => !params(page).zoom, `all of it by ${x}, not ${first}`);
  }
  assert.deepEqual(problems, []);
  await page.close();
});

test("the crosshair is shared, and what it reads moves nothing", async () => {
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=metrics&q=train`);
  await value(page, "train/loss").waitFor();
  const over = chart(page, "train/grad").locator(".u-over");
  const box = await over.boundingBox();
  assert.ok(box);
  const place = () => chart(page, "train/loss").locator(".chart-plot").boundingBox();
  const before = await place();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await chart(page, "train/loss")
    .getByText(/step (29|30|31)/)
    .waitFor();
  await chart(page, "train/grad")
    .getByText(/step (29|30|31)/)
    .waitFor();
  assert.deepEqual(await place(), before);
  assert.deepEqual(problems, []);
  await page.close();
});

test("a restart shows the new attempt; attempts can be branches, each with its name", async () => {
  const again = await head.register({ name: "restarted" });
  await again.run(1);
  await again.report([0, 1, 2, 3, 4].map((step) => ({ step, metrics: { loss: 10 + step } })));
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${again.id}?tab=metrics`);
  await value(page, "loss").getByText("14").waitFor();
  assert.equal(await page.getByRole("group", { name: "Attempts" }).count(), 0);
  await again.endAttempt("ERRORED", "worker_failed", "rank 0 exited with code 1");
  await again.state("RESTARTING");
  await again.state("SCHEDULING");
  await again.beginAttempt(1);
  await again.state("RUNNING");
  await again.report([2, 3].map((step) => ({ step, metrics: { loss: 20 + step } })));
  // The newest attempt has not come as far: its last value counts, the older one's is still drawn.
  await value(page, "loss").getByText("23").waitFor();
  await point(page, "loss", 0.5);
  await chart(page, "loss")
    .locator("[data-restart]", { hasText: "attempt 1 · rank 0 exited with code 1" })
    .waitFor();
  await screenshot(page, "metrics-restart");

  await page.getByRole("group", { name: "Attempts" }).getByText("Each attempt").click();
  await until(async () => params(page).attempts === "all", "branches in the URL");
  assert.deepEqual(await page.locator(".chart-legend li").allInnerTexts(), ["attempt 0", "attempt 1"]);
  await chart(page, "loss").locator(".chart-foot").waitFor();
  await point(page, "loss", 0.75);
  const readings = chart(page, "loss").locator(".chart-readings div");
  await until(async () => (await readings.count()) === 2, "a reading of each attempt");
  assert.deepEqual(
    (await readings.allInnerTexts()).map((t) => t.replace(/\s+/g, " ").trim()),
    ["attempt 1 step 3 23", "attempt 0 step 3 13"],
  );
  await again.report([{ step: 4, metrics: { loss: 30 } }]);
  await point(page, "loss", 0.99);
  await readings.first().getByText("30").waitFor();
  await again.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("one chart fills the window, arrows lead on, Escape closes", async () => {
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=metrics`);
  await chart(page, "train/grad").locator(".chart").hover();
  await chart(page, "train/grad").getByRole("button", { name: "Full screen: train/grad" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("heading", { name: "train/grad" }).waitFor();
  assert.equal(params(page).full, "train/grad");
  const box = await dialog.locator(".chart-plot").boundingBox();
  assert.ok(box && box.width > 1300 && box.height > 600, JSON.stringify(box));
  await page.keyboard.press("ArrowRight");
  await dialog.getByRole("heading", { name: "train/loss" }).waitFor();
  await page.reload();
  await dialog.getByRole("heading", { name: "train/loss" }).waitFor();
  await dialog.locator("[data-value]").waitFor();
  await screenshot(page, "metrics-full");
  await page.keyboard.press("Escape");
  await until(async () => (await dialog.count()) === 0, "the window is free again");
  assert.equal(params(page).full, undefined);
  assert.deepEqual(problems, []);
  await page.close();
});

test("a chart is taken along as CSV, as an image and as a link", async () => {
  const { page, problems } = await open();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(`${head.url}runs/${long.id}?tab=metrics&zoom=100..109`);
  await value(page, "loss").waitFor();
  await chart(page, "loss").locator(".chart").hover();
  await chart(page, "loss").getByRole("button", { name: "More of loss" }).click();
  const [csv] = await Promise.all([
    page.waitForEvent("download"),
    page.getByText("CSV of this part").click(),
  ]);
  const rows = (await readFile(await csv.path(), "utf8")).trim().split(/\r?\n/);
  assert.equal(csv.suggestedFilename(), "long-loss.csv");
  assert.deepEqual(
    [rows.length, rows[0], rows[1].split(",")[3]],
    [11, "key,attempt,rank,step,time_ms,value", "100"],
  );
  const [png] = await Promise.all([page.waitForEvent("download"), page.getByText("PNG image").click()]);
  const bytes = await readFile(await png.path());
  assert.equal(png.suggestedFilename(), "long-loss.png");
  assert.deepEqual(
    [...bytes.subarray(1, 4)],
    [..."PNG"].map((c) => c.charCodeAt(0)),
  );
  assert.ok(bytes.length > 3000);
  await page.getByRole("button", { name: "Copy the link to loss" }).click();
  const link = new URL(await page.evaluate(() => navigator.clipboard.readText()));
  assert.deepEqual([link.searchParams.get("full"), link.searchParams.get("zoom")], ["loss", "100..109"]);
  assert.deepEqual(problems, []);
  await page.close();
});

test("12,000 metrics: the first chart is there at once, and few places are made", async () => {
  const wide = await head.register({ name: "wide" });
  await wide.run(1);
  for (let part = 0; part < 12; part += 1) {
    const metrics = Object.fromEntries(
      Array.from({ length: 1000 }, (_, i) => [
        `layer${String(part).padStart(2, "0")}/weight.${i}`,
        [i, i + 1],
      ]),
    );
    await wide.columns({ step: [part * 2, part * 2 + 1], metrics });
  }
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=metrics`);
  await value(page, "lr").waitFor();
  const listed = page.waitForResponse((r) => r.url().endsWith("/metrics"));
  await page.goto(`${head.url}runs/${wide.id}?tab=metrics`);
  await (await listed).finished();
  const began = Date.now();
  await page.locator("[data-value]").first().waitFor();
  const ms = Date.now() - began;
  const [slots, nodes, plots] = await Promise.all([
    page.locator(".chart-slot").count(),
    page.evaluate(() => document.querySelectorAll("*").length),
    page.locator(".uplot").count(),
  ]);
  console.log(
    `12,000 metrics: first chart ${ms} ms after their names, ${plots} charts, ${slots} places, ${nodes} nodes`,
  );
  assert.ok(ms < 3000, `${ms} ms`);
  assert.ok(slots <= 72 && nodes < 3000, `${slots} places, ${nodes} nodes`);
  assert.deepEqual(
    await page.locator(".chart-group h2 button").evaluateAll((all) => all.map((b) => b.ariaExpanded)),
    ["true", ...Array(11).fill("false")],
  );

  // The place of the group is as high as its charts, and the end of it is there when one goes there.
  await page.getByRole("button", { name: /^layer01/ }).scrollIntoViewIfNeeded();
  await page.locator('.chart-slot[data-metric="layer00/weight.999"] canvas').waitFor();
  await page.getByRole("button", { name: /^layer11/ }).click();
  await page.getByRole("button", { name: /^layer00/ }).click();
  assert.deepEqual(new URL(page.url()).searchParams.getAll("closed"), ["+layer11", "-layer00"]);
  await page.locator('.chart-slot[data-metric="layer11/weight.0"] canvas').waitFor();

  const search = await page.evaluate(async () => {
    const box = /** @type {HTMLInputElement} */ (document.querySelector("input[type=search]"));
    box.value = "layer05 777";
    let longest = 0;
    new PerformanceObserver((list) =>
      list.getEntries().forEach((e) => (longest = Math.max(longest, e.duration))),
    ).observe({ type: "longtask", buffered: false });
    box.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => setTimeout(done, 600));
    return longest;
  });
  await page.locator('.chart-slot[data-metric="layer05/weight.777"] canvas').waitFor();
  assert.equal(await page.locator(".chart-slot").count(), 1);
  console.log(`12,000 metrics: the longest task of a search took ${search} ms`);
  assert.deepEqual(problems, []);
  await page.close();
});

test("runs are compared in one question, and only what lives is extended", async () => {
  /** @type {import("./head.mjs").Controller[]} */
  const runs = [];
  for (let i = 0; i < 3; i += 1) {
    const one = await head.register({ name: `sweep-${i}` });
    await one.run(1);
    await one.report([0, 1, 2].map((step) => ({ step, metrics: { loss: step + i, [`only/${i}`]: 1 } })));
    if (i > 0) await one.end("FINISHED");
    runs.push(one);
  }
  const { page, problems } = await open();
  /** @type {string[]} */
  const asked = [];
  page.on(
    "request",
    (r) => /metrics\/(query|series)/.test(r.url()) && asked.push(`${r.url()} ${r.postData() ?? ""}`),
  );
  await page.goto(`${head.url}compare?runs=${runs.map((r) => r.id).join(",")}`);
  await chart(page, "loss").locator("canvas").waitFor();
  await until(async () => asked.length > 0, "the series are asked for");
  assert.equal(asked.length, 1, asked.join("\n"));
  assert.deepEqual(await page.locator(".chart-legend li").allInnerTexts(), ["sweep-0", "sweep-1", "sweep-2"]);
  await point(page, "loss", 0.5);
  const readings = chart(page, "loss").locator(".chart-readings div");
  await until(async () => (await readings.count()) === 3, "a reading of each run");
  assert.deepEqual(await readings.locator("bdi").allInnerTexts(), ["sweep-2", "sweep-1", "sweep-0"]);
  asked.length = 0;
  await runs[0].report([{ step: 3, metrics: { loss: 9 } }]);
  await until(async () => asked.length > 0, "it is extended");
  await point(page, "loss", 0.99);
  await until(
    async () =>
      /9$/.test(
        await readings
          .first()
          .innerText()
          .catch(() => ""),
      ),
    "its new point",
  );
  assert.ok(
    asked.every((url) => url.includes(runs[0].id) && url.includes("from_step=2")),
    asked.join("\n"),
  );
  for (const x of ["time", "wall"]) {
    await page.goto(`${head.url}compare?runs=${runs.map((r) => r.id).join(",")}&x=${x}&scale=log&smooth=0.5`);
    await chart(page, "loss").locator("canvas").waitFor();
  }
  assert.deepEqual(problems, []);
  await page.close();
});
