// One rank's log: its end first, then what is written while it is followed, and earlier parts
// by range when asked. A broken stream is taken up where it ended; bytes that are already here
// are not shown twice. Quiet while the tab is hidden. Never loads a whole large log.
/** @import { Span } from "../model/terminal.js" */

import { signal } from "@preact/signals";
import { Terminal } from "../model/terminal.js";
import { errorText, openLog, readLog } from "../server/api.js";

const TAIL_LINES = 2000;
const EARLIER_BYTES = 256 * 1024;
const RETRY_MS = 2000;

/** @typedef {"loading" | "following" | "ended" | "lost"} LogState */

/** @param {string} url @param {() => boolean} growing may more be written to it? */
export function openLogView(url, growing) {
  const state = signal(/** @type {LogState} */ ("loading"));
  const error = signal(/** @type {string | null} */ (null));
  /** Changes whenever there is something new to draw. */
  const version = signal(0);
  /** Where the part of the log ends that is not held; 0: there is none; null: the start was dropped here. */
  const start = signal(/** @type {number | null} */ (0));
  let terminal = new Terminal();
  let decoder = new TextDecoder();
  /** @type {Span[][]} */
  let before = [];
  let end = 0;
  let closed = false;
  let stream = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  /** @param {number} offset @param {number | null} hole */
  const startOver = (offset, hole) => {
    terminal = new Terminal();
    decoder = new TextDecoder();
    before = [];
    // Between the two nothing is there: the middle of a long log may be left out.
    start.value = hole ?? offset;
    end = offset;
  };

  /** @param {Uint8Array} bytes */
  const accept = (bytes) => {
    end += bytes.length;
    terminal.write(decoder.decode(bytes, { stream: true }));
    if (terminal.dropped > 0) {
      start.value = null;
      before = [];
    }
    version.value += 1;
  };

  /** @param {ReadableStream<Uint8Array> | null} body @param {number} offset @param {number | null} hole */
  const readAll = async (body, offset, hole) => {
    if (version.peek() === 0 || offset > end) startOver(offset, hole);
    let skip = end - offset;
    version.value += 1;
    const reader = body?.getReader();
    for (;;) {
      const part = await reader?.read();
      if (!part || part.done) return;
      if (skip < part.value.length) accept(part.value.subarray(skip));
      skip = Math.max(0, skip - part.value.length);
    }
  };

  const connect = async () => {
    clearTimeout(timer);
    stream.abort();
    const mine = new AbortController();
    stream = mine;
    try {
      const follow = growing();
      const { offset, hole, body } = await openLog(url, {
        tail: TAIL_LINES,
        follow,
        signal: mine.signal,
      });
      state.value = follow ? "following" : "ended";
      error.value = null;
      await readAll(body, offset, hole);
      if (!growing()) state.value = "ended";
    } catch (e) {
      if (mine.signal.aborted) return;
      state.value = "lost";
      error.value = errorText(e);
    }
    // A head that is shut down ends its streams as properly as the end of the run does.
    if (!closed && growing()) timer = setTimeout(connect, RETRY_MS);
  };

  const onVisibility = () => {
    if (state.peek() === "ended") return;
    if (document.hidden) stream.abort();
    else void connect();
  };
  document.addEventListener("visibilitychange", onVisibility);
  void connect();

  /** Loads the part before the first byte held. How many lines that added is the answer. */
  const earlier = async () => {
    const to = start.peek();
    if (!to) return 0;
    const from = Math.max(0, to - EARLIER_BYTES);
    try {
      const part = new Terminal();
      const { offset, hole, bytes: found } = await readLog(url, from, to, stream.signal);
      // If all of it was left out meanwhile, what comes is held already.
      const bytes = found.subarray(0, Math.max(0, to - offset));
      // A part that begins in the middle of a line leaves that line to the next one, if there is one.
      const newline = offset === 0 || hole !== null ? 0 : bytes.indexOf(10) + 1;
      const cut = newline < bytes.length ? newline : 0;
      part.write(new TextDecoder().decode(bytes.subarray(cut)));
      const lines = Array.from({ length: part.length }, (_, i) => part.line(i));
      before = [...lines, ...before];
      start.value = hole ?? Math.min(offset, to) + cut;
      version.value += 1;
      return lines.length;
    } catch (e) {
      if (!stream.signal.aborted) error.value = errorText(e);
      return 0;
    }
  };

  return {
    state,
    error,
    version,
    start,
    earlier,
    count: () => before.length + terminal.length,
    /** @param {number} i */
    line: (i) => (i < before.length ? before[i] : terminal.line(i - before.length)),
    close: () => {
      closed = true;
      clearTimeout(timer);
      stream.abort();
      document.removeEventListener("visibilitychange", onVisibility);
    },
  };
}
