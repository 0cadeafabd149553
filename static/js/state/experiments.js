// The experiments, page by page, counted anew when an event says that a count has changed.
/** @import { Experiment, RunChange } from "../types.js" */

import { signal } from "@preact/signals";
import { errorText, listExperiments } from "../server/api.js";
import { listen, listening } from "../server/events.js";
import { throttled } from "./frame.js";
import { openRetry } from "./retry.js";

/** @typedef {{ experiments: Experiment[], token: string | null, loaded: boolean }} Experiments */

const AGAIN_EVERY_MS = 1000;

export function openExperiments() {
  const page = signal(/** @type {Experiments} */ ({ experiments: [], token: null, loaded: false }));
  const error = signal("");
  const closing = new AbortController();
  /** What was last heard of a run that lives, as far as it is counted here. @type {Map<string, string>} */
  const heard = new Map();
  let outdated = true;
  let more = false;

  /** @param {Experiment[]} before @param {string | null} token */
  const nextPage = async (before, token) => {
    const { experiments, next_page_token } = await listExperiments(token, closing.signal);
    // One that moved up meanwhile is not there twice.
    const all = new Map([...before, ...experiments].map((e) => [e.name, e]));
    return { experiments: [...all.values()], token: next_page_token, loaded: true };
  };

  /** As much as was loaded before, if that is outdated, and another page if that was asked for. */
  const load = throttled(async () => {
    const [anew, further] = [outdated, more];
    outdated = more = false;
    try {
      await listening;
      let now = page.peek();
      if (anew) {
        const least = now.experiments.length;
        now = await nextPage([], null);
        while (now.token && now.experiments.length < least) now = await nextPage(now.experiments, now.token);
      }
      if (further && now.token) now = await nextPage(now.experiments, now.token);
      page.value = now;
      error.value = "";
    } catch (e) {
      if (closing.signal.aborted) return;
      outdated ||= anew;
      more ||= further;
      error.value = errorText(e);
      retry();
    }
  }, AGAIN_EVERY_MS);
  const retry = openRetry(load, closing.signal);

  const recount = () => {
    outdated = true;
    load();
  };

  const stopListening = listen({
    run: (run) => {
      const now = counted(run);
      if (heard.get(run.id) === now) return;
      // Of runs that are over little more is heard, and there may be ever more of them.
      if (run.run_status === "STARTED") heard.set(run.id, now);
      else heard.delete(run.id);
      recount();
    },
    gone: (id) => {
      heard.delete(id);
      recount();
    },
    resync: () => {
      heard.clear();
      recount();
    },
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
