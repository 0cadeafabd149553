// One cold load of the Runs page in a new context, and one search: what measure.mjs says of them is what is
// noted here.
/** @import { Browser, Page } from "playwright-core" */

export const VIEWPORT = { width: 1440, height: 900 };

/** Runs in the page before anything else, and notes when it became what. */
function watch() {
  const noted = Object.assign(window, {
    bench: { rows: 0, interactive: 0, longTasks: /** @type {number[]} */ ([]) },
  }).bench;
  new PerformanceObserver((list) =>
    noted.longTasks.push(...list.getEntries().map((e) => e.duration)),
  ).observe({
    type: "longtask",
    buffered: true,
  });
  const look = () => {
    if (!document.querySelector("[data-run]") || !document.querySelector("input[type=search]")) return;
    changes.disconnect();
    noted.rows = performance.now();
    // After the frame with the rows, in a task of its own.
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => (noted.interactive = performance.now());
      port2.postMessage(null);
    });
  };
  const changes = new MutationObserver(look);
  changes.observe(document, { childList: true, subtree: true });
}

/** @param {Browser} browser @param {string} url */
export async function cold(browser, url) {
  const context = await browser.newContext({ viewport: VIEWPORT });
  const page = await context.newPage();
  await page.addInitScript(watch);
  await page.goto(url, { waitUntil: "commit" });
  await page.waitForFunction(() => /** @type {any} */ (window).bench?.interactive > 0);
  return { context, page };
}

/** @param {Page} page */
export async function load(page) {
  await page.waitForTimeout(1_000);
  return page.evaluate(() => {
    const { rows, interactive, longTasks } = /** @type {any} */ (window).bench;
    const paint = (/** @type {string} */ name) => performance.getEntriesByName(name)[0]?.startTime ?? NaN;
    const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (
      performance.getEntriesByType("navigation")
    );
    return {
      answered: navigation.responseStart,
      paint: paint("first-paint"),
      contentful: paint("first-contentful-paint"),
      rows,
      interactive,
      longTasks: longTasks.length,
      longest: Math.max(0, ...longTasks),
    };
  });
}

/** From a key to a list that is another one, ms. @param {Page} page */
export async function search(page) {
  const took = page.evaluate(
    () =>
      new Promise((done) => {
        const ids = () =>
          [...document.querySelectorAll("[data-run]")].map((r) => r.getAttribute("data-run")).join();
        const before = ids();
        addEventListener(
          "keydown",
          ({ timeStamp }) => {
            const look = () =>
              ids() === before ? requestAnimationFrame(look) : done(performance.now() - timeStamp);
            look();
          },
          { once: true },
        );
      }),
  );
  await page.locator("input[type=search]").focus();
  // Half of the seeded runs have it in their names, and the newest has not.
  await page.keyboard.press("5");
  const ms = /** @type {number} */ (await Promise.race([took, page.waitForTimeout(10_000).then(() => NaN)]));
  return ms;
}
