// The nodes and who is on them: asked for every few seconds while somebody looks, since use ages without
// any event, and soon after an event. Names of runs come with the list of those that live.
/** @import { NodeList } from "../types.js" */

import { signal } from "@preact/signals";
import { ALL_RUNS } from "../model/view.js";
import { errorText, listNodes, listRuns } from "../server/api.js";
import { connection, listen, listening } from "../server/events.js";
import { setServerTime } from "./clock.js";
import { throttled } from "./frame.js";

const USE_EVERY_MS = 5000;
const SOON_MS = 1000;
/** Of more runs than this some are shown by their ids. */
const NAMES = 500;

export function openNodes() {
  const list = signal(/** @type {NodeList | null} */ (null));
  const names = signal(/** @type {Map<string, string>} */ (new Map()));
  const error = signal("");
  const closing = new AbortController();

  /** @param {NodeList} found */
  const nameRuns = async ({ nodes }) => {
    const ids = nodes.flatMap((n) => [...n.workers, ...n.reservations].map((p) => p.run_id));
    if (ids.every((id) => names.peek().has(id))) return;
    const live = { ...ALL_RUNS, status: [/** @type {const} */ ("STARTED")] };
    const { train_runs } = await listRuns(live, { page_size: NAMES, signal: closing.signal });
    // An id whose name is not found is its own name, so that it is not asked for each time.
    const known = ids.map((id) => /** @type {const} */ ([id, names.peek().get(id) ?? id]));
    names.value = new Map([...known, ...train_runs.map((r) => /** @type {const} */ ([r.id, r.name]))]);
  };

  const load = throttled(async () => {
    try {
      await listening;
      const found = await listNodes(closing.signal);
      setServerTime(found.server_time_ms);
      // Without names the ids are shown.
      await nameRuns(found).catch(() => {});
      list.value = found;
      error.value = "";
    } catch (e) {
      if (!closing.signal.aborted) error.value = errorText(e);
    }
  }, SOON_MS);

  const stopListening = listen({
    run: (run) => {
      if (names.peek().has(run.id)) names.value = new Map(names.peek()).set(run.id, run.name);
      load();
    },
    resync: load,
  });

  const timer = setInterval(() => {
    if (!document.hidden && connection.peek().state === "live") load();
  }, USE_EVERY_MS);

  load();
  return {
    list,
    names,
    error,
    close: () => {
      closing.abort();
      stopListening();
      clearInterval(timer);
    },
  };
}
