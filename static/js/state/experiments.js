// The experiments, page by page, counted anew when an event says that a count has changed.
/** @import { Experiment, RunChange } from "../types.js" */

import { signal } from "@preact/signals";
import { errorText, listExperiments } from "../server/api.js";
import { listen, listening } from "../server/events.js";
import { throttled } from "./frame.js";

/** @typedef {{ experiments: Experiment[], token: string | null, loaded: boolean }} Experiments */

const AGAIN_EVERY_MS = 1000;

export function openExperiments() {
  const page = signal(/** @type {Experiments} */ ({ experiments: [], token: null, loaded: false }));
  const error = signal("");
  const closing = new AbortController();
  /** What was last heard of a run, as far as it is counted here. @type {Map<string, string>} */
  const heard = new Map();
  let more = false;

  /** As much as was loaded before, and another page if that was asked for. */
  const load = throttled(async () => {
    const least = page.peek().experiments.length;
    const further = more;
    more = false;
    try {
      await listening;
      /** @type {Experiment[]} */
      const experiments = [];
      let token = /** @type {string | null} */ (null);
      do {
        const next = await listExperiments(token, closing.signal);
        experiments.push(...next.experiments);
        token = next.next_page_token;
      } while (token && (further ? experiments.length <= least : experiments.length < least));
      page.value = { experiments, token, loaded: true };
      error.value = "";
    } catch (e) {
      if (!closing.signal.aborted) error.value = errorText(e);
    }
  }, AGAIN_EVERY_MS);

  const stopListening = listen({
    run: (run) => {
      const now = counted(run);
      if (heard.get(run.id) === now) return;
      heard.set(run.id, now);
      load();
    },
    resync: load,
  });

  load();
  return {
    page,
    error,
    loadMore: () => {
      more = true;
      load();
    },
    close: () => {
      closing.abort();
      stopListening();
    },
  };
}

/** @param {RunChange} run */
const counted = (run) => JSON.stringify([run.experiment, run.run_status, Boolean(run.trashed_at_ms)]);
