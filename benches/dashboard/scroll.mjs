// One scroll of the Runs page by the wheel, seen by the browser's trace and by the page's own callbacks.
/** @import { Browser, Page } from "playwright-core" */

import { VIEWPORT } from "./load.mjs";
import { quantile } from "./report.mjs";

/** @param {Browser} browser @param {Page} page @param {number} speed px/s @param {number} ms */
export async function scroll(browser, page, speed, ms) {
  const session = await page.context().newCDPSession(page);
  await page.evaluate(() => {
    const noted = Object.assign(window, {
      frames: { gaps: /** @type {number[]} */ ([]), empty: 0, all: 0, on: true },
    }).frames;
    let last = performance.now();
    const frame = (/** @type {number} */ now) => {
      noted.gaps.push(now - last);
      last = now;
      noted.all += 1;
      // What stands at a point of the list, near its top and near its foot.
      const row = (/** @type {number} */ y) =>
        document.elementFromPoint(innerWidth / 2, y)?.closest("[data-run]");
      if (!row(innerHeight * 0.4) || !row(innerHeight * 0.9)) noted.empty += 1;
      if (noted.on) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  await browser.startTracing(page, {
    categories: [
      "devtools.timeline",
      "disabled-by-default-devtools.timeline.frame",
      "devtools.timeline.frame",
    ],
  });
  await session.send("Input.synthesizeScrollGesture", {
    x: VIEWPORT.width / 2,
    y: VIEWPORT.height / 2,
    yDistance: (-speed * ms) / 1_000,
    speed,
    gestureSourceType: "mouse",
  });
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const { gaps, empty, all } = await page.evaluate(() => {
    const { frames } = /** @type {any} */ (window);
    frames.on = false;
    return frames;
  });
  await session.detach();
  const times = (/** @type {string} */ name) =>
    traceEvents.filter((/** @type {any} */ e) => e.name === name).map((/** @type {any} */ e) => e.ts / 1_000);
  const drawn = times("DrawFrame").toSorted((/** @type {number} */ a, /** @type {number} */ b) => a - b);
  const between = drawn.slice(1).map((/** @type {number} */ t, /** @type {number} */ i) => t - drawn[i]);
  const seconds = (drawn[drawn.length - 1] - drawn[0]) / 1_000;
  return {
    fps: between.length / seconds,
    median: 1_000 / quantile(between, 0.5),
    p99: quantile(between, 0.99),
    dropped: times("DroppedFrame").length,
    callback99: quantile(gaps.slice(1), 0.99),
    empty: (100 * empty) / all,
  };
}
