// The pages of the dashboard on a seeded head: their addresses, and what tells that one is there. A new
// page or tab is one line. The one place for this, so that tests need not know how a page is built.
/** @import { Page } from "playwright-core" */
/** @import { Seeded } from "./seed.mjs" */

import { until } from "./browser.mjs";

const QUIET_MS = 120;
const MOST_MS = 400;
const WAIT_MS = 10_000;

/**
 * `shows`: a text that the page has when it is there. `missing`: the head answers 404, and the browser says so.
 * @typedef {{ name: string, path: string, shows: string | RegExp, missing?: true, axe?: false }} Place
 */

/** @param {Seeded} ids @returns {Place[]} */
export function places(ids) {
  const run = (/** @type {string} */ id, query = "") => `runs/${id}${query && `?${query}`}`;
  const some = [0, 3, 6, 9].map((i) => ids.sweep[i]).join(",");
  return [
    { name: "runs", path: "", shows: "gpt2-medium-live" },
    { name: "runs-none", path: "?q=no-such-run", shows: /No run/ },
    { name: "runs-errored", path: "?status=ERRORED&q=lr0.0", shows: "Errored" },
    { name: "runs-selected", path: `?experiment=lr-batch-depth&selected=${some}`, shows: "sweep-lr" },
    { name: "trash", path: "?trashed=1", shows: /lr0/ },
    { name: "overview-restarted", path: run(ids.restarted), shows: "gpt2-small-restarted" },
    { name: "overview-failed", path: run(ids.failed), shows: "CUDA out of memory" },
    { name: "overview-hostile", path: run(ids.hostile), shows: "<img src=x onerror=alert(1)>" },
    { name: "overview-long", path: run(ids.longName), shows: "WWWWWWWWWW" },
    { name: "overview-stalled", path: run(ids.stalled), shows: "ecapa-stalled" },
    { name: "metrics", path: run(ids.running, "tab=metrics"), shows: "grad_norm" },
    {
      name: "metrics-restarted",
      path: run(ids.restarted, "tab=metrics&smooth=0.8&attempts=all"),
      shows: "grad_norm",
    },
    { name: "metrics-log", path: run(ids.running, "tab=metrics&scale=log&x=time"), shows: "grad_norm" },
    { name: "metrics-nan", path: run(ids.nan, "tab=metrics"), shows: "NaN" },
    { name: "metrics-12k", path: run(ids.keys12k, "tab=metrics"), shows: "layer_00" },
    { name: "metrics-hostile", path: run(ids.hostile, "tab=metrics"), shows: "onerror=alert(1)" },
    { name: "checkpoints", path: run(ids.restarted, "tab=checkpoints"), shows: "VALIDATED".toLowerCase() },
    { name: "workers", path: run(ids.straggler, "tab=workers"), shows: "gpu-node" },
    { name: "logs-5gb", path: run(ids.sparseLog, "tab=logs"), shows: "FloatingPointError" },
    { name: "logs-all", path: run(ids.failed, "tab=logs&rank=all&find=step"), shows: "step" },
    { name: "workers-long", path: run(ids.longName, "tab=workers"), shows: "WWWWWWWWWW" },
    {
      name: "checkpoints-long",
      path: run(ids.longName, "tab=checkpoints"),
      shows: "UUUUUUUUUU",
    },
    { name: "events-long", path: run(ids.longName, "tab=events"), shows: "WWWWWWWWWW" },
    { name: "logs-hostile", path: run(ids.hostile, "tab=logs"), shows: "FloatingPointError" },
    { name: "events", path: run(ids.restarted, "tab=events"), shows: "preempted" },
    { name: "compare", path: `compare?runs=${some}`, shows: "sweep-lr" },
    { name: "compare-settings", path: `compare?runs=${some}&tab=settings`, shows: "batch_size" },
    { name: "compare-sweep", path: `compare?runs=${ids.sweep.join(",")}&tab=sweep`, shows: "depth" },
    { name: "experiments", path: "experiments", shows: "lr-batch-depth" },
    { name: "nodes", path: "nodes", shows: "gpu-node-1" },
    { name: "missing", path: "no/such/page", shows: "There is no page here", missing: true },
    { name: "run-missing", path: run("no-such-run"), shows: "There is no such run", missing: true },
    { name: "docs", path: "docs/", shows: "API", axe: false },
  ];
}

/** Of pages that are looked at in several states only the first. @param {Place[]} all */
export function oneOfEach(all) {
  const kinds = new Set();
  const kind = (/** @type {Place} */ { name }) =>
    /^(compare|run-missing)/.test(name) ? name : name.split("-")[0];
  return all.filter((place) => !kinds.has(kind(place)) && kinds.add(kind(place)));
}

/** Waits until a page shows what it is to show, and loads nothing more. @param {Page} page @param {Place} place */
export async function there(page, { name, shows }) {
  const found = async () => {
    const text = await page.evaluate(() => document.querySelector("main, body")?.textContent ?? "");
    return typeof shows === "string" ? text.toLowerCase().includes(shows.toLowerCase()) : shows.test(text);
  };
  await until(found, `${name} to show ${shows}`, WAIT_MS);
  await settled(page);
}

/** Nothing is busy, and nothing has come or gone for a moment. @param {Page} page */
async function settled(page) {
  await until(() => page.evaluate(() => !document.querySelector("[aria-busy=true]")), "nothing to be busy");
  await page.evaluate(
    ([quiet, most]) =>
      new Promise((done) => {
        const end = () => {
          changes.disconnect();
          done(null);
        };
        let timer = setTimeout(end, quiet);
        const changes = new MutationObserver(() => {
          clearTimeout(timer);
          timer = setTimeout(end, quiet);
        });
        changes.observe(document.body, { childList: true, subtree: true });
        // What is live never comes to rest.
        setTimeout(end, most);
      }),
    [QUIET_MS, MOST_MS],
  );
}

/** How many pixels the document is wider than its window. @param {Page} page */
export function overflow(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
