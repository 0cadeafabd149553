// Where a text occurs in a line that is made of styled spans. Pure. ASCII letters of either case are the
// same, as for the head.
/** @import { Span } from "./terminal.js" */

/** @param {string} text */
const fold = (text) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

/** Does it occur? @param {Span[]} spans @param {string} find */
export const hits = (spans, find) => fold(textOf(spans)).includes(fold(find));

/** @param {Span[]} spans */
const textOf = (spans) => (spans.length === 1 ? spans[0].text : spans.map((s) => s.text).join(""));

/** The same spans, cut where matches begin and end. @param {Span[]} spans @param {string} find @returns {(Span & { hit?: boolean })[]} */
export function marked(spans, find) {
  if (!find) return spans;
  const text = fold(textOf(spans));
  const wanted = fold(find);
  if (!text.includes(wanted)) return spans;
  /** Where hits begin and end. @type {number[]} */
  const edges = [];
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length))
    edges.push(at, at + wanted.length);
  /** @type {(Span & { hit?: boolean })[]} */
  const out = [];
  let from = 0;
  let next = 0;
  for (const span of spans) {
    const to = from + span.text.length;
    for (let at = from; at < to;) {
      while (next < edges.length && edges[next] <= at) next += 1;
      const until = Math.min(to, edges[next] ?? to);
      const piece = { text: span.text.slice(at - from, until - from), style: span.style };
      out.push(next % 2 === 1 ? { ...piece, hit: true } : piece);
      at = until;
    }
    from = to;
  }
  return out;
}

/**
 * The match to go to from where the reader is: offsets in order, round at the ends. −1: there is none.
 * @param {number[]} places of the matches, in order @param {number} from @param {1 | -1} step
 */
export function stepTo(places, from, step) {
  if (places.length === 0) return -1;
  if (step > 0) {
    const next = places.findIndex((p) => p > from);
    return next < 0 ? 0 : next;
  }
  const next = places.findLastIndex((p) => p < from);
  return next < 0 ? places.length - 1 : next;
}
