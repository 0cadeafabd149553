// The part of the x-axis that is looked at: made by a drag or by keys, rounded to what a URL can carry,
// and as a question to the head. Pure.
/** @import { XAxis, Zoom } from "./view.js" */

/** Digits of a zoom that count, as parts of its width. */
const FINE = 1000;
/** What rounding has left of all of it is all of it. */
const NEARLY_ALL = 0.999;

/**
 * What was chosen, as it stands in the URL: whole steps or milliseconds, seconds as fine as can be
 * seen. Null if nothing is left of it.
 * @param {Zoom} zoom @param {XAxis} x @returns {Zoom | null}
 */
export function cleanZoom([from, to], x) {
  const unit = x === "time" ? 10 ** Math.floor(Math.log10(Math.max((to - from) / FINE, 1e-3))) : 1;
  const round = (/** @type {number} */ v) => Number((Math.round(v / unit) * unit).toFixed(3));
  const [low, high] = [round(from), round(to)];
  return low < high ? [low, high] : null;
}

/** In (below 1) or out, around the middle; null once it is all that there is. @param {Zoom} range shown @param {Zoom} whole @param {number} factor @param {XAxis} x @returns {Zoom | null} */
export function zoomBy(range, whole, factor, x) {
  const half = ((range[1] - range[0]) / 2) * factor;
  const middle = (range[0] + range[1]) / 2;
  const next = within([middle - half, middle + half], whole);
  if (next[1] - next[0] >= (whole[1] - whole[0]) * NEARLY_ALL) return null;
  return cleanZoom(next, x) ?? range;
}

/** To the side by a part of its width, not beyond the ends. @param {Zoom} range @param {Zoom} whole @param {number} part @param {XAxis} x @returns {Zoom | null} */
export function panBy(range, whole, part, x) {
  const by = (range[1] - range[0]) * part;
  return cleanZoom(within([range[0] + by, range[1] + by], whole), x);
}

/** Moved, and cut if it must be, to lie in the whole. @param {Zoom} range @param {Zoom} whole @returns {Zoom} */
function within([from, to], [first, last]) {
  if (from < first) return [first, Math.min(last, to + (first - from))];
  if (to > last) return [Math.max(first, from - (to - last)), last];
  return [from, to];
}

/** @typedef {{ from_step?: number, to_step?: number, from_ms?: number, to_ms?: number }} Span */

/** What to ask the head for. @param {Zoom | null} zoom @param {XAxis} x @param {number} start_ms of the run @returns {Span} */
export function spanOf(zoom, x, start_ms) {
  if (!zoom) return {};
  if (x === "step")
    return { from_step: Math.max(0, Math.floor(zoom[0])), to_step: Math.max(0, Math.ceil(zoom[1])) };
  const [from, to] = x === "wall" ? zoom : zoom.map((s) => start_ms + s * 1000);
  return { from_ms: Math.floor(from), to_ms: Math.ceil(to) };
}
