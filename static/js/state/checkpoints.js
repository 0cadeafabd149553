// The checkpoints of one run: the newest page, loaded anew when the trail says that one changed.
/** @import { CheckpointPage } from "../types.js" */

import { signal } from "@preact/signals";
import { errorText, listCheckpoints, pinCheckpoint } from "../server/api.js";
import { listen, listening } from "../server/events.js";
import { throttled } from "./frame.js";

/** @param {string} id */
export function openCheckpoints(id) {
  const page = signal(/** @type {CheckpointPage | null} */ (null));
  const error = signal(/** @type {string | null} */ (null));
  const closing = new AbortController();

  const load = throttled(async () => {
    try {
      await listening;
      page.value = await listCheckpoints(id, closing.signal);
      error.value = null;
    } catch (e) {
      if (!closing.signal.aborted) error.value = errorText(e);
    }
  }, 300);

  const stopListening = listen({
    trail: (event) => event.run_id === id && event.kind === "checkpoint" && load(),
    resync: load,
  });

  /** @param {number} number @param {"PUT" | "DELETE"} method */
  const pin = async (number, method) => {
    try {
      await pinCheckpoint(id, number, method);
    } catch (e) {
      error.value = errorText(e);
    }
    load();
  };

  load();
  return {
    page,
    error,
    pin,
    close: () => {
      closing.abort();
      stopListening();
    },
  };
}
