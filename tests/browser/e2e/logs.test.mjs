// Logs in a real browser: as a terminal would show them, live, interleaved, searched, of any size, and
// never as markup.
import assert from "node:assert/strict";
import {
  appendFileSync,
  closeSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { screenshot, until } from "./browser.mjs";
import { stage } from "./stage.mjs";

/** @import { Page } from "playwright-core" */

const { head, open } = stage({ end: async () => rmSync(dir, { recursive: true, force: true }) });
const dir = mkdtempSync(join(tmpdir(), "trainhead-log-"));

/** src/state/data_dir.rs says where. @param {string} id @param {number} rank @param {number} [attempt] */
function logPath(id, rank, attempt = 0) {
  const path = join(head.dir, "runs", id, "logs", String(attempt), `rank_${rank}.log`);
  mkdirSync(dirname(path), { recursive: true });
  return path;
}

/** A run whose logs are written by the test. @param {string} name @param {string[]} logs by rank */
async function withLogs(name, logs) {
  const run = await head.register({ name });
  await run.run(logs.length);
  logs.forEach((text, rank) => writeFileSync(logPath(run.id, rank), text));
  return run;
}

/** @param {Page} page */
const lines = (page) => page.locator(".log-line");
/** @param {Page} page */
const scroll = (page) => page.locator(".log").evaluate((e) => e.scrollTop);
/** The line that is looked at. @param {Page} page */
const current = (page) => page.locator(".log-line.is-at");

test("a log follows its worker as a terminal would show it, and hostile bytes are text", async () => {
  const go = join(dir, "go");
  // A worker that writes, waits for the test, writes again and ends.
  const script = String.raw`printf 'hello\n10%%\r100%%\n\033[31mred\033[0m <script>alert(1)</script>\n\033]8;;javascript:alert(1)\033\\link\033]8;;\033\\ \000\033]0;t\007end\n'
    while [ ! -e '${go}' ]; do sleep 0.05; done
    i=0; while [ $i -lt 500 ]; do echo "line $i"; i=$((i+1)); done`;
  const run = await head.launch("writes-a-log", script);
  try {
    const id = await until(async () => {
      const { train_runs } = await head.call("GET", "api/train/runs?q=writes-a-log");
      return train_runs[0]?.id;
    }, "the run to register");
    const { page, problems } = await open();
    await page.goto(`${head.url}runs/${id}?tab=logs`);
    await lines(page).getByText("␀end").waitFor();
    assert.deepEqual(await lines(page).allTextContents(), [
      "hello",
      "100%",
      "red <script>alert(1)</script>",
      "link ␀end",
    ]);
    assert.equal(await page.locator(".log .t-fg1").textContent(), "red");
    assert.equal(await page.locator("main script, .log a:not(.log-at)").count(), 0);
    await screenshot(page, "log-light");

    writeFileSync(go, "");
    await lines(page).getByText("line 499", { exact: true }).waitFor();
    await page.getByText("End of log").waitFor();
    await page.locator(".log").evaluate((e) => (e.scrollTop = 0));
    await lines(page).getByText("hello").waitFor();
    await page.getByRole("button", { name: "End" }).click();
    await lines(page).getByText("line 499", { exact: true }).waitFor();
    assert.deepEqual(problems, []);
    await run.ended;
    await page.close();
  } finally {
    run.kill();
  }
});

test("following stays at the end, and who scrolls up is left where they are", async () => {
  const numbers = (/** @type {number} */ from, /** @type {number} */ to) =>
    Array.from({ length: to - from }, (_, i) => `line ${from + i}\n`).join("");
  const run = await withLogs("follows", [numbers(0, 300)]);
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=logs`);
  await lines(page).getByText("line 299", { exact: true }).waitFor();
  appendFileSync(logPath(run.id, 0), numbers(300, 600));
  await lines(page).getByText("line 599", { exact: true }).waitFor();
  const follow = page.getByRole("button", { name: "Follow", exact: true });
  assert.equal(await follow.getAttribute("aria-pressed"), "true");
  await page.locator(".log").evaluate((e) => (e.scrollTop = 100));
  await page.locator('.chip[aria-pressed="false"]', { hasText: "Follow" }).waitFor();
  // What was passed while the end was followed does not draw them back.
  await page.waitForTimeout(100);
  const top = await scroll(page);
  assert.equal(top, 100);
  const size = page.locator(".log-tools", { hasText: "Download" });
  const before = await size.textContent();
  appendFileSync(logPath(run.id, 0), numbers(600, 900));
  await until(async () => (await size.textContent()) !== before, "the log to be known as longer");
  assert.equal(await scroll(page), top);
  await follow.click();
  await lines(page).getByText("line 899", { exact: true }).waitFor();
  await run.end("FINISHED");
  await page.getByText("End of log").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("at a restart who follows goes on with the new attempt, and who reads stays", async () => {
  const numbers = Array.from({ length: 300 }, (_, i) => `line ${i}\n`).join("");
  const run = await withLogs("restarts-while-read", [numbers, "one\n"]);
  const [reader, follower, all] = await Promise.all([open(), open(), open()]);
  await reader.page.goto(`${head.url}runs/${run.id}?tab=logs`);
  await follower.page.goto(`${head.url}runs/${run.id}?tab=logs`);
  await all.page.goto(`${head.url}runs/${run.id}?tab=logs&rank=all`);
  for (const { page } of [reader, follower]) await lines(page).getByText("line 299").waitFor();
  await all.page.locator(".log-line", { hasText: "one" }).waitFor();
  for (const { page } of [reader, all]) {
    await page.locator(".log").evaluate((e) => (e.scrollTop = 100));
    await page.locator('.chip[aria-pressed="false"]', { hasText: "Follow" }).waitFor();
  }
  await run.endAttempt("ERRORED", "worker_failed", "rank 0 exited with code 1");
  await run.state("RESTARTING");
  await run.state("SCHEDULING");
  writeFileSync(logPath(run.id, 0, 1), "again\n");
  await run.beginAttempt(2);
  await run.state("RUNNING");
  await lines(follower.page).getByText("again").waitFor();
  for (const { page } of [reader, all]) {
    await page.locator(".run-title").getByText("attempt 1").waitFor();
    await page.getByText("End of log").waitFor();
    assert.equal(await scroll(page), 100);
    assert.equal(new URL(page.url()).searchParams.get("attempt"), "0");
  }
  await run.end("FINISHED");
  for (const { page, problems } of [reader, follower, all]) {
    assert.deepEqual(problems, []);
    await page.close();
  }
});

test("the last lines of a log that comes from another host arrive after the run's end", async () => {
  const run = await head.register({ name: "late-lines" });
  await run.run(2);
  writeFileSync(logPath(run.id, 0), "first\n");
  const { page, problems } = await open();
  const second = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=logs`);
  await lines(page).getByText("first").waitFor();
  await second.page.goto(`${head.url}runs/${run.id}?tab=logs&rank=1`);
  await run.end("ERRORED", "rank 0 exited with code 1");
  await page.getByText("End of log").waitFor();
  appendFileSync(logPath(run.id, 0), "Traceback (most recent call last):\n");
  writeFileSync(logPath(run.id, 1), "second\n");
  await lines(page).getByText("Traceback").waitFor();
  await lines(second.page).getByText("second").waitFor();
  assert.deepEqual([...problems, ...second.problems], []);
  await Promise.all([page.close(), second.page.close()]);
});

test("a log of long progress bars is read as far as it is looked at", async () => {
  const bar = (/** @type {number} */ i) => `${`\repoch ${i} step 1234567`.repeat(5500)}\n`;
  const run = await withLogs("bars", [Array.from({ length: 150 }, (_, i) => bar(i)).join("")]);
  const { page, problems } = await open();
  let asked = 0;
  page.on("request", (r) => void (/\/logs\/0\/0$/.test(r.url()) && (asked += 1)));
  /** Until a while has passed without a question. */
  const quiet = () =>
    until(async () => {
      const before = asked;
      await page.waitForTimeout(1000);
      return asked === before;
    }, "the reading to end");
  await page.goto(`${head.url}runs/${run.id}?tab=logs`);
  await lines(page).getByText("epoch 149 step").waitFor();
  await quiet();
  const followed = asked;
  assert.ok(followed < 80, `${followed} parts were read`);
  await lines(page).getByText("epoch 149 step").waitFor();
  await page.locator(".log").evaluate((e) => (e.scrollTop -= 100));
  await page.locator('.chip[aria-pressed="false"]', { hasText: "Follow" }).waitFor();
  await until(async () => asked > followed, "what is above to be read");
  await quiet();
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("a line can be linked to, and the place survives a reload", async () => {
  const run = await withLogs("linked", [Array.from({ length: 400 }, (_, i) => `line ${i}\n`).join("")]);
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=logs`);
  await page.getByRole("button", { name: "Start" }).click();
  await lines(page)
    .filter({ hasText: /^line 7$/ })
    .hover();
  await lines(page)
    .filter({ hasText: /^line 7$/ })
    .locator(".log-at")
    .click();
  await current(page).getByText("line 7", { exact: true }).waitFor();
  assert.match(page.url(), /at=49$/);
  await page.reload();
  await current(page).getByText("line 7", { exact: true }).waitFor();
  await page.locator(".tabs").getByText("Events").click();
  await page.goBack();
  await current(page).getByText("line 7", { exact: true }).waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

/** 5 GB of which the middle is not there. @param {string} id */
function sparse(id) {
  const first = Array.from({ length: 20_000 }, (_, i) => `early line ${i}\n`).join("");
  const last =
    "\n" + Array.from({ length: 20_000 }, (_, i) => `late line ${i}\n`).join("") + "RuntimeError: it broke\n";
  const file = openSync(logPath(id, 0), "w");
  writeSync(file, first, 0);
  const at = 5 * 2 ** 30;
  ftruncateSync(file, at + last.length);
  writeSync(file, last, at);
  closeSync(file);
}

test("a log of 5 GB is read by parts: its ends, matches and errors, and what is left out is said", async () => {
  const run = await withLogs("large", [""]);
  sparse(run.id);
  await run.end("ERRORED", "it broke");
  const { page, problems } = await open();
  let read = 0;
  page.on("response", async (r) => {
    if (!/\/logs\/0\/0$/.test(r.url())) return;
    read += Number((await r.allHeaders())["content-length"] ?? Infinity);
  });
  await page.goto(`${head.url}runs/${run.id}?tab=logs`);
  await lines(page).getByText("RuntimeError: it broke").waitFor();
  await page.getByText("5.37 GB of 5.37 GB").waitFor();
  await page.getByRole("button", { name: "Start" }).click();
  await lines(page).getByText("early line 0", { exact: true }).waitFor();
  // To the end of what was loaded, again and again, until the hole is reached.
  await until(async () => {
    await page.locator(".log").evaluate((e) => (e.scrollTop = e.scrollHeight));
    await page.waitForTimeout(200);
    return (await page.locator(".log-hole").count()) > 0;
  }, "the hole");
  assert.match(String(await page.locator(".log-hole").textContent()), /^5\.37\u202fGB were left out here$/);
  await until(
    async () => (await lines(page).getByText("late line 3", { exact: true }).count()) > 0,
    "what follows",
  );

  await page.getByLabel("Search in the log").fill("LATE line 1999");
  await page.getByText("11 lines").waitFor();
  await page.keyboard.press("Enter");
  await page.getByText("1 of 11").waitFor();
  await current(page).getByText("late line 1999", { exact: true }).waitFor();
  assert.equal(await current(page).locator("mark").textContent(), "late line 1999");
  await page.keyboard.press("Enter");
  await current(page).getByText("late line 19990", { exact: true }).waitFor();
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.press("Shift+Enter");
  await page.getByText("11 of 11").waitFor();
  await current(page).getByText("late line 19999", { exact: true }).waitFor();
  await page.reload();
  await page.getByText("11 of 11").waitFor();
  await current(page).getByText("late line 19999", { exact: true }).waitFor();

  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("button", { name: "First error" }).click();
  await current(page).getByText("RuntimeError: it broke").waitFor();
  // Earlier parts come as one scrolls up, and what is read stays in sight.
  for (let n = 0; n < 3; n += 1) await page.locator(".log").evaluate((e) => (e.scrollTop = 200));
  assert.ok(read < 6e6, `${read} bytes were read`);
  assert.deepEqual(problems, []);
  await page.close();
});

test("ranks are one list in the order of their times, each line leads to its own log", async () => {
  const stamp = (/** @type {number} */ s) => `2026-06-01 12:00:${String(s).padStart(2, "0")},000`;
  const run = await withLogs("together", [
    `${stamp(1)} zero a\n${stamp(3)} zero b\nTraceback (most recent call last):\nValueError: zero\n`,
    `${stamp(2)} one a\n${stamp(4)} one b\n`,
  ]);
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=logs`);
  await page.getByLabel("Rank").selectOption("all");
  await lines(page).getByText("one b").waitFor();
  const shown = async () => (await lines(page).allTextContents()).map((t) => t.replace(/^2026\S+ \S+ /, ""));
  const expected = [
    "zero a",
    "one a",
    "zero b",
    "Traceback (most recent call last):",
    "ValueError: zero",
    "one b",
  ];
  assert.deepEqual(await shown(), expected);
  assert.deepEqual(
    await page
      .locator(".log-rank")
      .evaluateAll((all) => all.map((e) => e.getAttribute("data-rank")).filter(Boolean)),
    ["0", "1", "0", "0", "0", "1"],
  );
  appendFileSync(logPath(run.id, 1), `${stamp(9)} one later\n`);
  appendFileSync(logPath(run.id, 0), `${stamp(8)} zero later\n`);
  await lines(page).getByText("one later").waitFor();
  await lines(page).getByText("zero later").waitFor();

  await page.keyboard.press("/");
  await page.keyboard.type("zero");
  await page.getByText("In the whole logs:").waitFor();
  await page.getByRole("link", { name: "rank 0: 4" }).waitFor();
  await page.getByText("4 lines").waitFor();
  await page.keyboard.press("Enter");
  await page.getByText("1 of 4").waitFor();
  await page.getByRole("button", { name: "First error" }).click();
  await current(page)
    .getByText(/Traceback/)
    .waitFor();
  await screenshot(page, "log-all-light");
  await lines(page).filter({ hasText: "one b" }).locator(".log-at").click();
  await current(page).getByText("one b").waitFor();
  assert.equal(new URL(page.url()).searchParams.get("rank"), "1");
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("logs without times say in which order they are, and go on as lines arrive", async () => {
  const run = await withLogs("timeless", ["a1\na2\n", "b1\nb2\n"]);
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=logs&rank=all`);
  await page.getByText("have no times in their lines").waitFor();
  assert.deepEqual(await lines(page).allTextContents(), ["a1", "a2", "b1", "b2"]);
  appendFileSync(logPath(run.id, 0), "a3\n");
  await lines(page).getByText("a3").waitFor();
  appendFileSync(logPath(run.id, 1), "b3 has no end");
  await lines(page).getByText("b3 has no end").waitFor();
  assert.deepEqual(await lines(page).allTextContents(), ["a1", "a2", "b1", "b2", "a3", "b3 has no end"]);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});
