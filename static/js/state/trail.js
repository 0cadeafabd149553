// The trail of one run: its pages, oldest first, and new entries as they happen. New entries are
// only appended once the end is loaded; before that they come with the pages.
/** @import { TrailEvent } from "../types.js" */

import { signal } from "@preact/signals";
import { listEvents } from "../server/api.js";
import { listen, listening } from "../server/events.js";
import { perFrame } from "./frame.js";
import { openFailing } from "./retry.js";

/** @typedef {{ events: TrailEvent[], token: string | null, loaded: boolean }} Trail */

/** @param {string} id */
export function openTrail(id) {
  const trail = signal(/** @type {Trail} */ ({ events: [], token: null, loaded: false }));
  const error = signal(/** @type {string | null} */ (null));
  const closing = new AbortController();
  let busy = false;
  /** What happened before the end was loaded: the last page may be older than it. @type {TrailEvent[]} */
  let late = [];
  /** The ids of all that are there. */
  const known = new Set();

  /** @param {TrailEvent[]} more @param {string | null} token */
  const append = (more, token) => {
    const all = [...trail.peek().events];
    for (const event of token === null ? [...more, ...late] : more) {
      if (!known.has(event.id)) all.push(event);
      known.add(event.id);
    }
    if (token === null) late = [];
    trail.value = { events: all, token, loaded: true };
  };

  const loadMore = async () => {
    if (busy) return;
    busy = true;
    try {
      await listening;
      const page = await listEvents(id, trail.peek().token, closing.signal);
      append(page.events, page.next_page_token);
      error.value = null;
    } catch (e) {
      failed(e);
    } finally {
      busy = false;
    }
  };

  const failed = openFailing(
    closing.signal,
    (text) => (error.value = text),
    () => void loadMore(),
  );

  const happened = perFrame((/** @type {TrailEvent[]} */ events) => {
    const { loaded, token } = trail.peek();
    if (loaded && token === null && !busy) append(events, null);
    else late = late.concat(events);
  });

  const stopListening = listen({
    trail: (event) => event.run_id === id && happened(event),
    // From the start, for the token of a last page is none; known entries are not shown twice.
    resync: () => void loadMore(),
  });

  void loadMore();
  return {
    trail,
    error,
    loadMore,
    close: () => {
      closing.abort();
      stopListening();
    },
  };
}
