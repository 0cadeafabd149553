// The browser for the tests: Debian's Chromium, pages that note every console error and every
// violation of the content security policy, and waiting for conditions with a deadline.
/** @import { Browser, Page } from "playwright-core" */

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const OUTPUT = fileURLToPath(new URL("../output/", import.meta.url));
export const WAIT_MS = 20_000;

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/** Options of `open`. */
export const themes = { light: { dark: false }, dark: { dark: true } };

/**
 * `scale`: device pixels of a CSS pixel.
 * @param {Browser} browser
 * @param {{ dark?: boolean, width?: number, height?: number, scale?: number }} [options]
 */
export async function open(browser, { dark = false, width = 1440, height = 900, scale = 1 } = {}) {
  const page = await browser.newPage({
    viewport: { width, height },
    deviceScaleFactor: scale,
    colorScheme: dark ? "dark" : "light",
    reducedMotion: "reduce",
  });
  page.setDefaultTimeout(WAIT_MS);
  /** @type {string[]} */
  const problems = [];
  page.on("pageerror", (e) => problems.push(`${e.name}: ${e.message}`));
  page.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning") problems.push(m.text());
  });
  page.on("dialog", (d) => {
    const isLeaving = d.type() === "beforeunload";
    problems.push(`dialog: ${isLeaving ? d.type() : d.message()}`);
    void (isLeaving ? d.accept() : d.dismiss());
  });
  return { page, problems };
}

/** Waits until `look` gives a truthy value. @template T @param {() => Promise<T>} look @param {string} what @param {number} [ms] */
export async function until(look, what, ms = WAIT_MS) {
  const deadline = Date.now() + ms;
  for (;;) {
    const value = await look();
    if (value) return value;
    if (Date.now() > deadline) assert.fail(`waited ${ms} ms for: ${what}`);
    await new Promise((r) => setTimeout(r, 25));
  }
}

/** Answers to what is asked there wait until they are let go. @param {Page} page @param {string} path */
export function held(page, path) {
  const hold = { asked: Promise.resolve(), release: () => {} };
  const released = new Promise((done) => (hold.release = () => done(undefined)));
  hold.asked = new Promise((heard) => {
    void page.route(path, async (route) => {
      heard();
      await released;
      await route.continue();
    });
  });
  return hold;
}

/** The row of a run, by its id. @param {Page} page @param {string} id */
export const row = (page, id) => page.locator(`tr[data-run="${id}"]`);

/** Kept as test output, for people to look at. @param {Page} page @param {string} name */
export async function screenshot(page, name) {
  mkdirSync(OUTPUT, { recursive: true });
  await page.screenshot({ path: `${OUTPUT}${name}.png` });
}
