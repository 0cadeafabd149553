// A proxy between a browser and a head that counts what the head sends, by kind: also what a worker asks
// for that several tabs share, which no tab's debugger sees. It changes nothing, also not the name by which the
// head is asked: by another one, writes are refused.

import { createServer, request } from "node:http";

/** @typedef {"document" | "script" | "style" | "image" | "API" | "stream" | "other"} Kind */
/** @typedef {Record<Kind, { bytes: number, requests: number }>} Counts */

const KINDS = /** @type {const} */ (["document", "script", "style", "image", "API", "stream", "other"]);

/** @param {string} path @param {string} type @returns {Kind} */
function kindOf(path, type) {
  if (type.startsWith("text/event-stream")) return "stream";
  if (path.startsWith("/api/")) return "API";
  if (type.startsWith("text/html")) return "document";
  if (type.includes("javascript")) return "script";
  if (type.startsWith("text/css")) return "style";
  if (type.startsWith("image/")) return "image";
  return "other";
}

/** @returns {Counts} */
const nothing = () =>
  /** @type {Counts} */ (Object.fromEntries(KINDS.map((k) => [k, { bytes: 0, requests: 0 }])));

export class CountingProxy {
  counts = nothing();
  /** Streams of events that are open. */
  streams = 0;
  url = "";
  #server;

  /** @param {string} head */
  constructor(head) {
    this.#server = createServer((from, to) => {
      const { method, headers, url = "/" } = from;
      const target = new URL(url, head);
      const passed = request(target, { method, headers }, (answer) => {
        const kind = kindOf(url, answer.headers["content-type"] ?? "");
        this.counts[kind].requests += 1;
        // The status line, each header with its separators, and the empty line.
        const head_bytes = answer.rawHeaders.reduce((sum, h) => sum + h.length + 2, 19);
        this.counts[kind].bytes += head_bytes;
        answer.on("data", (chunk) => (this.counts[kind].bytes += chunk.length));
        if (kind === "stream") {
          this.streams += 1;
          answer.on("close", () => (this.streams -= 1));
        }
        to.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
        to.flushHeaders();
        answer.pipe(to);
      });
      passed.on("error", () => to.destroy());
      to.on("close", () => passed.destroy());
      from.pipe(passed);
    });
  }

  async start() {
    await new Promise((done) => this.#server.listen(0, "127.0.0.1", () => done(null)));
    const { port } = /** @type {import("node:net").AddressInfo} */ (this.#server.address());
    this.url = `http://127.0.0.1:${port}/`;
    return this;
  }

  /** Counts from here on. */
  reset() {
    this.counts = nothing();
  }

  /** @param {Kind[]} [kinds] */
  bytes(kinds = [...KINDS]) {
    return kinds.reduce((sum, k) => sum + this.counts[k].bytes, 0);
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
