// Every page on a seeded head: by link and by reload, in both themes, on a phone and at 200 %, without a
// word on the console, without anything that sticks out, and without a serious finding of axe. What the
// pages do is tested elsewhere. Screenshots are kept in ../output.
import assert from "node:assert/strict";
import { test } from "node:test";
import { findings } from "./axe.mjs";
import { screenshot, themes } from "./browser.mjs";
import { Head } from "./head.mjs";
import { overflow, places, there } from "./pages.mjs";
import { seed } from "./seed.mjs";
import { stage } from "./stage.mjs";

/** @import { Page } from "playwright-core" */
/** @import { Place } from "./pages.mjs" */

const { head, open } = stage({
  options: ["--quiet"],
  begin: async () => {
    await bare.start();
    const seeded = places(await seed(head.url, head.dir)).map((place) => ({ ...place, url: head.url }));
    all = [{ name: "empty", path: "", shows: "No runs yet", url: bare.url }, ...seeded];
  },
  end: () => bare.close(),
});
const bare = new Head(["--quiet"]);
/** @type {(Place & { url: string })[]} */
let all;

/** 200 % of a window of 1440 px is one of 720 px with twice the pixels, which is also what a phone has. */
const PHONE = { width: 390, height: 844, scale: 2 };
const ZOOMED = { width: 720, height: 450 };

/** Of axe; what has none of them is not asked. Only colours differ in the dark. @type {Record<string, string[] | undefined>} */
const RULES = {
  light: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
  dark: ["color-contrast"],
};

/**
 * Visits all pages; what is wrong with them must be nothing.
 * @param {Parameters<typeof open>[0]} how a page is opened
 * @param {(page: Page, look: (way: string) => Promise<void>) => Promise<void>} visit calls `look`, which
 *   waits until the page is there, keeps a screenshot, and asks axe
 */
async function visitAll(how, visit) {
  const { page, problems } = await open(how);
  /** @type {string[]} */
  const wrong = [];
  for (const place of all) {
    let seen = "";
    const note = (/** @type {string} */ what) => wrong.push(`${place.name}, ${seen}: ${what}`);
    problems.length = 0;
    try {
      await page.goto(`${place.url}${place.path}`);
      await visit(page, async (way) => {
        seen = way;
        await there(page, place);
        await screenshot(page, `${place.name}-${way}`);
        const wider = await overflow(page);
        if (wider > 0) note(`${wider} px stick out`);
        const rules = RULES[way];
        if (rules && place.axe !== false) (await findings(page, rules)).forEach(note);
      });
    } catch (e) {
      note(String(e));
    }
    // The browser says itself that there is no such page or run.
    problems.filter((p) => !place.missing || !/status of 404/.test(p)).forEach((p) => note(`console: ${p}`));
  }
  assert.deepEqual(wrong, []);
  await page.context().close();
}

test("every page opens by its address, and by reload, in both themes", () =>
  visitAll(themes.light, async (page, look) => {
    await look("light");
    await page.emulateMedia({ colorScheme: "dark" });
    await page.reload();
    await look("dark");
    await page.emulateMedia({ colorScheme: "light" });
  }));

test("every page holds on a phone, and in a window of any other width", () =>
  visitAll(PHONE, async (page, look) => {
    await look("phone");
    await page.setViewportSize(ZOOMED);
    await look("zoomed");
    await page.setViewportSize(PHONE);
  }));
