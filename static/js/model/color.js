// Which colour of the fixed series a run has: keyed by its id, so it is the same on every page and in
// every browser. The colours are in css/tokens.css, one set a theme: eight that can be told apart, also
// by colour-blind eyes. Among several runs those of one colour are told apart by their dashes. Pure.

export const SERIES = 8;
/** Dashes and gaps, in CSS pixels; the first is a plain line. @type {readonly number[][]} */
export const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3]];

/** @typedef {{ color: number, dash: number }} Style indices of the series and of DASHES */

/** FNV-1a: short, and spreads ids that differ in one digit. @param {string} id */
export function seriesIndex(id) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i += 1) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193) >>> 0;
  return hash % SERIES;
}

/** @param {string} id @returns {Style} */
export const seriesStyle = (id) => ({ color: seriesIndex(id), dash: 0 });

/**
 * Of several runs side by side: whatever their order, each keeps its colour as long as there is a dash
 * that no other of that colour has. Beyond 32 runs styles come again.
 * @param {readonly string[]} ids @returns {Map<string, Style>}
 */
export function seriesStyles(ids) {
  /** @type {Map<string, Style>} */
  const styles = new Map();
  const taken = new Array(SERIES).fill(0);
  for (const id of [...ids].sort()) {
    const own = seriesIndex(id);
    const free = Array.from({ length: SERIES }, (_, i) => (own + i) % SERIES);
    const color = free.find((c) => taken[c] < DASHES.length) ?? own;
    styles.set(id, { color, dash: taken[color] % DASHES.length });
    taken[color] += 1;
  }
  return styles;
}
