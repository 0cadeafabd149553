// Which runs are selected, by their ids: adding, taking away, a stretch of rows. Pure.

import { MOST_SELECTED } from "./view.js";

/** @param {string[]} selected @param {string} id */
export function toggle(selected, id) {
  if (selected.includes(id)) return selected.filter((s) => s !== id);
  return selected.length < MOST_SELECTED ? [...selected, id] : selected;
}

/** All rows between the two, ends included, as far as there is room. @param {string[]} selected @param {string[]} rows ids in their order @param {string} from @param {string} to */
export function stretch(selected, rows, from, to) {
  const [a, b] = [rows.indexOf(from), rows.indexOf(to)];
  if (a < 0 || b < 0) return toggle(selected, to);
  const between = rows.slice(Math.min(a, b), Math.max(a, b) + 1);
  return [...new Set([...selected, ...between])].slice(0, MOST_SELECTED);
}

/** All of these, or none if all were. @param {string[]} selected @param {string[]} rows */
export function toggleAll(selected, rows) {
  const some = rows.slice(0, MOST_SELECTED);
  if (some.every((id) => selected.includes(id))) return selected.filter((id) => !rows.includes(id));
  return [...new Set([...selected, ...some])].slice(0, MOST_SELECTED);
}
