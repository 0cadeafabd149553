// One run as the Run page shows it. Changes and ticks come by the event stream; what they do not
// carry (attempts, first failure) is asked for after a change, and evidence, which ages without any
// event, every few seconds while the run lives and somebody looks.
/** @import { FullRun, RunExtras } from "../types.js" */
/** @import { Row } from "../model/run_list.js" */

import { signal } from "@preact/signals";
import { applyChange, tickRow, toRow } from "../model/run_list.js";
import { isLive } from "../model/status.js";
import { ALL_RUNS } from "../model/view.js";
import { ApiError, errorText, getEvidence, getRun } from "../server/api.js";
import { connection, listen, listening } from "../server/events.js";
import { setServerTime } from "./clock.js";
import { throttled } from "./frame.js";

/** @typedef {Row & RunExtras} RunState */

const EVIDENCE_EVERY_MS = 5000;

/** @param {unknown} e */
const problemOf = (e) => ({ text: errorText(e), missing: e instanceof ApiError && e.status === 404 });

/** @param {string} id */
export function openRun(id) {
  const run = signal(/** @type {RunState | null} */ (null));
  const error = signal(/** @type {{ text: string, missing: boolean } | null} */ (null));
  const closing = new AbortController();
  /** Counts what was asked for whole. */
  let loads = 0;
  let looking = false;

  /** @param {FullRun} full */
  const accept = (full) => {
    const old = run.peek();
    const row = /** @type {RunState} */ (toRow(full));
    // A rate that was measured here is newer than the head's median; without one there is a reason.
    const measured = old && row.rate !== null;
    run.value = measured ? { ...row, rate: old.rate ?? row.rate, measured: old.measured } : row;
  };

  const load = throttled(async () => {
    try {
      await listening;
      const full = await getRun(id, closing.signal);
      setServerTime(full.server_time_ms);
      loads += 1;
      accept(full);
      error.value = null;
    } catch (e) {
      if (closing.signal.aborted) return;
      error.value = problemOf(e);
    }
  }, 300);

  const look = async () => {
    if (looking) return;
    looking = true;
    const before = loads;
    try {
      const { evidence, server_time_ms } = await getEvidence(id, closing.signal);
      setServerTime(server_time_ms);
      const old = run.peek();
      // It may be older than the whole that came meanwhile.
      if (old && loads === before) accept({ ...old, evidence });
    } catch (e) {
      if (!closing.signal.aborted) error.value = problemOf(e);
    }
    looking = false;
  };

  const stopListening = listen({
    run: (change) => {
      const old = run.peek();
      if (change.id !== id) return;
      if (old) {
        const [row] = applyChange({ rows: [old], complete: true }, change, {
          ...ALL_RUNS,
          // In the trash or not, it is the run of this page.
          trashed: Boolean(change.trashed_at_ms),
        });
        run.value = /** @type {RunState} */ (row);
      }
      load();
    },
    metrics: (tick) => {
      const old = run.peek();
      if (old && tick.run_id === id) run.value = /** @type {RunState} */ (tickRow(old, tick));
    },
    // Deleted for good, also from the trash.
    gone: (gone) => gone === id && load(),
    resync: load,
  });

  const timer = setInterval(() => {
    const current = run.peek();
    const useful = current === null || isLive(current) || error.peek() !== null;
    if (!useful || document.hidden || connection.peek().state !== "live" || error.peek()?.missing) return;
    // What could not be had is asked for whole.
    if (current === null || error.peek()) load();
    else void look();
  }, EVIDENCE_EVERY_MS);

  load();
  return {
    run,
    error,
    close: () => {
      closing.abort();
      stopListening();
      clearInterval(timer);
    },
  };
}
