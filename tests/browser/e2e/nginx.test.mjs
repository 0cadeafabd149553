// The dashboard behind Debian's nginx below a path and under another name: every page by link and by
// reload, what is live, a log, and a write. Nothing may be asked for outside of the path.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { test } from "node:test";
import { row, until } from "./browser.mjs";
import { Nginx } from "./nginx.mjs";
import { oneOfEach, places, there } from "./pages.mjs";
import { seed } from "./seed.mjs";
import { stage } from "./stage.mjs";

const PREFIX = "/ml/th/";
/** Browsers take every name that ends so for this machine, and the head does not. */
const NAME = "ml.localhost";
const { head, open } = stage({
  options: ["--quiet", "--base-path", PREFIX, "--allow-host", NAME],
  begin: async () => {
    await nginx.start(PREFIX, head.url, NAME);
    ids = await seed(head.url, head.dir);
  },
  end: () => nginx.close(),
});
const nginx = new Nginx();
/** @type {import("./seed.mjs").Seeded} */
let ids;

/** @param {string[]} problems */
function allWell(problems) {
  assert.deepEqual([nginx.astray(), problems], [[], []]);
}

test("every page opens by its address and by reload", async () => {
  const { page, problems } = await open();
  /** @type {string[]} */
  const wrong = [];
  for (const place of oneOfEach(places(ids))) {
    problems.length = 0;
    try {
      await page.goto(`${nginx.url}${place.path}`);
      await there(page, place);
      await page.reload();
      await there(page, place);
    } catch (error) {
      wrong.push(`${place.name}: ${error}`);
    }
    if (!place.missing) wrong.push(...problems.map((p) => `${place.name}: ${p}`));
  }
  assert.deepEqual(wrong, []);
  allWell([]);
  await page.context().close();
});

test("links lead from page to page below the path", async () => {
  const { page, problems } = await open();
  await page.goto(`${nginx.url}?q=gpt2-small-restarted`);
  await row(page, ids.restarted).locator("[data-row-link]").click();
  await page.waitForURL(`${nginx.url}runs/${ids.restarted}`);
  for (const [tab, place] of /** @type {const} */ ([
    ["Metrics", "metrics-restarted"],
    ["Checkpoints", "checkpoints"],
    ["Logs", "logs-hostile"],
    ["Events", "events"],
  ])) {
    await page.locator(".tabs").getByText(tab).click();
    await page.waitForURL(`${nginx.url}runs/${ids.restarted}?tab=${tab.toLowerCase()}`);
    await there(page, /** @type {import("./pages.mjs").Place} */ (places(ids).find((p) => p.name === place)));
  }
  const bar = page.getByRole("navigation", { name: "Pages" });
  for (const name of ["Experiments", "Nodes"]) {
    await bar.getByRole("link", { name }).click();
    await page.waitForURL(`${nginx.url}${name.toLowerCase()}`);
    await page.getByRole("heading", { name, level: 1 }).waitFor({ state: "attached" });
  }
  await bar.getByRole("link", { name: "Runs" }).click();
  await page.waitForURL(nginx.url);
  await bar.getByRole("link", { name: "API" }).click();
  await page.waitForURL(`${nginx.url}docs/`);
  await page.goBack();
  await row(page, ids.running).waitFor();
  allWell(problems);
  await page.context().close();
});

test("a run and its points appear by themselves, through one stream that is not held back", async () => {
  const { page, problems } = await open();
  await page.goto(nginx.url);
  await page.getByText("Live", { exact: true }).waitFor();
  const run = await head.register({ name: "behind-nginx" });
  const told = Date.now();
  await row(page, run.id).waitFor();
  await run.run(1);
  await row(page, run.id).getByText("running").waitFor();
  await run.report([{ step: 4321, metrics: { loss: 0.25 } }]);
  await row(page, run.id).getByText("4\u202f321").waitFor();
  assert.ok(Date.now() - told < 5_000, "it took long: the stream is buffered");
  await page.goto(`${nginx.url}runs/${run.id}?tab=metrics`);
  const value = page.locator('[data-metric="loss"] [data-value]');
  await value.getByText("0.2500").waitFor();
  await run.report([{ step: 4322, metrics: { loss: 0.125 } }]);
  await value.getByText("0.1250").waitFor();
  await run.end("FINISHED");
  allWell(problems);
  await page.context().close();
});

test("a whole log is downloaded, and 5 GB are read by range", async () => {
  const path = `api/train/runs/${ids.failed}/logs/0/0`;
  const { page, problems } = await open();
  await page.goto(nginx.url);
  const got = await page.evaluate(async (url) => (await fetch(url)).text(), path);
  assert.equal(got, readFileSync(`${head.dir}/runs/${ids.failed}/logs/0/rank_0.log`, "utf8"));
  const huge = `runs/${ids.sparseLog}/logs/0`;
  const size = statSync(`${head.dir}/${huge}/rank_0.log`).size;
  const range = await page.evaluate(
    async ([url, from]) => {
      const answer = await fetch(url, { headers: { range: `bytes=${from}-` } });
      return [answer.status, answer.headers.get("content-range"), (await answer.text()).length];
    },
    /** @type {const} */ ([`api/train/${huge}/0`, size - 100]),
  );
  assert.deepEqual(range, [206, `bytes ${size - 100}-${size - 1}/${size}`, 100]);
  allWell(problems);
  await page.context().close();
});

test("a page under the proxy's name may write, and any other may not", async () => {
  const run = await head.register({ name: "to-stop-behind-nginx" });
  await run.run(1);
  const { page, problems } = await open();
  await page.goto(`${nginx.url}?q=to-stop-behind`);
  const [request] = await Promise.all([
    page.waitForRequest((r) => r.method() === "POST" && r.url().endsWith("/stop")),
    (async () => {
      await row(page, run.id)
        .getByRole("button", { name: /^Stop / })
        .click();
      await page.getByRole("button", { name: "Stop run" }).click();
    })(),
  ]);
  const answer = await request.response();
  assert.equal(answer?.status(), 202);
  assert.equal((await request.allHeaders()).origin, new URL(nginx.url).origin);
  await until(
    async () => (await head.call("GET", `api/train/runs/${run.id}`)).stop_requested_at_ms,
    "the run to know that it is to stop",
  );
  allWell(problems);
  await page.context().close();

  const foreign = await fetch(`${head.url}api/train/runs/${run.id}/stop`, {
    method: "POST",
    headers: { origin: "http://elsewhere.localhost", "content-type": "application/json" },
    body: "{}",
  });
  assert.equal(foreign.status, 403);
  await run.end("ABORTED", "test");
});

test("nginx found nothing wrong", () => {
  // A page that is left breaks its streams; that is all.
  const lines = nginx
    .errors()
    .filter((l) => !/upstream prematurely closed|client prematurely closed/.test(l));
  assert.deepEqual(lines, []);
  assert.ok(nginx.passed().some((l) => l.startsWith(`GET ${PREFIX}api/train/events`)));
});
