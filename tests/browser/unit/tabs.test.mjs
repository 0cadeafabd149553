// What the Run page's tabs compute: notes as a tree, stragglers, attempts, scores of checkpoints.
import assert from "node:assert/strict";
import { test } from "node:test";
import { marked } from "marked";
import { decoded, nodes, safeHref, treeOf } from "../../../static/js/model/markdown.js";
import { plotOf, scoreOf } from "../../../static/js/model/scores.js";
import { heat, straggler } from "../../../static/js/model/straggle.js";
import { bars, kind, lostBy, summary, workers } from "../../../static/js/model/timeline.js";

/** @param {import("../../../static/js/model/markdown.js").Node} node @returns {string} */
const flat = (node) =>
  typeof node === "string"
    ? node
    : `<${node.tag}${node.props.href ? ` ${node.props.href}` : ""}>${node.children.map(flat).join("")}</${node.tag}>`;
const tree = (/** @type {string} */ text) =>
  nodes(marked.lexer(text, { gfm: true, breaks: true }))
    .map(flat)
    .join("");

test("notes become the elements that notes need", () => {
  assert.equal(
    tree("# a **b**\n\nc *d* `e<`"),
    "<h3>a <strong>b</strong></h3><p>c <em>d</em> <code>e<</code></p>",
  );
  assert.equal(tree("3. x\n4. y"), "<ol><li>x</li><li>y</li></ol>");
  assert.equal(tree("- [x] done"), "<ul><li><input></input>done</li></ul>");
  assert.equal(
    tree("> q\n\n---\n\n```py\nx\n```"),
    "<blockquote><p>q</p></blockquote><hr></hr><pre><code>x</code></pre>",
  );
  assert.equal(
    tree("|a|\n|-|\n|1|"),
    "<div><table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table></div>",
  );
});

test("raw HTML stays text, and entities are characters", () => {
  assert.equal(tree("<img src=x onerror=alert(1)>"), "<img src=x onerror=alert(1)>");
  const found = nodes(marked.lexer("a <b>x</b> &lt;i&gt; &#x41;&amp;"));
  assert.deepEqual(found, [{ tag: "p", props: {}, children: ["a ", "<b>", "x", "</b>", " <i> A&"] }]);
  assert.equal(decoded("&nope; &#0; &#99999999;"), "&nope; &#0; &#99999999;");
});

test("notes that would take too long or nest too deeply are shown as they were written", () => {
  const lexer = (/** @type {string} */ text) => marked.lexer(text, { gfm: true, breaks: true });
  for (const text of [
    ">".repeat(2000),
    ">".repeat(200),
    "_a__".repeat(16_000),
    "*a**".repeat(16_000),
    `${"_a__".repeat(100)}\n`.repeat(150),
    `a${" ".repeat(60_000)}b`,
    `${"a.".repeat(30_000)}@`,
  ]) {
    const begun = performance.now();
    assert.deepEqual(treeOf(text, lexer), [{ tag: "pre", props: { tabindex: 0 }, children: [text] }]);
    assert.ok(performance.now() - begun < 1000);
  }
  const long = "A **bold** word and a snake_case_name.\n\n".repeat(1500);
  assert.equal(treeOf(long, lexer).length, 1500);
});

test("links lead to the web or to a mailbox, and nowhere else", () => {
  for (const good of ["http://a.b/c?d=e&f", "https://x", "mailto:a@b.c"]) assert.equal(safeHref(good), good);
  for (const bad of [
    "javascript:alert(1)",
    " JaVaScRiPt:x",
    "java\nscript:x",
    "&#106;avascript:x",
    "data:text/html,x",
    "//evil",
    "/runs",
    "file:///etc",
    "vbscript:x",
    "https://",
    "http://a\u0000b",
  ])
    assert.equal(safeHref(bad), null, bad);
  assert.equal(tree("[x](javascript:alert(1))"), "<p>x (javascript:alert(1))</p>");
  assert.equal(tree("![alt](https://e/x.png)"), "<p><a https://e/x.png>alt</a></p>");
});

/** @param {number} rank @param {number} late @param {number} [n] */
const rankAt = (rank, late, n = 11) => ({
  rank,
  step: Array.from({ length: n }, (_, i) => i * 10),
  time_ms: Array.from({ length: n }, (_, i) => 1000 * i + late),
});

test("lateness is measured against whoever came first", () => {
  const made = heat([rankAt(1, 120), rankAt(0, 0), rankAt(2, 30)], 5);
  assert.ok(made);
  assert.deepEqual(made.steps, [20, 40, 60, 80, 100]);
  assert.deepEqual(
    made.rows.map((r) => [r.rank, r.late[2]]),
    [
      [0, 0],
      [1, 120],
      [2, 30],
    ],
  );
  assert.deepEqual(made.first, [0, 0, 0, 0, 0]);
  assert.equal(straggler(made), "Rank 1 was last in 5 of 5 stretches, 120\u202fms behind on average.");
});

test("a rank that hangs is named with where it stands, and one rank is none", () => {
  const made = heat([rankAt(0, 0), rankAt(1, 5, 4)], 10);
  assert.ok(made);
  assert.equal(made.rows[1].late[9], null);
  assert.match(straggler(made), /^Rank 1 has come to about step 30 where the first is at about 100\.$/);
  assert.equal(heat([rankAt(0, 0)], 10), null);
  assert.equal(heat([{ rank: 0, step: [1], time_ms: [1] }, rankAt(1, 0)], 10), null);
});

test("nobody is blamed where all take turns", () => {
  const turns = [0, 1, 2, 3].map((rank) => ({
    ...rankAt(rank, 0, 41),
    time_ms: Array.from({ length: 41 }, (_, i) => 1000 * i + (i % 4 === rank ? 100 : 0)),
  }));
  const made = heat(turns, 40);
  assert.ok(made && straggler(made).startsWith("No rank stands out"));
});

/** @param {number} ordinal @param {string} end_reason @param {number} n */
const attempt = (ordinal, end_reason, n) => ({
  attempt_id: String(ordinal),
  ordinal,
  status: /** @type {const} */ ("ABORTED"),
  end_reason,
  status_detail: "words",
  start_time_ms: ordinal * 100,
  end_time_ms: ordinal * 100 + 100,
  workers: Array(n).fill({}),
});

test("attempts say what they were, what was lost, and how the group changed", () => {
  const all = [
    attempt(0, "worker_failed", 4),
    attempt(1, "preempted", 4),
    attempt(2, "resized", 4),
    attempt(3, "completed", 2),
  ];
  const lost = { steps: 320, ms: 720_000, attempts: [{ attempt: 1, steps: 320, ms: 50 }] };
  assert.equal(
    summary(all, lost),
    "4 attempts: 1 failure, 1 preemption, 1 resize; 320 steps lost, 12\u202fmin\u00a00\u202fs of work.",
  );
  assert.equal(summary(all.slice(0, 1), lost), "");
  assert.deepEqual([lostBy(lost, 1), lostBy(lost, 0), lostBy(null, 1)], ["320 steps lost", "", ""]);
  assert.deepEqual(
    [workers(all[3], all[2]), workers(all[1], all[0]), kind(all[1]), kind(all[3])],
    ["4 → 2", "4", "Preempted", ""],
  );
  assert.deepEqual(
    bars(all, 0, 400, lost).map((b) => b.lost),
    [0, 0.125, 0, 0],
  );
});

/** @param {number} step @param {any} metrics */
const checkpoint = (step, metrics) => /** @type {any} */ ({ number: step, step, metrics, fate: "LATEST" });

test("the score is what retention goes by, else what all carry", () => {
  const some = [checkpoint(1, { a: 1, b: 2 }), checkpoint(2, { b: 3 })];
  assert.deepEqual(scoreOf({ checkpoints: { score_attribute: "acc", score_order: "min" } }, some), {
    key: "acc",
    order: "min",
    given: true,
  });
  assert.deepEqual(scoreOf({}, some), { key: "b", order: "max", given: false });
  assert.equal(scoreOf({}, [checkpoint(1, {})]), null);
});

test("scores lie within the box, and those that are no number are counted", () => {
  const plot = plotOf(
    [checkpoint(30, { s: 2 }), checkpoint(10, { s: 1 }), checkpoint(20, { s: "NaN" })],
    "s",
  );
  assert.ok(plot);
  assert.deepEqual([plot.missing, plot.from, plot.to, plot.low, plot.high], [1, 10, 30, 1, 2]);
  for (const { x, y } of plot.dots) assert.ok(x > 0 && x < 1 && y > 0 && y < 1);
  assert.equal(plotOf([checkpoint(1, {})], "s"), null);
});
