// What is known of every metric of some runs, least, greatest and last value, for a sweep: asked for when
// somebody looks at it, and again now and then while a run reports. What failed is asked for once more later.
/** @import { Summaries } from "../model/sweep.js" */

import { signal } from "@preact/signals";
import { errorText } from "../server/api.js";
import { listen } from "../server/events.js";
import { listMetrics } from "../server/series.js";
import { eachOf } from "./compare.js";
import { throttled } from "./frame.js";
import { isFinal, openRetry } from "./retry.js";

const AGAIN_EVERY_MS = 5000;

export function openSummaries() {
  const summaries = signal(/** @type {Summaries} */ (new Map()));
  const error = signal("");
  const closing = new AbortController();
  /** @type {Set<string>} */
  const wanted = new Set();
  /** @type {Set<string>} */
  const due = new Set();

  const load = throttled(async () => {
    const ids = [...due];
    due.clear();
    let fault = "";
    const next = new Map(summaries.peek());
    await eachOf(ids, async (id) => {
      try {
        const { metrics } = await listMetrics(id, closing.signal);
        next.set(id, new Map(metrics.map((m) => [m.key, m])));
      } catch (e) {
        if (closing.signal.aborted) return;
        fault = errorText(e);
        if (isFinal(e)) {
          // It has no values, rather than that they are still awaited.
          if (!next.has(id)) next.set(id, new Map());
          return;
        }
        due.add(id);
        retry();
      }
    });
    if (closing.signal.aborted) return;
    error.value = fault;
    summaries.value = next;
  }, AGAIN_EVERY_MS);
  const retry = openRetry(load, closing.signal);

  /** @param {Iterable<string>} ids */
  const again = (ids) => {
    for (const id of ids) due.add(id);
    if (due.size > 0) load();
  };

  const stopListening = listen({
    metrics: (tick) => wanted.has(tick.run_id) && again([tick.run_id]),
    // Of a run that ends the last tick may not come.
    run: ({ id, run_status }) => run_status !== "STARTED" && wanted.has(id) && again([id]),
    gone: (id) => wanted.delete(id),
    resync: () => again(wanted),
  });

  return {
    summaries,
    error,
    /** @param {string[]} ids */
    want: (ids) => {
      const fresh = ids.filter((id) => !wanted.has(id));
      for (const id of fresh) wanted.add(id);
      again(fresh);
    },
    close: () => {
      closing.abort();
      stopListening();
    },
  };
}
