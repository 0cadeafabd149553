// What axe finds on a page: only what is serious or worse, in words that say where.
/** @import { Page } from "playwright-core" */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const SOURCE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Findings, none if all is well. @param {Page} page @param {string[]} [rules] only these @returns {Promise<string[]>} */
export async function findings(page, rules) {
  // Through the debugger, so that the page's content security policy need not allow it.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(SOURCE);
  const { violations } = await page.evaluate(
    (runOnly) =>
      /** @type {any} */ (window).axe.run(document, { resultTypes: ["violations"], preload: false, runOnly }),
    rules,
  );
  return violations
    .filter((/** @type {any} */ v) => v.impact === "serious" || v.impact === "critical")
    .map((/** @type {any} */ v) => {
      const first = v.nodes[0];
      const why = [...first.any, ...first.all, ...first.none].map((c) => c.message).join("; ");
      return `${v.id} (${v.impact}, ${v.nodes.length} times): ${first.target.join(" ")}: ${why}`;
    });
}
