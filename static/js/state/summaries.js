// What is known of every metric of some runs, least, greatest and last value, for a sweep: asked for when
// somebody looks at it, and again now and then while a run reports.
/** @import { Summaries } from "../model/sweep.js" */

import { signal } from "@preact/signals";
import { errorText } from "../server/api.js";
import { listen } from "../server/events.js";
import { listMetrics } from "../server/series.js";
import { eachOf } from "./compare.js";
import { throttled } from "./frame.js";

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
    error.value = "";
    const next = new Map(summaries.peek());
    await eachOf(ids, async (id) => {
      try {
        const { metrics } = await listMetrics(id, closing.signal);
        next.set(id, new Map(metrics.map((m) => [m.key, m])));
      } catch (e) {
        if (!closing.signal.aborted) error.value = errorText(e);
      }
    });
    if (!closing.signal.aborted) summaries.value = next;
  }, AGAIN_EVERY_MS);

  /** @param {Iterable<string>} ids */
  const again = (ids) => {
    for (const id of ids) due.add(id);
    if (due.size > 0) load();
  };

  const stopListening = listen({
    metrics: (tick) => wanted.has(tick.run_id) && again([tick.run_id]),
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
