// The log of a real worker in a real browser: shown as a terminal would, live, and never as markup.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, screenshot, until } from "./browser.mjs";
import { Head } from "./head.mjs";

const head = new Head();
const dir = mkdtempSync(join(tmpdir(), "trainhead-log-"));
/** @type {import("playwright-core").Browser} */
let browser;

before(async () => {
  await head.start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await head.close();
  rmSync(dir, { recursive: true, force: true });
});

test("a log follows its worker as a terminal would show it, and hostile bytes are text", async () => {
  const go = join(dir, "go");
  // A worker that writes, waits for the test, writes again and ends.
  const script = String.raw`printf 'hello\n10%%\r100%%\n\033[31mred\033[0m <script>alert(1)</script>\n\000\033]0;t\007end\n'
    while [ ! -e '${go}' ]; do sleep 0.05; done
    i=0; while [ $i -lt 500 ]; do echo "line $i"; i=$((i+1)); done`;
  const run = await head.launch("writes-a-log", script);
  try {
    const id = await until(async () => {
      const { train_runs } = await head.call("GET", "api/train/runs?q=writes-a-log");
      return train_runs[0]?.id;
    }, "the run to register");
    const { page, problems } = await open(browser);
    await page.goto(`${head.url}runs/${id}?tab=logs`);
    const lines = page.locator(".log-line");
    await lines.getByText("␀end").waitFor();
    assert.deepEqual(await lines.allTextContents(), [
      "hello",
      "100%",
      "red <script>alert(1)</script>",
      "␀end",
    ]);
    assert.equal(await page.locator(".log .t-fg1").textContent(), "red");
    assert.equal(await page.locator("main script").count(), 0);
    await screenshot(page, "log-light");

    writeFileSync(go, "");
    await lines.getByText("line 499", { exact: true }).waitFor();
    await page.getByText("End of log").waitFor();
    await page.getByText("504 lines").waitFor();
    assert.ok((await lines.count()) < 200, "only what is in sight is in the page");
    // Away from the end the page stays where the reader is.
    await page.locator(".log").evaluate((e) => e.scrollTo(0, 0));
    await lines.getByText("hello", { exact: true }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Follow" }).getAttribute("aria-pressed"), "false");
    await page.getByRole("button", { name: "Follow" }).click();
    await lines.getByText("line 499", { exact: true }).waitFor();
    assert.deepEqual(problems, []);
    await run.ended;
    await page.close();
  } finally {
    run.kill();
  }
});
