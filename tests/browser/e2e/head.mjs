// Starts and stops the real head for the browser tests. What it answers to is in controller.mjs.
// It knows nothing of the browser.
/** @import { ChildProcess } from "node:child_process" */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Api } from "./controller.mjs";

export { Controller } from "./controller.mjs";

const BIN =
  process.env.TRAINHEAD_BIN ?? fileURLToPath(new URL("../../../target/debug/trainhead", import.meta.url));
const START_MS = 20_000;

export class Head extends Api {
  /** @type {ChildProcess | null} */
  #child = null;
  /** Its data directory, gone when it is closed. */
  dir = mkdtempSync(join(tmpdir(), "trainhead-browser-"));

  /** @param {string[]} options further ones for `serve` */
  constructor(options = []) {
    super();
    this.options = options;
  }

  /** On the port that it had before, if it was started before. */
  async start() {
    if (!existsSync(BIN)) throw new Error(`there is no ${BIN}: build it, or name it with TRAINHEAD_BIN`);
    const port = this.url ? new URL(this.url).port : "0";
    const child = spawn(BIN, ["serve", "--data-dir", this.dir, "--port", port, ...this.options], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#child = child;
    const deadline = AbortSignal.timeout(START_MS);
    const lines = createInterface({ input: /** @type {import("node:stream").Readable} */ (child.stdout) });
    for await (const [line] of on(lines, deadline)) {
      const found = /^TrainHead is at (http:\S+)/.exec(line);
      if (found) {
        this.isAt(found[1]);
        return;
      }
    }
    throw new Error("the head ended before it said where it is");
  }

  async stop() {
    const child = this.#child;
    this.#child = null;
    if (!child || child.exitCode !== null) return;
    const ended = once(child, "exit", { signal: AbortSignal.timeout(START_MS) });
    child.kill("SIGTERM");
    await ended;
  }

  async close() {
    await this.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }

  /**
   * `trainhead run` against this head, for what only a real worker makes: logs.
   * @param {string} name @param {string} script for the shell
   */
  async launch(name, script) {
    const args = ["run", "--head", this.url.replace(/\/$/, ""), "--data-dir", this.dir];
    const command = ["--workers", "1", "--name", name, "--", "sh", "-c", script];
    const child = spawn(BIN, [...args, ...command], { stdio: "ignore" });
    const ended = once(child, "exit");
    return { ended, kill: () => child.kill("SIGTERM") };
  }
}

/** Lines of a process until it ends or the deadline passes. @param {import("node:readline").Interface} lines @param {AbortSignal} signal */
async function* on(lines, signal) {
  const queue = lines[Symbol.asyncIterator]();
  const late = new Promise((_, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
  );
  late.catch(() => {});
  for (;;) {
    const next = await Promise.race([queue.next(), late]);
    if (next.done) return;
    yield [next.value];
  }
}
