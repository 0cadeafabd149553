// The checkpoints of one run, newest first: as many pages as were asked for, loaded anew when the trail says
// that one changed.
/** @import { CheckpointPage } from "../file_types.js" */

import { signal } from "@preact/signals";
import { errorText, listCheckpoints, pinCheckpoint } from "../server/api.js";
import { listen, listening } from "../server/events.js";
import { throttled } from "./frame.js";
import { openFailing } from "./retry.js";
import { say } from "./toasts.js";

/** @param {string} id */
export function openCheckpoints(id) {
  const page = signal(/** @type {CheckpointPage | null} */ (null));
  const error = signal(/** @type {string | null} */ (null));
  const closing = new AbortController();
  let pages = 1;

  const load = throttled(async () => {
    try {
      await listening;
      let all = await listCheckpoints(id, null, closing.signal);
      for (let n = 1; n < pages && all.next_page_token; n += 1) {
        const next = await listCheckpoints(id, all.next_page_token, closing.signal);
        all = { ...next, checkpoints: [...all.checkpoints, ...next.checkpoints] };
      }
      page.value = all;
      error.value = null;
    } catch (e) {
      failed(e);
    }
  }, 300);
  const failed = openFailing(closing.signal, (text) => (error.value = text), load);

  const stopListening = listen({
    trail: (event) => event.run_id === id && event.kind === "checkpoint" && load(),
    resync: load,
  });

  /** @param {number} number @param {"PUT" | "DELETE"} method */
  const pin = async (number, method) => {
    try {
      await pinCheckpoint(id, number, method);
    } catch (e) {
      say(errorText(e), { bad: true });
    }
    load();
  };

  load();
  return {
    page,
    error,
    pin,
    more: () => {
      pages += 1;
      load();
    },
    close: () => {
      closing.abort();
      stopListening();
    },
  };
}
