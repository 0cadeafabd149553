// How quickly the Runs page of a large head is there, how it scrolls, and what it weighs. Prints tables in
// Markdown, for benches/README.md.
//
//   node benches/dashboard/measure.mjs http://127.0.0.1:8420 [--rounds 5] [--scroll-ms 3000]
//
// The head must run and have its runs (100,000: `cargo bench --bench head -- --only lists --runs 100000
// --data-dir DIR` makes such a store; serve a copy of it). The browser is Debian's, found as the browser
// tests find it, and playwright-core is theirs: `npm ci` in tests/browser first. Each load is a cold one: a
// new context, with an empty cache. Use a release build on an idle machine.
//
// - The peer: a page that does only what cannot be left out (peer.mjs), loaded after each load of the real one.
// - First paint and first contentful paint: the browser's own (Paint Timing).
// - Interactive: the first rows are in the page, the search box is there, and a frame with both has been
//   drawn, after which the main thread was free to take a key.
// - A search: from a key in the search box to a list that is another one (it waits a moment for more keys).
// - Long tasks: of the main thread, over 50 ms, until the page was interactive and 1 s longer.
// - Scrolling: a wheel gesture of 1,000 px/s to 6,000 px/s over the list. Frames are those of the browser's
//   trace: DrawFrame, what the screen got; DroppedFrame, what it did not get. Callbacks are those of
//   requestAnimationFrame, which the page's own code had; a gap is one in which less than a screenful of
//   rows stood in the window.
// - Weight: what the head sent until then, headers included, counted by a proxy (proxy.mjs).

import { launch } from "../../tests/browser/e2e/browser.mjs";
import { cold, load, search } from "./load.mjs";
import { peer } from "./peer.mjs";
import { CountingProxy } from "./proxy.mjs";
import { kB, options, quantile, spread, table } from "./report.mjs";
import { scroll } from "./scroll.mjs";

const LOAD = ["answered", "paint", "contentful", "rows", "interactive"];
const TASKS = ["longTasks", "longest"];
const SPEEDS = [1_000, 3_000, 6_000];
const asked = options({ rounds: 5, "scroll-ms": 3_000 });

/** @template {Record<string, number>} T @param {T[]} all @param {keyof T} name */
const of = (all, name) => all.map((one) => one[name]);

const browser = await launch();
try {
  const { total_size } = await (await fetch(`${asked.url}api/train/runs?page_size=1`)).json();
  /** @type {Record<string, number>[]} */
  const loads = [];
  const searches = [];
  /** @type {Record<string, number>[]} */
  const peers = [];
  const bare = await peer(asked.url);
  for (let i = 0; i < asked.rounds; i++) {
    const { context, page } = await cold(browser, asked.url);
    loads.push(await load(page));
    searches.push(await search(page));
    await context.close();
    const beside = await cold(browser, bare.url);
    peers.push(await load(beside.page));
    await beside.context.close();
  }
  bare.close();
  console.log(
    `\nThe Runs page with ${total_size} runs, ${asked.rounds} cold loads; ms, median (least–greatest):\n`,
  );
  table(
    [
      "",
      "head answers",
      "first paint",
      "first contentful paint",
      "first rows",
      "interactive",
      "a search",
      "long tasks",
      "longest",
    ],
    [
      [
        "the page",
        ...LOAD.map((n) => spread(of(loads, n))),
        spread(searches),
        ...TASKS.map((n) => spread(of(loads, n))),
      ],
      ["the peer", ...LOAD.map((n) => spread(of(peers, n))), "", ...TASKS.map((n) => spread(of(peers, n)))],
      [
        "ratio of each load",
        "",
        ...LOAD.slice(1).map((n) =>
          spread(
            of(loads, n).map((ms, i) => ms / of(peers, n)[i]),
            2,
          ),
        ),
        "",
        "",
        "",
      ],
    ],
  );

  const rows = [];
  for (const speed of SPEEDS) {
    const all = [];
    for (let i = 0; i < Math.min(3, asked.rounds); i++) {
      const { context, page } = await cold(browser, asked.url);
      await page.waitForTimeout(1_000);
      all.push(await scroll(browser, page, speed, asked["scroll-ms"]));
      await context.close();
    }
    const one = /** @type {any[]} */ (all);
    rows.push([
      speed,
      spread(of(one, "fps"), 1),
      spread(of(one, "median"), 1),
      spread(of(one, "p99"), 1),
      spread(of(one, "dropped")),
      spread(of(one, "callback99"), 1),
      spread(of(one, "empty"), 1),
    ]);
  }
  console.log(`Scrolling the list by the wheel for ${asked["scroll-ms"]} ms, from the browser's trace:\n`);
  table(
    [
      "px/s",
      "frames/s",
      "median frames/s",
      "p99 between frames, ms",
      "dropped frames",
      "p99 between callbacks, ms",
      "callbacks that saw a gap, %",
    ],
    rows,
  );

  /** @type {import("./proxy.mjs").Counts[]} */
  const weights = [];
  for (let i = 0; i < asked.rounds; i++) {
    const proxy = await new CountingProxy(asked.url).start();
    const { context, page } = await cold(browser, proxy.url);
    await page.waitForTimeout(1_000);
    weights.push(proxy.counts);
    await context.close();
    proxy.close();
  }
  const kinds = /** @type {(keyof typeof weights[0])[]} */ (Object.keys(weights[0]));
  const middle = (/** @type {(w: typeof weights[0]) => number} */ f) => quantile(weights.map(f), 0.5);
  /** @param {(kind: string) => boolean} counts requests and kB of some kinds */
  const total = (counts) => {
    const sum = (/** @type {typeof weights[0]} */ w, /** @type {"bytes" | "requests"} */ what) =>
      kinds.filter(counts).reduce((all, k) => all + w[k][what], 0);
    return [middle((w) => sum(w, "requests")), kB(middle((w) => sum(w, "bytes")))];
  };
  console.log("What a first visit weighs, as it was sent (compressed, with headers):\n");
  table(
    ["kind", "requests", "kB"],
    [
      ...kinds.map((k) => [k, middle((w) => w[k].requests), kB(middle((w) => w[k].bytes))]),
      ["all", ...total(() => true)],
      ["the page alone, without data", ...total((kind) => kind !== "API" && kind !== "stream")],
    ],
  );
} finally {
  await browser.close();
}
