// What a file of browser tests begins with: a head and a browser, there before its tests and gone after them.
/** @import { Browser } from "playwright-core" */

import { after, before } from "node:test";
import { launch, open as openPage } from "./browser.mjs";
import { Head } from "./head.mjs";

/**
 * @param {object} [play]
 * @param {string[]} [play.options] further ones for `serve`
 * @param {() => Promise<unknown>} [play.begin] what is to be there too before the tests, once the head is. Not a
 *   `before` of its own: Node does not wait for one with the next
 * @param {() => Promise<unknown>} [play.end]
 */
export function stage({ options, begin, end } = {}) {
  const head = new Head(options);
  /** @type {Browser} */
  let browser;
  before(async () => {
    await head.start();
    browser = await launch();
    await begin?.();
  });
  after(async () => {
    await end?.();
    await browser?.close();
    await head.close();
  });
  return {
    head,
    browser: () => browser,
    /** @param {Parameters<typeof openPage>[1]} [how] */
    open: (how) => openPage(browser, how),
  };
}
