// Re-vendors the dashboard's libraries: `node static/vendor/revendor.mjs`.
// Versions are pinned here. npm fetches and verifies the packages into a temporary
// directory; the files are copied byte for byte, and VERSIONS.json records what came.
// It never edits a vendored file and never touches index.html: a new file name needs
// a new line in the import map there.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const PACKAGES = [
  { name: "preact", version: "11.2.0", files: ["dist/preact.mjs", "hooks/dist/hooks.mjs", "LICENSE"] },
  { name: "@preact/signals-core", version: "1.14.5", files: ["dist/signals-core.mjs", "LICENSE"] },
  { name: "@preact/signals", version: "2.11.4", files: ["dist/signals.mjs", "LICENSE"] },
  { name: "htm", version: "3.1.1", files: ["dist/htm.mjs", "LICENSE"] },
  { name: "marked", version: "18.2.1", files: ["lib/marked.esm.js", "LICENSE"] },
  { name: "uplot", version: "1.6.32", files: ["dist/uPlot.esm.js", "dist/uPlot.min.css", "LICENSE"] },
];

const here = dirname(fileURLToPath(import.meta.url));
const work = mkdtempSync(join(tmpdir(), "revendor-"));
try {
  writeFileSync(join(work, "package.json"), '{"private": true}');
  const wanted = PACKAGES.map((p) => `${p.name}@${p.version}`);
  execFileSync("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", ...wanted], {
    cwd: work,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const versions = PACKAGES.map(({ name, version, files }) => {
    const from = join(work, "node_modules", name);
    const license = JSON.parse(readFileSync(join(from, "package.json"), "utf8")).license;
    rmSync(join(here, name), { recursive: true, force: true });
    const hashes = files.map((file) => {
      const to = join(here, name, file);
      mkdirSync(dirname(to), { recursive: true });
      cpSync(join(from, file), to);
      return [`${name}/${file}`, createHash("sha256").update(readFileSync(to)).digest("hex")];
    });
    return { name, version, license, sha256: Object.fromEntries(hashes) };
  });
  writeFileSync(join(here, "VERSIONS.json"), `${JSON.stringify(versions, null, 2)}\n`);
} finally {
  rmSync(work, { recursive: true, force: true });
}
