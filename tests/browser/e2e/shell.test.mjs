// What is around the pages: themes, and the whole way from the list to a stopped run by keyboard alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { row, until } from "./browser.mjs";
import { stage } from "./stage.mjs";

const { head, open } = stage();

test("the reader chooses the theme, which stays and is there from the first paint", async () => {
  const { page, problems } = await open({ dark: true });
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await page.goto(head.url);
  await page.getByText("No runs yet").waitFor();
  const dark = await ground();
  await page.getByRole("button", { name: /^Colours: as the system has it/ }).click();
  await until(async () => (await ground()) !== dark, "the light ground");
  const light = await ground();
  await page.reload();
  await page.getByRole("button", { name: /^Colours: light/ }).waitFor();
  assert.equal(await ground(), light);
  await page.emulateMedia({ colorScheme: "light" });
  await page.getByRole("button", { name: /^Colours: light/ }).click();
  await until(async () => (await ground()) === dark, "dark, though the system is light");
  await page.getByRole("button", { name: /^Colours: dark/ }).click();
  await until(async () => (await ground()) === light, "as the system has it");
  assert.deepEqual(problems, []);
  await page.close();
});

test("everything can be done from the keyboard alone", async () => {
  const run = await head.register({ name: "by-keyboard", experiment: "keys" });
  await run.run(1);
  await run.report([1, 2, 3].map((step) => ({ step, metrics: { loss: 1 / step } })));
  const other = await head.register({ name: "by-mouse" });
  const { page, problems } = await open();
  const keys = page.keyboard;
  const focused = () =>
    page.evaluate(
      () => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent,
    );
  /** @param {string | RegExp} what @param {string} [key] */
  const tabTo = async (what, key = "Tab") => {
    for (let i = 0; i < 60; i += 1) {
      await keys.press(key);
      if ((await focused())?.match(what)) return;
    }
    assert.fail(`${what} is not reached by ${key}`);
  };
  await page.goto(head.url);
  await row(page, other.id).waitFor();

  // Search, leave the field, walk, select, compare, and back.
  await keys.press("/");
  await keys.type("by-");
  await page.waitForURL(/q=by-/);
  await keys.press("Escape");
  for (const key of ["j", "x", "j", "x"]) await keys.press(key);
  await page.getByText("2 runs selected").waitFor();
  await keys.press("c");
  await page.waitForURL(/compare\?runs=/);
  await page.goBack();
  await page.getByText("2 runs selected").waitFor();
  await keys.press("Escape");
  await page.getByText("2 runs selected").waitFor({ state: "hidden" });

  // Sort by a head, open the columns, close them.
  await tabTo(/^Name/);
  await keys.press("Enter");
  await page.waitForURL(/sort=name/);
  await tabTo(/^Columns$/, "Shift+Tab");
  await keys.press("Enter");
  await page.getByLabel("Search columns").waitFor();
  await keys.press("Escape");
  await page.getByLabel("Search columns").waitFor({ state: "hidden" });

  // Open a run, go to its metrics, stop it: asked first, with the answer that changes nothing at hand.
  await keys.press("j");
  await until(async () => (await focused())?.includes("by-"), "a row");
  if ((await focused()) !== "by-keyboard") await keys.press("j");
  await keys.press("Enter");
  await page.getByRole("heading", { name: "by-keyboard" }).waitFor();
  await tabTo(/^Metrics$/);
  await keys.press("Enter");
  await page.locator('[data-metric="loss"] [data-value]').first().waitFor();
  await tabTo(/^Stop by-keyboard$/, "Shift+Tab");
  await keys.press("Enter");
  await until(async () => (await focused()) === "Keep", "the focus on Keep");
  await keys.press("Escape");
  await until(async () => (await focused()) === "Stop by-keyboard", "the focus back where it was");
  await keys.press("Enter");
  await until(async () => (await focused()) === "Keep", "the focus on Keep");
  await keys.press("Shift+Tab");
  await keys.press("Enter");
  await page.locator(".run-title").getByText("stopping").waitFor();
  await run.end("ABORTED", "stopped by a user");
  await other.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});
