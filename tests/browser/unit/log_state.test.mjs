// How logs are read and searched, against a head that is played here: what fails is tried again, and no
// line comes twice or is lost.
import assert from "node:assert/strict";
import { register } from "node:module";
import { after, before, test } from "node:test";
import { each, inTurn } from "../../../static/js/state/in_turn.js";
import { until } from "../e2e/browser.mjs";

// Packages, which the page finds by its import map, are found beside this test.
const beside = `export const resolve = (name, context, next) =>
  next(name, /^[./]|^\\w+:/.test(name) ? context : { ...context, parentURL: ${JSON.stringify(import.meta.url)} });`;
register(`data:text/javascript,${encodeURIComponent(beside)}`);
const { openAllLogs } = await import("../../../static/js/state/log_all.js");
const { openSearch } = await import("../../../static/js/state/log_search.js");

const real = { fetch: globalThis.fetch, document: globalThis.document };
/** The answer to a question, or a failure. @type {(url: string, range: [number, number] | null) => any} */
let answer = () => ({});

before(() => {
  const listeners = { addEventListener: () => {}, removeEventListener: () => {}, hidden: false };
  Object.assign(globalThis, { document: listeners });
  globalThis.fetch = /** @type {any} */ (
    async (/** @type {string} */ url, /** @type {any} */ init) => {
      const range = /bytes=(\d+)-(\d+)/.exec(init?.headers?.range ?? "");
      const said = await answer(url, range && [Number(range[1]), Number(range[2]) + 1]);
      if (typeof said !== "string") return Response.json(said);
      return new Response(said, { headers: { "x-log-offset": String(range?.[1]) } });
    }
  );
});
after(() => void Object.assign(globalThis, real));

test("so many at once, the others in their order, and a failure ends none of them", async () => {
  const turn = inTurn(2);
  let [now, most] = [0, 0];
  /** @type {number[]} */
  const done = [];
  const work = (/** @type {number} */ n) =>
    turn(async () => {
      most = Math.max(most, (now += 1));
      await new Promise((r) => setTimeout(r, 2));
      now -= 1;
      done.push(n);
    });
  await Promise.all([0, 1, 2, 3, 4].map(work));
  assert.deepEqual([most, done], [2, [0, 1, 2, 3, 4]]);
  /** @type {number[]} */
  const tried = [];
  const failing = each([0, 1, 2, 3], 2, async (n) => {
    tried.push(n);
    if (n < 2) throw new Error(`${n} failed`);
  });
  await assert.rejects(failing, /0 failed/);
  assert.deepEqual(tried, [0, 1, 2, 3]);
});

test("a search that goes on searches the unfinished line again, and has each match once", async () => {
  /** @type {string[]} */
  const asked = [];
  const head = (
    /** @type {number[]} */ at,
    /** @type {number} */ resume_from,
    /** @type {number} */ size,
  ) => ({
    matches: at.map((offset) => ({ offset, text: "x" })),
    next_from: null,
    scanned_to: size,
    resume_from,
    size_bytes: size,
  });
  answer = (url) => {
    asked.push(String(new URL(url, "http://x/").searchParams.get("from")));
    return asked.length === 1 ? head([10, 90], 90, 100) : head([90, 120], 130, 130);
  };
  const search = openSearch("log", { q: "x" });
  await until(async () => search.found.value.done, "the first answer");
  search.grown(130);
  await until(async () => search.found.value.size === 130, "the second answer");
  assert.deepEqual(asked, ["0", "90"]);
  assert.deepEqual(search.found.value.matches, [10, 90, 120]);
  search.close();
});

/** @param {ReturnType<typeof openAllLogs>} log */
const texts = (log) =>
  Array.from({ length: log.count() }, (_, i) =>
    log
      .row(i)
      .spans.map((s) => s.text)
      .join(""),
  );

test("a rank that cannot be read for once costs no line, and doubles none", async () => {
  const logs = ["a1\n", "b1\n", "c1\n"];
  let failing = -1;
  let failures = 0;
  answer = (url, range) => {
    const rank = Number(/\/(\d+)$/.exec(url)?.[1] ?? -1);
    if (range === null) {
      return { logs: logs.map((text, rank) => ({ attempt: 0, rank, size_bytes: text.length })) };
    }
    if (rank === failing) {
      failing = -1;
      failures += 1;
      throw new TypeError("no network");
    }
    return logs[rank].slice(...range);
  };
  failing = 1;
  const log = openAllLogs("run", 0, [0, 1, 2], { growing: () => true, late: () => false, day_ms: 0 });
  await until(async () => log.count() > 0, "the first lines");
  assert.deepEqual(texts(log), ["a1", "b1", "c1"]);
  failing = 2;
  logs.forEach((text, rank) => (logs[rank] = `${text}more of ${rank}\n`));
  await until(async () => log.count() >= 6, "what followed");
  assert.equal(failures, 2);
  assert.deepEqual(texts(log).sort(), ["a1", "b1", "c1", "more of 0", "more of 1", "more of 2"]);
  log.close();
});
