// A search in a whole log, done by the head a part at a time: what was found so far, and how far it is.
// Of a log that grows, what came since is looked at too. It knows nothing of what is shown.

import { signal } from "@preact/signals";
import { searchLog } from "../server/logs.js";
import { inTurn } from "./in_turn.js";
import { openFailing } from "./retry.js";

/** @typedef {{ offset: number, text: string }} Match */
/** `matches`: where they are; `next`: from where on it is searched next. @typedef {{ matches: number[], searched: number, next: number, size: number, done: boolean, full: boolean }} Found */
/** @typedef {ReturnType<typeof openSearch>} Search */

/** So many matches are enough to step through; more are not looked for. */
export const MOST_MATCHES = 5000;
const AT_ONCE = 500;
/** The logs of many ranks are searched at the same time, and other parts of the page want answers too. */
const turn = inTurn(3);

/** @type {Found} */
export const NOTHING_FOUND = { matches: [], searched: 0, next: 0, size: 0, done: false, full: false };

/** @param {string} url of the log @param {{ q: string } | { errors: true }} what */
export function openSearch(url, what) {
  const found = signal(NOTHING_FOUND);
  const error = signal(/** @type {string | null} */ (null));
  const closing = new AbortController();
  let busy = false;

  const goOn = async () => {
    if (busy) return;
    busy = true;
    try {
      for (;;) {
        const { matches, next: from } = found.peek();
        const answer = await turn(() => searchLog(url, what, from, AT_ONCE, closing.signal));
        // The last line had no end yet when it was searched, and is searched again.
        const known = matches.filter((offset) => offset < from);
        const all = known.concat(answer.matches.map((m) => m.offset));
        const full = all.length >= MOST_MATCHES;
        const done = answer.next_from === null || full;
        const searched = answer.next_from ?? answer.scanned_to;
        const next = answer.next_from ?? answer.resume_from;
        found.value = { matches: all, searched, next, size: answer.size_bytes, done, full };
        error.value = null;
        if (done) break;
      }
    } catch (e) {
      failed(e);
    }
    busy = false;
  };

  const failed = openFailing(
    closing.signal,
    (text) => (error.value = text),
    () => void goOn(),
  );

  void goOn();
  return {
    found,
    error,
    /** The log has so many bytes now. @param {number} size */
    grown: (size) => {
      const { done, full, searched } = found.peek();
      if (done && !full && size > searched) void goOn();
    },
    close: () => closing.abort(),
  };
}

/**
 * The first line that is found, or null.
 * @param {string} url @param {AbortSignal} signal @param {(searched: number, size: number) => void} [progress]
 * @returns {Promise<Match | null>}
 */
export async function firstError(url, signal, progress) {
  for (let from = 0; ;) {
    const answer = await turn(() => searchLog(url, { errors: true }, from, 1, signal));
    if (answer.matches.length > 0) return answer.matches[0];
    if (answer.next_from === null) return null;
    from = answer.next_from;
    progress?.(answer.scanned_to, answer.size_bytes);
  }
}
