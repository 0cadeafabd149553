// How attempts of one run are drawn as curves of their own: in the run's colour, the newest plain, older
// ones fainter and dashed. Pure.

import { DASHES, seriesIndex } from "./color.js";

/** @param {string} run @param {number} attempts how many there have been */
export function branches(run, attempts) {
  const newest = Math.max(0, attempts - 1);
  return Array.from({ length: newest + 1 }, (_, attempt) => ({
    id: `${run} ${attempt}`,
    label: `attempt ${attempt}`,
    attempt,
    color: seriesIndex(run),
    // Dashes repeat, but never the plain line of the newest.
    dash: attempt === newest ? 0 : 1 + ((newest - attempt - 1) % (DASHES.length - 1)),
    isFaint: attempt !== newest,
  }));
}
