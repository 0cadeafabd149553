// The tabs Overview, Workers, Checkpoints and Events, and the header of the Run page, in a real browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { held, screenshot, until } from "./browser.mjs";
import { stage } from "./stage.mjs";

/** @import { Page } from "playwright-core" */

const { head, open } = stage();

const button = (/** @type {Page} */ page, /** @type {string | RegExp} */ name) =>
  page.getByRole("button", { name, exact: true });

/** Steps with the times that they would have had. @param {number} from @param {number} to @param {number} start @param {number} [late] */
function timed(from, to, start, late = 0) {
  const step = Array.from({ length: to - from }, (_, i) => from + i);
  return {
    step,
    time_ms: step.map((s) => Math.round(start + s * 100 + late)),
    metrics: { loss: step.map((s) => 1 / (s + 1)) },
  };
}

test("attempts say why each ended and what the restart threw away", async () => {
  const start_time_ms = Date.now() - 60_000;
  const run = await head.register({ name: "restarts", start_time_ms });
  await run.run(4);
  await run.columns(timed(0, 100, start_time_ms));
  await run.endAttempt(
    "ERRORED",
    "worker_failed",
    "rank 2 was killed: <img src=x onerror=alert(1)> \u202eevil",
  );
  await run.state("RESTARTING");
  await run.state("SCHEDULING");
  await run.beginAttempt(4);
  await run.state("RUNNING");
  await run.columns(timed(60, 90, start_time_ms + 15_000));
  await run.endAttempt("ABORTED", "resized", "another run wants node-b");
  await run.state("RESIZING");
  await run.state("SCHEDULING");
  await run.beginAttempt(2);
  await run.state("RUNNING");
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}`);
  const row = (/** @type {number} */ n) => page.locator(".attempts tbody tr").nth(n);
  await page.getByText("3 attempts: 1 failure, 1 resize; 40 steps lost, 3\u202fs of work.").waitFor();
  await row(0).getByText("Worker failed · 40 steps lost").waitFor();
  assert.match(await row(0).innerText(), /killed: <img src=x onerror=alert\(1\)> ‹202E›evil/);
  await row(1).getByText("Resized").waitFor();
  await row(2).getByText("4 → 2").waitFor();
  assert.equal(await page.locator(".bar-lost").count(), 1);
  assert.equal(await page.locator("main img").count(), 0);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("notes are Markdown, written in place, and never markup", async () => {
  const run = await head.register({ name: "noted" });
  const { page, problems } = await open();
  const asked = /** @type {string[]} */ ([]);
  page.on("request", (r) => asked.push(r.url()));
  await page.goto(`${head.url}runs/${run.id}`);
  await button(page, "Add notes").waitFor();
  assert.ok(!asked.some((u) => u.includes("marked")), "not loaded where there are no notes");
  await button(page, "Add notes").click();
  const field = page.getByLabel("Notes, in Markdown");
  await field.fill(
    "# Why\n\nA **bold** [link](https://example.org/x) and [bad](javascript:alert(1)) <script>alert(2)</script> ![pic](https://example.org/p.png)\n\n- [x] done",
  );
  await button(page, "Save").click();
  const notes = page.locator(".markdown");
  await notes.getByRole("heading", { name: "Why" }).waitFor();
  assert.equal(await notes.locator("strong").textContent(), "bold");
  const links = await notes
    .locator("a")
    .evaluateAll((all) =>
      all.map((a) => [a.getAttribute("href"), a.getAttribute("rel"), a.getAttribute("target")]),
    );
  assert.deepEqual(links, [
    ["https://example.org/x", "noopener noreferrer", "_blank"],
    ["https://example.org/p.png", "noopener noreferrer", "_blank"],
  ]);
  assert.match(await notes.innerText(), /bad \(javascript:alert\(1\)\) <script>alert\(2\)<\/script> pic/);
  assert.equal(await page.locator("main script, main img").count(), 0);

  await button(page, "Edit").click();
  await field.fill("something else");
  await page.keyboard.press("Escape");
  await notes.getByRole("heading", { name: "Why" }).waitFor();
  await button(page, "Edit").click();
  assert.match(await field.inputValue(), /^# Why/);
  await field.fill("x".repeat(70_000));
  await button(page, "Save").click();
  await page.getByRole("alert").waitFor();
  assert.equal((await field.inputValue()).length, 70_000, "what was written is not lost");
  await field.fill("  ");
  await button(page, "Save").click();
  await button(page, "Add notes").waitFor();
  // Refused by the head, as it must be.
  assert.deepEqual(
    problems.filter((p) => !p.includes("status of 4")),
    [],
  );
  await page.close();
});

test("notes that are not saved wait for who wrote them, and tell of those that came meanwhile", async () => {
  const run = await head.register({ name: "drafted" });
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}`);
  await button(page, "Add notes").click();
  const field = page.getByLabel("Notes, in Markdown");
  await field.fill("half a thou");
  await page.getByRole("link", { name: "Workers" }).click();
  await page.getByText("No workers yet").waitFor();
  await run.annotate({ notes: "of somebody else" });
  await page.getByRole("link", { name: "Overview" }).click();
  assert.equal(await field.inputValue(), "half a thou");
  await page.getByText("These notes were changed elsewhere meanwhile").waitFor();
  await page.locator(".markdown").getByText("of somebody else").waitFor();
  await button(page, "Cancel").click();
  await page.locator(".markdown").getByText("of somebody else").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("what is too long for a list stays on the page of the run as it changes", async () => {
  const layers = Array.from({ length: 120 }, (_, i) => [`layer_${i}`, { width: i * 64, kind: "dense" }]);
  const run = await head.register({ name: "long", settings: Object.fromEntries(layers) });
  await run.run(1);
  await run.annotate({ notes: `kept ${"and long ".repeat(600)}` });
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}`);
  await page.getByText("layer_0/width").waitFor();
  // The change itself, before the run is asked for anew: that is held back.
  const hold = held(page, `**/api/train/runs/${run.id}`);
  await run.annotate({ tags: { changed: "yes" } });
  await page.locator(".tag-row", { hasText: "changed: yes" }).waitFor();
  await hold.asked;
  await page.getByText("layer_0/width").waitFor();
  assert.match(await page.locator(".markdown").innerText(), /^kept and long/);
  hold.release();
  await page.goto(`${head.url}runs/${run.id}?tab=checkpoints`);
  await page.getByText("No checkpoint yet").waitFor();
  await run.checkpoint(1, "COMMITTED", 0.5);
  await page.locator(".checkpoints tbody tr").waitFor();
  await run.annotate({ tags: { changed: "again" } });
  await run.end("FINISHED");
  await page.locator(".run-title").getByText("Finished").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("the workers of an earlier attempt are there, and how they ended", async () => {
  const run = await head.register({ name: "earlier" });
  await run.run(3);
  await run.workerEnded(1, { signal: "SIGKILL", cause: "out of memory" });
  await run.endAttempt("ERRORED", "worker_failed", "rank 1 was killed");
  await run.state("RESTARTING");
  await run.state("SCHEDULING");
  await run.beginAttempt(2);
  await run.state("RUNNING");
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=workers`);
  const ranks = page.locator(".workers tbody tr");
  await page.getByText("2 alive").waitFor();
  assert.equal(await ranks.count(), 2);
  await page.getByLabel("Attempt").selectOption("0");
  await ranks.nth(1).getByText("SIGKILL, out of memory").waitFor();
  assert.equal(await ranks.count(), 3);
  await page.reload();
  await ranks.nth(1).getByText("SIGKILL, out of memory").waitFor();
  await screenshot(page, "workers-earlier");
  await ranks.nth(1).getByRole("link", { name: "Log of rank 1" }).click();
  await page.waitForURL(/tab=logs.*attempt=0.*rank=1/);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("name and tags can be changed, and the settings searched", async () => {
  const settings = Object.fromEntries(
    Array.from({ length: 30 }, (_, i) => [`layer_${i}`, { width: i * 64 }]),
  );
  const run = await head.register({ name: "old name", settings, tags: { team: "vision" } });
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}`);
  await button(page, "Rename").click();
  await page.getByLabel("Name of the run").fill("<b>new</b> name");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "<b>new</b> name" }).waitFor();
  await page.waitForFunction(() => document.title.includes("<b>new</b> name"));

  await page.getByLabel("New tag").fill("owner: ada:x");
  await page.keyboard.press("Enter");
  await page.locator(".tag-row", { hasText: "owner: ada:x" }).waitFor();
  await button(page, "Remove the tag team").click();
  await until(async () => (await page.locator(".tag-row").count()) === 1, "the tag to be gone");
  const { tags } = await head.call("GET", `api/train/runs/${run.id}`);
  assert.deepEqual(tags, { owner: "ada:x" });

  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("layer_7");
  await page.getByText("1 of 30").waitFor();
  await page.reload();
  await page.getByText("1 of 30").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("an ended run goes to the trash and comes back", async () => {
  const run = await head.register({ name: "to-delete" });
  await run.run(1);
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}`);
  await page.getByText("Stop", { exact: true }).waitFor();
  assert.equal(await button(page, "Delete").count(), 0, "what lives is not deleted");
  await run.end("FINISHED");
  await button(page, "Delete").click();
  await page.getByText("In the trash since").waitFor();
  await button(page, "Undo").click();
  // What is being written outlasts it.
  await button(page, "Add notes").click();
  await page.getByLabel("Notes, in Markdown").fill("a draft");
  await button(page, "Delete").click();
  await page.getByText("In the trash since").waitFor();
  assert.equal(await page.getByLabel("Notes, in Markdown").inputValue(), "a draft");
  await page.reload();
  await page.getByText("In the trash since").waitFor();
  await button(page, "Restore").click();
  await button(page, "Delete").waitFor();
  assert.equal(await page.getByText("In the trash since").count(), 0);
  assert.deepEqual(problems, ["dialog: beforeunload"], "the browser asks before the draft is lost");
  await page.close();
});

test("workers are sorted, and the rank that holds up the others is named", async () => {
  const run = await head.register({ name: "slow-rank" });
  await run.run(4);
  const start = Date.now() - 60_000;
  for (const rank of [0, 1, 2, 3])
    await run.columns(timed(0, rank === 1 ? 398 : 400, start, rank === 3 ? 250 : rank), rank);
  const { page, problems } = await open();
  await page.goto(`${head.url}runs/${run.id}?tab=workers`);
  await page
    .getByText(/^Rank 3 was last in \d+ of 60 stretches, 2\d\d\u202fms behind on average\.$/)
    .waitFor();
  const first = () => page.locator(".workers tbody tr").first().locator("td").first().textContent();
  assert.equal(await first(), "0");
  await button(page, "Behind").click();
  await button(page, "Behind ↑").or(button(page, "Behind")).click();
  await until(async () => (await first()) === "1", "the rank that is most behind to be first");
  assert.equal(await page.locator('th[aria-sort="descending"]').innerText(), "Behind ↓");
  await page.reload();
  await until(async () => (await first()) === "1", "the order after a reload");
  const strip = page.locator(".strip canvas");
  const box = /** @type {{ width: number, height: number }} */ (await strip.boundingBox());
  await strip.hover({ position: { x: box.width / 2, y: box.height * 0.9 } });
  await page.getByText(/^rank 3, step \d+: 2\d\d\u202fms after rank 0$/).waitFor();
  await strip.focus();
  await page.keyboard.press("ArrowUp");
  await page.getByText(/^rank 2, step/).waitFor();
  await screenshot(page, "workers-straggler");
  await run.end("FINISHED");

  const alone = await head.register({ name: "alone" });
  await alone.run(1);
  await page.goto(`${head.url}runs/${alone.id}?tab=workers`);
  await page.getByText("There is one rank").waitFor();
  const silent = await head.register({ name: "silent" });
  await silent.run(2);
  await page.goto(`${head.url}runs/${silent.id}?tab=workers`);
  await page.getByText("Not known: there is no metric").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("what a worker on the head's host uses is shown while it lives", async () => {
  const run = await head.launch("uses-some", "while :; do :; done & sleep 300");
  try {
    const id = await until(async () => {
      const { train_runs } = await head.call("GET", "api/train/runs?q=uses-some&include=workers");
      return train_runs[0]?.workers?.length > 0 && train_runs[0].id;
    }, "the worker to run");
    const { page, problems } = await open();
    await page.goto(`${head.url}runs/${id}?tab=workers`);
    await page
      .locator(".workers .w-use")
      .getByText(/\d[\d.]*\u202f[kM]B/)
      .waitFor();
    await page.locator(".workers .w-use").getByText(/\d %/).waitFor();
    assert.deepEqual(problems, []);
    await page.close();
  } finally {
    run.kill();
    await run.ended;
  }
});

test("checkpoints are drawn by their score, come in pages, and their paths can be copied", async () => {
  const settings = { checkpoints: { num_to_keep: 2, score_attribute: "accuracy", score_order: "max" } };
  const run = await head.register({ name: "scored", settings });
  await run.run(1);
  for (let i = 0; i < 210; i += 1)
    await run.checkpoint(i, i < 200 ? "DELETED" : "COMMITTED", i === 204 ? 0.99 : i / 400);
  const { page, problems } = await open();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(`${head.url}runs/${run.id}?tab=checkpoints`);
  await page.getByText("2 checkpoints to keep, the best by accuracy").waitFor();
  await page.locator(".score.is-best", { hasText: "best" }).waitFor();
  await page.locator(".score.is-latest", { hasText: "latest" }).waitFor();
  assert.match(
    String(await page.locator(".score.is-best").getAttribute("title")),
    /checkpoint 204, .*0\.9900, best/,
  );
  await page.getByText("200 of 210").waitFor();
  assert.equal(await page.locator(".score.is-gone").count(), 190);
  await button(page, "Load older ones").click();
  await page.getByText("210 of 210").waitFor();
  assert.equal(await page.locator(".checkpoints tbody tr").count(), 210);
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  await button(page, "Copy the path of checkpoint 209").click();
  await until(async () => (await copied()) === "/checkpoints/checkpoint_000209", "the path to be copied");
  // As over http behind a proxy, where there is no clipboard for scripts.
  await page.evaluate(() => Object.defineProperty(window, "isSecureContext", { value: false }));
  await button(page, "Copy the path of checkpoint 208").click();
  await until(async () => (await copied()) === "/checkpoints/checkpoint_000208", "that one too");
  const goes = page.locator(".checkpoints tr", { hasText: "goes next" });
  const before = await goes.count();
  assert.ok(before > 0);
  await goes.first().getByRole("button", { name: /^Pin/ }).click();
  await until(
    async () => (await goes.count()) !== before || (await page.getByText("pinned").count()) > 1,
    "the pin to count",
  );
  await page.getByText("210 of 210").waitFor();
  await screenshot(page, "scores");
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});

test("what could not be had is asked for again, also of a run that is over", async () => {
  const run = await head.register({ name: "blip" });
  await run.run(2);
  await run.checkpoint(1, "COMMITTED", 0.5);
  await run.end("FINISHED");
  const { page } = await open();
  await page.clock.install();
  for (const [tab, path, shows] of [
    ["events", "**/events?*", ".events tbody tr"],
    ["checkpoints", "**/checkpoints?*", ".checkpoints tbody tr"],
    ["workers", "**/metrics", ".stragglers .quiet"],
    ["logs", "**/logs", ".tab-note"],
  ]) {
    await page.route(path, (route) => route.abort());
    await page.goto(`${head.url}runs/${run.id}?tab=${tab}`);
    await page.getByRole("alert").waitFor();
    await page.unroute(path);
    await until(async () => {
      await page.clock.runFor(1_000);
      return (await page.locator(shows).count()) > 0;
    }, `${tab} to be asked for again`);
    assert.equal(await page.getByRole("alert").count(), 0, tab);
  }
  await page.close();
});

test("events are filtered by kind, and hostile reasons are text", async () => {
  const run = await head.register({ name: "eventful" });
  await run.run(1);
  await run.state(
    "RUNNING",
    "<img src=x onerror=alert(1)> \u202etxt \x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07 ".repeat(6),
  );
  await run.annotate({ notes: "x" });
  const { page, problems } = await open({ width: 390, height: 844 });
  await page.goto(`${head.url}runs/${run.id}?tab=events`);
  await page.locator(".events tbody tr").first().waitFor();
  const all = await page.locator(".events tbody tr").count();
  await button(page, "Attempt").click();
  await until(async () => (await page.locator(".events tbody tr").count()) < all, "fewer events");
  await page.reload();
  await page.locator('.segmented [aria-pressed="true"]', { hasText: "Attempt" }).waitFor();
  assert.equal(await page.locator("main img, .events a").count(), 0);
  const wider = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  assert.ok(wider <= 0, `${wider} px stick out`);
  await run.end("FINISHED");
  assert.deepEqual(problems, []);
  await page.close();
});
