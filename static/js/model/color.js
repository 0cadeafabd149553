// Which curve style of the fixed series a run has: keyed by its id, so it is the same on every page
// and in every browser. The colours are in css/tokens.css, one set a theme. Eight colours can be told
// apart by colour-blind eyes; four kinds of lines make them 32.

export const SERIES = 8;
/** Dashes and gaps, in CSS pixels; the first is a plain line. @type {readonly number[][]} */
export const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3]];

/** FNV-1a: short, and spreads ids that differ in one digit. @param {string} id */
function hashOf(id) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i += 1) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193) >>> 0;
  return hash;
}

/** @param {string} id */
export const seriesIndex = (id) => hashOf(id) % SERIES;

/** Of several runs side by side. @param {string} id @returns {{ color: number, dash: number }} */
export function seriesStyle(id) {
  const hash = hashOf(id);
  return { color: hash % SERIES, dash: Math.floor(hash / SERIES) % DASHES.length };
}
