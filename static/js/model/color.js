// Which colour of the fixed series a run has: keyed by its id, so it is the same on every page
// and in every browser. The colours themselves are in css/tokens.css, one set a theme.

export const SERIES = 8;

/** FNV-1a: short, and spreads ids that differ in one digit. @param {string} id */
export function seriesIndex(id) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i += 1) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193) >>> 0;
  return hash % SERIES;
}
