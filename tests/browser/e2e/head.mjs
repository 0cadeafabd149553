// Starts and stops the real head for the browser tests, and is its controller: seeds runs over the
// HTTP API, as any launcher would. It knows nothing of the browser.
/** @import { ChildProcess } from "node:child_process" */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const BIN =
  process.env.TRAINHEAD_BIN ?? fileURLToPath(new URL("../../../target/debug/trainhead", import.meta.url));
const START_MS = 20_000;

export class Head {
  /** @type {ChildProcess | null} */
  #child = null;
  #dir = mkdtempSync(join(tmpdir(), "trainhead-browser-"));
  url = "";

  /** @param {string[]} options further ones for `serve` */
  constructor(options = []) {
    this.options = options;
  }

  /** On the port that it had before, if it was started before. */
  async start() {
    if (!existsSync(BIN)) throw new Error(`there is no ${BIN}: build it, or name it with TRAINHEAD_BIN`);
    const port = this.url ? new URL(this.url).port : "0";
    const child = spawn(BIN, ["serve", "--data-dir", this.#dir, "--port", port, ...this.options], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#child = child;
    const deadline = AbortSignal.timeout(START_MS);
    const lines = createInterface({ input: /** @type {import("node:stream").Readable} */ (child.stdout) });
    for await (const [line] of on(lines, deadline)) {
      const found = /^TrainHead is at (http:\S+)/.exec(line);
      if (found) {
        this.url = found[1].replace(/\/?$/, "/");
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
    rmSync(this.#dir, { recursive: true, force: true });
  }

  /**
   * `trainhead run` against this head, for what only a real worker makes: logs.
   * @param {string} name @param {string} script for the shell
   */
  async launch(name, script) {
    const args = ["run", "--head", this.url.replace(/\/$/, ""), "--data-dir", this.#dir];
    const command = ["--workers", "1", "--name", name, "--", "sh", "-c", script];
    const child = spawn(BIN, [...args, ...command], { stdio: "ignore" });
    const ended = once(child, "exit");
    return { ended, kill: () => child.kill("SIGTERM") };
  }

  /** @param {string} method @param {string} path @param {unknown} [body] @param {string} [token] */
  async call(method, path, body, token) {
    const response = await fetch(new URL(path, this.url), {
      method,
      headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  /** @param {Record<string, unknown>} [change] */
  async register(change = {}) {
    const body = {
      name: "mnist",
      controller: { actor_id: crypto.randomUUID(), lease_ttl_ms: 600_000 },
      ...change,
    };
    const { run, controller_token } = await this.call("POST", "api/train/runs", body);
    return new Controller(this, run.id, controller_token);
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

const REASONS = { FINISHED: "completed", ERRORED: "worker_failed", ABORTED: "stopped" };

/** The controller of one run, as the API sees it. */
export class Controller {
  attempt = -1;
  attempt_id = "";
  seq = 0;
  registered_ms = Date.now();

  /** @param {Head} head @param {string} id @param {string} token */
  constructor(head, id, token) {
    this.head = head;
    this.id = id;
    this.token = token;
  }

  /** @param {string} path @param {unknown} body */
  #post(path, body) {
    return this.head.call("POST", `api/train/runs/${encodeURIComponent(this.id)}/${path}`, body, this.token);
  }

  /** @param {string} state */
  state(state) {
    return this.#post("state", { state });
  }

  /** From registration to a running attempt. @param {number} [workers] */
  async run(workers = 2) {
    await this.state("SCHEDULING");
    await this.beginAttempt(workers);
    await this.state("RUNNING");
  }

  /** @param {number} workers */
  async beginAttempt(workers) {
    this.attempt += 1;
    this.attempt_id = crypto.randomUUID();
    await this.#post("attempts", { attempt_id: this.attempt_id, num_workers: workers });
    await this.#post(`attempts/${this.attempt_id}/running`, {
      workers: Array.from({ length: workers }, (_, rank) => ({
        actor_id: crypto.randomUUID(),
        world_rank: rank,
        local_rank: rank,
        node_rank: 0,
        node_id: "node-a",
        node_ip: "127.0.0.1",
        pid: 4711 + rank,
      })),
    });
  }

  /** @param {"FINISHED" | "ERRORED" | "ABORTED"} status @param {string} end_reason @param {string | null} [status_detail] */
  endAttempt(status, end_reason, status_detail = null) {
    return this.#post(`attempts/${this.attempt_id}/end`, { status, end_reason, status_detail });
  }

  /** @param {{ step: number, metrics: Record<string, number | string> }[]} reports @param {number} [rank] */
  report(reports, rank = 0) {
    this.seq += 1;
    const timed = reports.map((r) => ({ ...r, time_ms: Date.now() }));
    return this.#post("reports", {
      writer: `writer-${rank}`,
      seq: this.seq,
      attempt: this.attempt,
      rank,
      reports: timed,
    });
  }

  /** @param {number} number @param {string} state @param {number} accuracy */
  checkpoint(number, state, accuracy) {
    const path = `api/train/runs/${encodeURIComponent(this.id)}/checkpoints/${number}`;
    const body = {
      state,
      step: number * 10,
      attempt: 0,
      uri: `/checkpoints/checkpoint_${String(number).padStart(6, "0")}`,
      num_files: 4,
      size_bytes: 3 * 2 ** 20,
      metrics: { accuracy },
      committed_at_ms: this.registered_ms,
    };
    return this.head.call("PUT", path, body, this.token);
  }

  /** @param {"FINISHED" | "ERRORED" | "ABORTED"} run_status @param {string | null} [status_detail] */
  async end(run_status, status_detail = null) {
    if (this.attempt >= 0) {
      await this.endAttempt(run_status, REASONS[run_status]);
    }
    await this.state("SHUTTING_DOWN");
    await this.#post("end", { run_status, status_detail });
  }
}
