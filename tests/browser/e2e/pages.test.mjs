// Every page on a seeded head: by link and by reload, in both themes, on a phone and at 200 %, without a
// word on the console, without anything that sticks out, and without a serious finding of axe. What the
// pages do is tested elsewhere. Screenshots are kept in ../output.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { findings } from "./axe.mjs";
import { launch, open, screenshot, themes } from "./browser.mjs";
import { Head } from "./head.mjs";
import { overflow, places, there } from "./pages.mjs";
import { seed } from "./seed.mjs";

const head = new Head(["--quiet"]);
const bare = new Head(["--quiet"]);
/** @type {import("playwright-core").Browser} */
let browser;
/** @type {import("./pages.mjs").Place[]} */
let all;

before(async () => {
  await Promise.all([head.start(), bare.start()]);
  browser = await launch();
  all = places(await seed(head.url, head.dir));
});
after(async () => {
  await browser?.close();
  await Promise.all([head.close(), bare.close()]);
});

/** How pages are looked at. 200 % of a window of 1440 px is one of 720 px with twice the pixels. */
const WAYS = {
  light: { ...themes.light, reload: true, axe: true },
  dark: { ...themes.dark, reload: false, axe: true },
  phone: { width: 390, height: 844, reload: false, axe: false },
  zoomed: { width: 720, height: 450, scale: 2, reload: false, axe: false },
};

/**
 * Looks at one page; what is wrong with it, in words.
 * @param {import("playwright-core").Page} page @param {string[]} problems @param {string} url
 * @param {import("./pages.mjs").Place} place @param {keyof typeof WAYS} way
 */
async function look(page, problems, url, place, way) {
  problems.length = 0;
  await page.goto(`${url}${place.path}`);
  await there(page, place);
  if (WAYS[way].reload) {
    await page.reload();
    await there(page, place);
  }
  await screenshot(page, `${place.name}-${way}`);
  const wider = await overflow(page);
  const expected = (/** @type {string} */ p) => place.missing && /status of 404/.test(p);
  const wrong = problems.filter((p) => !expected(p)).map((p) => `console: ${p}`);
  if (wider > 0) wrong.push(`${wider} px stick out`);
  if (WAYS[way].axe && place.axe !== false) wrong.push(...(await findings(page)));
  return wrong.map((w) => `${place.name}: ${w}`);
}

for (const way of /** @type {(keyof typeof WAYS)[]} */ (Object.keys(WAYS))) {
  describe(`${way}:`, () => {
    test("an empty head", async () => {
      const { page, problems } = await open(browser, WAYS[way]);
      const place = { name: "empty", path: "", shows: "No runs yet" };
      assert.deepEqual(await look(page, problems, bare.url, place, way), []);
      await page.context().close();
    });

    test("every page of a head with runs", async () => {
      const { page, problems } = await open(browser, WAYS[way]);
      /** @type {string[]} */
      const wrong = [];
      for (const place of all) {
        const found = await look(page, problems, head.url, place, way).catch((e) => [
          `${place.name}: ${e.message}`,
        ]);
        wrong.push(...found);
      }
      assert.deepEqual(wrong, []);
      await page.context().close();
    });
  });
}
