// Rules about the files of static/ that no type checker sees: vendored files are what npm published,
// modules are small and say what they are for, nothing is inline, every URL is relative.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../static/", import.meta.url));
const read = (/** @type {string} */ path) => readFileSync(join(ROOT, path), "utf8");
const files = readdirSync(ROOT, { recursive: true, withFileTypes: true })
  .filter((e) => e.isFile())
  .map((e) => relative(ROOT, join(e.parentPath, e.name)));
const ours = files.filter((f) => !f.startsWith("vendor/"));
const modules = ours.filter((f) => f.startsWith("js/"));

test("vendored files are unchanged, complete and licensed", () => {
  const versions = JSON.parse(read("vendor/VERSIONS.json"));
  const known = new Map(versions.flatMap((/** @type {any} */ v) => Object.entries(v.sha256)));
  const vendored = files.filter((f) => f.startsWith("vendor/")).map((f) => f.slice("vendor/".length));
  const unlisted = vendored.filter((f) => !known.has(f));
  assert.deepEqual(unlisted.sort(), ["VERSIONS.json", "revendor.mjs"]);
  for (const [file, sha256] of known) {
    const bytes = readFileSync(join(ROOT, "vendor", file));
    assert.equal(createHash("sha256").update(bytes).digest("hex"), sha256, file);
  }
  for (const { name, sha256 } of versions) assert.ok(`${name}/LICENSE` in sha256, `${name} has its licence`);
});

test("each file says what it is for; modules have at most 250 lines, style sheets 400", () => {
  for (const file of ours.filter((f) => /\.(js|css)$/.test(f))) {
    const text = read(file);
    assert.match(text, /^(\/\/|\/\*) /, `${file} begins with a comment`);
    assert.ok(text.split("\n").length <= (file.endsWith(".css") ? 401 : 251), `${file} is too long`);
  }
});

test("only one module talks to the head and only one listens", () => {
  const using = (/** @type {RegExp} */ what) => modules.filter((f) => what.test(read(f)));
  assert.deepEqual(using(/\bfetch\(/), ["js/server/api.js"]);
  assert.deepEqual(using(/new EventSource\(/), ["js/server/stream.js"]);
});

test("pure modules import nothing but pure modules", () => {
  for (const file of modules.filter((f) => f.startsWith("js/model/"))) {
    for (const [, from] of read(file).matchAll(/^import .* from "(.+)";/gm))
      assert.match(from, /^\.\/\w+\.js$/, file);
  }
});

test("there is no way for text to become markup", () => {
  for (const file of modules) {
    assert.doesNotMatch(
      read(file),
      /innerHTML|dangerouslySet|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/,
      file,
    );
  }
});

test("the page has no inline style, no inline script but the import map, and only relative URLs", () => {
  const html = read("index.html");
  assert.ok(html.includes('<base href="/">'), "the literal that the head rewrites");
  assert.doesNotMatch(html, /\sstyle=|<style|\son\w+=/);
  const inline = [...html.matchAll(/<script(?![^>]*\bsrc=)([^>]*)>/g)].map((m) => m[1].trim());
  assert.deepEqual(inline, ['type="importmap"']);
  const urls = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map((m) => m[1]).filter((u) => u !== "/");
  for (const url of urls) assert.doesNotMatch(url, /^(\/|\w+:)/, url);
  for (const url of urls.filter((u) => u.startsWith("static/"))) {
    assert.ok(existsSync(join(ROOT, url.slice("static/".length))), url);
  }
  const map = JSON.parse(html.split('<script type="importmap">')[1].split("</script>")[0]);
  for (const target of Object.values(map.imports))
    assert.ok(existsSync(join(ROOT, target.replace("./static/", ""))), target);
  for (const file of modules) assert.doesNotMatch(read(file), /["'`]\/(api|static|runs)\b/, file);
});

test("what the first page needs is preloaded, and nothing else", () => {
  const needed = graph("js/main.js");
  // These have tags of their own.
  needed.delete("js/main.js");
  needed.delete("js/ahead.js");
  const preloaded = [...read("index.html").matchAll(/modulepreload" href="static\/([^"]+)"/g)].map(
    (m) => m[1],
  );
  assert.deepEqual(preloaded.sort(), [...needed].sort());
});

test("every style sheet is asked for, once", () => {
  const sheets = files.filter((f) => f.endsWith(".css"));
  const [, list] = /** @type {RegExpExecArray} */ (/STYLES = \[([^\]]+)\]/.exec(read("js/ahead.js")));
  const asked = [...(read("index.html") + list).matchAll(/"static\/([^"]+\.css)"/g)].map((m) => m[1]);
  assert.deepEqual(asked.sort(), sheets.sort());
});

test("what the Run page and its tabs need beyond that is asked for ahead", () => {
  const text = read("js/ahead.js");
  const list = (/** @type {string} */ name) => {
    const [, names] = /** @type {RegExpExecArray} */ (new RegExp(`${name} = \\[([^\\]]+)\\]`).exec(text));
    return [...names.matchAll(/"([^"]+)"/g)].map((m) => `js/${m[1]}.js`).sort();
  };
  const known = graph("js/main.js");
  for (const [name, file] of [
    ["RUN", "js/ui/run_page.js"],
    ["METRICS", "js/ui/metrics_tab.js"],
    ["LOGS", "js/ui/logs_tab.js"],
  ]) {
    const beyond = [...graph(file)].filter((f) => !known.has(f));
    assert.deepEqual(list(name), beyond.filter((f) => !f.startsWith("vendor/")).sort(), name);
    if (name === "RUN") beyond.forEach((f) => known.add(f));
  }
  assert.ok(existsSync(join(ROOT, "vendor/uplot/dist/uPlot.esm.js")));
});

/** A module and all that it imports when it is loaded. @param {string} root */
function graph(root) {
  const map = JSON.parse(
    read("index.html").split('<script type="importmap">')[1].split("</script>")[0],
  ).imports;
  /** @type {Set<string>} */
  const needed = new Set();
  const visit = (/** @type {string} */ file) => {
    if (needed.has(file)) return;
    needed.add(file);
    // Vendored files are minified: their imports stand anywhere. Ours stand in lines of their own.
    const imports = file.startsWith("vendor/") ? /\bfrom"([^"]+)"/g : /^import (?:[^"]* from )?"([^"]+)"/gm;
    for (const [, from] of read(file).matchAll(imports)) {
      const target = from.startsWith(".") ? join(file, "..", from) : map[from]?.replace("./static/", "");
      if (target) visit(target);
    }
  };
  visit(root);
  return needed;
}
