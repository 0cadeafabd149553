// What open pages cost while runs report: bytes of the head's answers a minute beside those of the points
// that are new, the streams at the head, and how busy the page is. Prints tables in Markdown.
//
//   node benches/dashboard/live.mjs http://127.0.0.1:8420 [--runs 50] [--history 2000] [--seconds 120] [--only NAME]
//
// The head must run; give it a data directory of its own, for this registers live runs there, each with so
// many points already, and reports a point for each run and second. The pages: `runs`, `metrics` and
// `workers` (of one run), `compare` (ten runs), `hidden` (the Runs page in a tab that nobody looks at,
// counted from 15 s after it was hidden), `six` (six tabs of one browser: two each of runs, metrics and compare). One after the
// other, each in a browser context of its own behind a proxy that counts (proxy.mjs). Another --history must
// not change the bytes a minute: only those of the first load, which is not counted in them.
/** @import { Browser, BrowserContext, Page } from "playwright-core" */

import { launch } from "../../tests/browser/e2e/browser.mjs";
import { Api } from "../../tests/browser/e2e/controller.mjs";
import { strides, training } from "../../tests/browser/e2e/seed/curves.mjs";
import { CountingProxy } from "./proxy.mjs";
import { kB, options, table } from "./report.mjs";

const COMPARED = 10;
/** Of the eight curves of a training. */
const KEYS = ["train/loss", "train/accuracy", "optim/lr", "optim/grad_norm"];
const SETTLE_MS = 5_000;
const HIDDEN_SETTLE_MS = 15_000;
const asked = options({ runs: 50, history: 2_000, seconds: 120, only: "all" });
const head = new Api(asked.url);
const pause = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

/** @typedef {{ run: import("../../tests/browser/e2e/controller.mjs").Controller, curves: Record<string, number[]> }} Source */

/** @param {number} i @returns {Promise<Source>} */
async function source(i) {
  const run = await head.register({ name: `live-${i}`, experiment: "live" }, 3_600_000);
  await run.run(2);
  const step = strides(asked.history + 10_000, 1);
  const all = training(step, { total: step.length, lr: 0.003, batch: 64, seed: i });
  const curves = Object.fromEntries(KEYS.map((key) => [key, all[key]]));
  const metrics = Object.fromEntries(KEYS.map((key) => [key, all[key].slice(0, asked.history)]));
  const past = step.slice(0, asked.history);
  await run.columns({
    step: past,
    time_ms: past.map((s) => Date.now() - (asked.history - s) * 1_000),
    metrics,
  });
  return { run, curves };
}

/** Reports a point of each run, every second, until it is stopped. @param {Source[]} sources */
function feed(sources) {
  const fed = { points: 0, bytes: 0, late: 0 };
  let on = true;
  const one = async (/** @type {Source} */ { run, curves }, /** @type {number} */ offset) => {
    await pause(offset);
    for (let step = asked.history; on; step++) {
      const begun = Date.now();
      const metrics = Object.fromEntries(KEYS.map((key) => [key, curves[key][step]]));
      await run.report([{ step, metrics }]);
      fed.points += 1;
      fed.bytes += JSON.stringify({ step, time_ms: begun, metrics }).length;
      const left = begun + 1_000 - Date.now();
      if (left < 0) fed.late += 1;
      await pause(Math.max(0, left));
    }
  };
  const done = Promise.all(sources.map((s, i) => one(s, (i * 1_000) / sources.length)));
  return {
    fed,
    stop: () => {
      on = false;
      return done;
    },
  };
}

/** @param {Page} page @param {boolean} hidden */
const hide = (page, hidden) =>
  page.evaluate((/** @type {boolean} */ to) => {
    Object.defineProperty(document, "hidden", { value: to, configurable: true });
    Object.defineProperty(document, "visibilityState", {
      value: to ? "hidden" : "visible",
      configurable: true,
    });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);

/** Streams that the head has open, by its own figures. */
async function streamsAtHead() {
  const text = await (await fetch(`${asked.url}metrics`)).text();
  return Number(/^trainhead_streams (\S+)/m.exec(text)?.[1]);
}

/** Counts from here on: seconds that the main thread has worked, and its heap, MB. @param {Page} page */
async function working(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  return async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (/** @type {string} */ name) => metrics.find((m) => m.name === name)?.value ?? NaN;
    return { busy: of("TaskDuration"), heap: of("JSHeapUsedSize") / 1e6 };
  };
}

/** @param {Browser} browser @param {string} name @param {string[]} paths @param {ReturnType<typeof feed>["fed"]} fed */
async function watch(browser, name, paths, fed) {
  const proxy = await new CountingProxy(asked.url).start();
  /** @type {BrowserContext} */
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const pages = [];
  for (const path of paths) {
    const page = await context.newPage();
    await page.goto(`${proxy.url}${path}`);
    pages.push(page);
  }
  await pause(SETTLE_MS);
  const loading = proxy.bytes();
  if (name === "hidden") {
    await hide(pages[0], true);
    await pause(HIDDEN_SETTLE_MS);
  }
  const before = { ...fed };
  const work = await working(pages[0]);
  const workBefore = await work();
  proxy.reset();
  await pause(asked.seconds * 1_000);
  const [streams, workAfter] = [await streamsAtHead(), await work()];
  const minutes = asked.seconds / 60;
  const points = (fed.points - before.points) / minutes;
  const newBytes = (fed.bytes - before.bytes) / minutes;
  const bytes = proxy.bytes() / minutes;
  const requests = Object.values(proxy.counts).reduce((all, c) => all + c.requests, 0) / minutes;
  await context.close();
  proxy.close();
  return [
    name,
    kB(loading),
    Math.round(points),
    kB(newBytes),
    kB(proxy.bytes(["stream"]) / minutes),
    kB(proxy.bytes(["API"]) / minutes),
    kB(bytes),
    (bytes / newBytes).toFixed(2),
    requests.toFixed(0),
    streams,
    ((100 * (workAfter.busy - workBefore.busy)) / asked.seconds).toFixed(1),
    `${workBefore.heap.toFixed(1)} → ${workAfter.heap.toFixed(1)}`,
  ];
}

const sources = await Promise.all(Array.from({ length: asked.runs }, (_, i) => source(i)));
const ids = sources.map(({ run }) => run.id);
const metrics = `runs/${ids[0]}?tab=metrics`;
const workers = `runs/${ids[0]}?tab=workers`;
const compare = `compare?runs=${ids.slice(0, COMPARED).join(",")}`;
const scenes = {
  runs: [""],
  metrics: [metrics],
  workers: [workers],
  compare: [compare],
  hidden: [""],
  six: ["", metrics, compare, "", metrics, compare],
};
const { fed, stop } = feed(sources);
const browser = await launch();
try {
  const rows = [];
  for (const [name, paths] of Object.entries(scenes)) {
    if (asked.only !== "all" && asked.only !== name) continue;
    rows.push(await watch(browser, name, paths, fed));
    console.error(`${name}: done`);
  }
  console.log(
    `\n${asked.runs} live runs of ${asked.history} points, each reporting ${KEYS.length} values a second; ${asked.seconds} s each:\n`,
  );
  table(
    [
      "page",
      "kB to load",
      "points/min",
      "kB of them/min",
      "kB by the stream/min",
      "kB by requests/min",
      "kB/min",
      "kB per kB of new points",
      "requests/min",
      "streams at the head",
      "main thread busy, %",
      "heap, MB",
    ],
    rows,
  );
  if (fed.late > 0) console.log(`${fed.late} of ${fed.points} reports took longer than their second.\n`);
} finally {
  await stop();
  await browser.close();
  for (const { run } of sources) await run.end("FINISHED");
}
