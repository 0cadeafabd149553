// What people do to runs from the dashboard, one or many at once: stop, delete with a way back, restore.
// What became of it comes back as news for all who listen; what went wrong is said.
/** @import { TrainRun } from "../types.js" */

import { count } from "../model/format.js";
import { errorText, restoreRun, stopRun, trashRun } from "../server/api.js";
import { announce } from "../server/events.js";
import { say } from "./toasts.js";

/** Asked of the head at the same time. */
const AT_ONCE = 8;

/**
 * @param {string[]} ids @param {(id: string) => Promise<TrainRun>} what
 * @returns {Promise<{ done: string[], wrong: string | null }>} `wrong`: the first answer that was no
 */
async function each(ids, what) {
  const left = [...ids];
  /** @type {string[]} */
  const done = [];
  /** @type {string | null} */
  let wrong = null;
  const work = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      try {
        announce(await what(id));
        done.push(id);
      } catch (e) {
        wrong ??= errorText(e);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { done, wrong };
}

/** @param {string[]} ids */
export async function stopRuns(ids) {
  const { done, wrong } = await each(ids, stopRun);
  if (done.length > 1) say(`${count(done.length, "run")} asked to stop`);
  if (wrong) say(wrong, { bad: true });
}

/** @param {string[]} ids */
export async function deleteRuns(ids) {
  const { done, wrong } = await each(ids, trashRun);
  if (done.length > 0)
    say(`${count(done.length, "run")} deleted`, { undo: () => void restoreRuns(done, { quiet: true }) });
  if (wrong) say(wrong, { bad: true });
  return done;
}

/** @param {string[]} ids @param {{ quiet?: boolean }} [how] */
export async function restoreRuns(ids, { quiet = false } = {}) {
  const { done, wrong } = await each(ids, restoreRun);
  if (!quiet && done.length > 0) say(`${count(done.length, "run")} restored`);
  if (wrong) say(wrong, { bad: true });
  return done;
}
