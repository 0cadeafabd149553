// The dashboard below a path, behind a proxy that takes the path off, as the head is told with --base-path.
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, before, test } from "node:test";
import { launch, open, row } from "./browser.mjs";
import { Head } from "./head.mjs";

const PREFIX = "/ml/trainhead/";
const head = new Head(["--base-path", PREFIX]);
/** @type {string[]} */
const astray = [];
const proxy = createServer((from, to) => {
  const path = from.url ?? "/";
  if (!path.startsWith(PREFIX)) {
    astray.push(path);
    to.writeHead(404).end();
    return;
  }
  const { method, headers } = from;
  const url = new URL(path.slice(PREFIX.length), head.url);
  const passed = request(url, { method, headers: { ...headers, host: url.host } }, (answer) => {
    to.writeHead(answer.statusCode ?? 502, answer.headers);
    to.flushHeaders();
    answer.pipe(to);
  });
  passed.on("error", () => to.destroy());
  to.on("close", () => passed.destroy());
  from.pipe(passed);
});
/** @type {import("playwright-core").Browser} */
let browser;

before(async () => {
  await head.start();
  await new Promise((done) => proxy.listen(0, "127.0.0.1", () => done(null)));
  browser = await launch();
});
after(async () => {
  await browser?.close();
  proxy.closeAllConnections();
  proxy.close();
  await head.close();
});

test("every page, the API and the stream stay below the path", async () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (proxy.address());
  const base = `http://127.0.0.1:${port}${PREFIX}`;
  const run = await head.register({ name: "below" });
  const { page, problems } = await open(browser);
  await page.goto(base);
  await page.getByText("Live", { exact: true }).waitFor();
  await row(page, run.id).locator("[data-row-link]").click();
  await page.waitForURL(`${base}runs/${run.id}`);
  await page.getByRole("heading", { name: "below" }).waitFor();
  await page.goto(`${base}runs/${run.id}?tab=metrics`);
  await page.getByText("No metric has been reported yet").waitFor();
  await run.run(1);
  await run.report([{ step: 1, metrics: { loss: 0.25 } }]);
  await page.locator('[data-metric="loss"] [data-value]').getByText("0.2500").waitFor();
  await page.getByRole("link", { name: "Runs" }).click();
  await page.waitForURL(base);
  await run.end("FINISHED");
  await row(page, run.id).getByText("Finished").waitFor();
  assert.deepEqual([astray, problems], [[], []]);
  await page.close();
});
