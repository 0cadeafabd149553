// One rank's log: a part of it, from its end or around a place, to which earlier and later parts are
// added by range as they are wanted; never all of a large one. While more may be written its size is
// asked for now and then, for a stream would hold one of the few connections that a browser has.
// Quiet while the tab is hidden.
/** @import { LogRow } from "../model/log_window.js" */

import { signal } from "@preact/signals";
import { LogWindow } from "../model/log_window.js";
import { errorText } from "../server/api.js";
import { logSize, readLog } from "../server/logs.js";

const FIRST_BYTES = 256 * 1024;
const MORE_BYTES = 128 * 1024;
/** What grew by more since the last look is not read through: the end is what is followed. */
const SKIP_BYTES = 2 ** 20;
const LOOK_EVERY_MS = 700;
const RETRY_MS = 2000;

/** @typedef {"loading" | "live" | "ended" | "lost"} LogState */
/** Where the reader is to look: the line of that number; `seq` tells one wish from the next. @typedef {{ line: number, seq: number }} Target */
/** @typedef {ReturnType<typeof openLogView>} LogView */

/** @param {string} url @param {{ growing: () => boolean, late: () => boolean, following: () => boolean, at: number | null }} how `growing`: may more be written to it? `late`: may what was written still arrive? */
export function openLogView(url, { growing, late, following, at }) {
  const state = signal(/** @type {LogState} */ ("loading"));
  const error = signal(/** @type {string | null} */ (null));
  /** Changes whenever there is something new to draw. */
  const version = signal(0);
  const size = signal(0);
  const target = signal(/** @type {Target | null} */ (null));
  const closing = new AbortController();
  let held = new LogWindow();
  let opened = false;
  /** @type {(() => Promise<void>) | null} */
  let doing = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** A wish that came while something was read. @type {(() => Promise<void>) | null} */
  let next = null;
  let isMust = false;

  /**
   * One thing at a time, for each changes where the next one begins. What is asked for meanwhile comes after it:
   * a wish of the reader (`must`) before the next part, of which the last one asked for is the one that is wanted
   * by now, and a look not at all.
   * @param {() => Promise<void>} work @param {"must" | "may" | "look"} [how]
   */
  const once = async (work, how = "may") => {
    if (doing) {
      if (how === "must" || (how === "may" && !isMust && doing !== work)) {
        next = work;
        isMust = how === "must";
      }
      return;
    }
    doing = work;
    try {
      await work();
      error.value = null;
    } catch (e) {
      if (closing.signal.aborted) return;
      error.value = errorText(e);
      state.value = "lost";
      again(RETRY_MS);
    }
    doing = null;
    const then = next;
    next = null;
    isMust = false;
    if (then) await once(then, "must");
  };

  /** @param {number} from @param {number} to */
  const read = (from, to) => readLog(url, Math.max(0, from), Math.min(to, size.peek()), closing.signal);

  /** @param {number} from @param {number} to */
  const open = async (from, to) => {
    const { pieces, beyond } = await read(from, to);
    if (pieces.length === 0 && beyond) pieces.push(beyond);
    held =
      pieces.length > 0 ? LogWindow.of(pieces) : LogWindow.hole(Math.max(0, from), Math.min(to, size.peek()));
    version.value += 1;
  };

  /** @param {number} line counted from the first one held */
  const lookAt = (line) => (target.value = { line: held.base + line, seq: (target.peek()?.seq ?? 0) + 1 });

  const toEnd = async () => {
    await open(size.peek() - FIRST_BYTES, size.peek());
    lookAt(held.length - 1);
  };

  const later = async () => {
    const to = size.peek();
    if (held.end >= to) return;
    if (following() && to - held.end > SKIP_BYTES) return toEnd();
    const from = held.end;
    const { pieces, beyond } = await read(from, from + MORE_BYTES);
    if (pieces.length === 0) pieces.push(beyond ?? { offset: to, bytes: new Uint8Array(), hole: from });
    for (const piece of pieces) held.append(piece);
    version.value += 1;
    // What is followed is read to its end at once, however much a look finds.
    if (following() && held.end < size.peek()) await later();
  };

  const earlier = async () => {
    const to = held.start;
    if (to <= 0) return;
    const { pieces, beyond } = await read(to - MORE_BYTES, to);
    const hole = LogWindow.hole(beyond?.hole ?? Math.max(0, to - MORE_BYTES), to);
    held.prepend(pieces.length > 0 ? LogWindow.of(pieces) : hole);
    version.value += 1;
  };

  /** @param {number} place */
  const seek = async (place) => {
    if (place < held.start || place >= held.end) await open(place - MORE_BYTES, place + MORE_BYTES);
    lookAt(held.find(place));
  };

  const look = async () => {
    const atEnd = opened && held.end >= size.peek();
    // Asked before, for what it writes last may come with its end.
    const more = growing();
    size.value = await logSize(url, closing.signal);
    if (!opened && at !== null) await seek(Math.min(at, Math.max(0, size.peek() - 1)));
    else if (!opened || size.peek() < held.end) await toEnd();
    else if (following() || (atEnd && size.peek() - held.end <= SKIP_BYTES)) await later();
    opened = true;
    state.value = more ? "live" : "ended";
  };

  /** @param {number} ms */
  const again = (ms) => {
    clearTimeout(timer);
    if (!closing.signal.aborted) timer = setTimeout(lookOn, ms);
  };
  const lookOn = async () => {
    clearTimeout(timer);
    if (!document.hidden) await once(look, "look");
    if (state.peek() !== "ended" || late()) again(state.peek() === "lost" ? RETRY_MS : LOOK_EVERY_MS);
  };
  const onVisibility = () => void (!document.hidden && lookOn());
  document.addEventListener("visibilitychange", onVisibility);

  void lookOn();

  return {
    state,
    error,
    version,
    size,
    target,
    earlier: () => once(earlier),
    later: () => once(later),
    toEnd: () => once(toEnd, "must"),
    toStart: () =>
      once(async () => {
        await open(0, FIRST_BYTES);
        lookAt(0);
      }, "must"),
    /** @param {number} place */
    seek: (place) => once(() => seek(place), "must"),
    /** The run may have ended. */
    look: () => void lookOn(),
    /** What is held is another part, or the same one as before. */
    part: () => held,
    base: () => held.base,
    count: () => held.length,
    /** @param {number} i @returns {LogRow} */
    row: (i) => held.row(i),
    /** The number of the line that holds a byte; −1: it is not held. @param {number} place */
    lineAt: (place) => (place < held.start || place >= held.end ? -1 : held.base + held.find(place)),
    isAtStart: () => held.start <= 0,
    isAtEnd: () => held.end >= size.peek(),
    close: () => {
      closing.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisibility);
    },
  };
}
