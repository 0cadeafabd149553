// What js/ahead.js asks for before the modules are there is what they then ask for.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ALL_RUNS } from "../../../static/js/model/view.js";
import { FIRST_PAGE, listRuns } from "../../../static/js/server/api.js";

test("the first page of the list is asked for under the same address", async () => {
  const text = readFileSync(new URL("../../../static/js/ahead.js", import.meta.url), "utf8");
  const ahead = /FIRST_PAGE = "([^"]+)"/.exec(text)?.[1];
  /** @type {string[]} */
  const asked = [];
  const before = globalThis.fetch;
  globalThis.fetch = async (url) => {
    asked.push(String(url));
    return new Response("{}");
  };
  try {
    await listRuns(ALL_RUNS, { page_size: FIRST_PAGE });
  } finally {
    globalThis.fetch = before;
  }
  assert.deepEqual(asked, [ahead]);
});
