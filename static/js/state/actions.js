// What people do to runs from the dashboard, one or many at once: stop, delete with a way back, restore.
// What became of it comes back as news for all who listen; what went wrong is said.
/** @import { TrainRun } from "../types.js" */

import { signal } from "@preact/signals";
import { count, integer } from "../model/format.js";
import { errorText, restoreRun, stopRun, trashRun } from "../server/api.js";
import { announce } from "../server/events.js";
import { say } from "./toasts.js";

/** Asked of the head at the same time. */
const AT_ONCE = 8;

/** How far what is being done to many runs has come. */
export const doing = signal(/** @type {{ done: number, of: number } | null} */ (null));

/**
 * @param {string[]} ids @param {(id: string) => Promise<TrainRun>} what @param {string} not what a run was not, if so
 * @returns {Promise<string[]>} those that the head did it to
 */
async function each(ids, what, not) {
  const left = [...ids];
  /** @type {string[]} */
  const done = [];
  /** @type {string[]} */
  const refusals = [];
  const work = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      try {
        announce(await what(id));
        done.push(id);
      } catch (e) {
        refusals.push(errorText(e));
      }
      if (ids.length > 1) doing.value = { done: done.length + refusals.length, of: ids.length };
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  doing.value = null;
  const [first] = refusals;
  if (first) {
    const some = `${integer(refusals.length)} of ${count(ids.length, "run")} ${refusals.length === 1 ? "was" : "were"} not ${not}`;
    say(ids.length === 1 ? first : `${some}: ${first}`, { bad: true });
  }
  return done;
}

/** @param {string[]} ids */
export async function stopRuns(ids) {
  const done = await each(ids, stopRun, "asked to stop");
  if (done.length > 1) say(`${count(done.length, "run")} asked to stop`);
}

/** @param {string[]} ids */
export async function deleteRuns(ids) {
  const done = await each(ids, trashRun, "deleted");
  if (done.length > 0)
    say(`${count(done.length, "run")} deleted`, { undo: () => void restoreRuns(done, { quiet: true }) });
  return done;
}

/** @param {string[]} ids @param {{ quiet?: boolean }} [how] */
export async function restoreRuns(ids, { quiet = false } = {}) {
  const done = await each(ids, restoreRun, "restored");
  if (!quiet && done.length > 0) say(`${count(done.length, "run")} restored`);
  return done;
}
