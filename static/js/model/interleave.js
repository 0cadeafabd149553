// Lines of several ranks as one list, in the order of the times that stand at their beginnings. Log
// files carry no times of their own: a line without one belongs to the line before it. Pure.
/** @import { Row } from "./terminal.js" */

/** `time`: of the line itself; null: it has none; `dayless`: its day was found out. @typedef {Row & { rank: number, time: number | null, dayless?: boolean }} RankLine */
/** `whole`: the log is held from its first byte on. @typedef {{ rank: number, whole: boolean, lines: RankLine[] }} RankPart */

/** @param {RankPart} part */
const firstTime = (part) => part.lines.find((l) => l.time !== null)?.time ?? null;

/** Does any line have a time? Without any there is no order but that of the ranks. @param {RankPart[]} parts */
export const haveTimes = (parts) => parts.some((p) => firstTime(p) !== null);

/** The ranks of which no line has a time. @param {RankPart[]} parts */
export const withoutTimes = (parts) =>
  parts.filter((p) => p.lines.length > 0 && firstTime(p) === null).map((p) => p.rank);

/**
 * From when on nothing is missing: before the first line of a rank that is not held whole, others would
 * stand alone. −∞: all of it is held.
 * @param {RankPart[]} parts
 */
export function completeFrom(parts) {
  const firsts = parts.filter((p) => !p.whole).map((p) => firstTime(p) ?? -Infinity);
  return Math.max(-Infinity, ...firsts);
}

/** The ranks whose earlier lines are to be read next, so that more becomes complete. @param {RankPart[]} parts */
export function toExtend(parts) {
  const from = completeFrom(parts);
  return parts.filter((p) => !p.whole && (firstTime(p) ?? -Infinity) === from).map((p) => p.rank);
}

/** @param {RankPart[]} parts @returns {RankLine[]} each rank's lines in their order */
export function interleave(parts) {
  if (!haveTimes(parts)) return parts.flatMap((p) => p.lines);
  const from = completeFrom(parts);
  const queues = parts
    .filter((p) => p.lines.length > 0)
    .map((p) => ({ lines: p.lines, at: 0, times: timesOf(p, from) }));
  for (const q of queues) while (q.at < q.lines.length && q.times[q.at] < from) q.at += 1;
  /** @type {RankLine[]} */
  const out = [];
  /** @type {(typeof queues)[number] | null} */
  let last = null;
  for (;;) {
    /** @type {(typeof queues)[number] | null} */
    let next = last && last.at < last.lines.length && last.lines[last.at].time === null ? last : null;
    if (!next)
      for (const q of queues)
        if (q.at < q.lines.length && (!next || q.times[q.at] < next.times[next.at])) next = q;
    if (!next) return out;
    out.push(next.lines[next.at]);
    next.at += 1;
    last = next;
  }
}

/**
 * The time of each line, or that of the line before. Lines before the first time are as old as it if the log
 * begins with them, else of a time that is not known. Without any time all of them stand where the list begins.
 * @param {RankPart} part @param {number} from
 */
function timesOf(part, from) {
  const first = firstTime(part);
  let time = first === null ? from : part.whole ? first : -Infinity;
  return part.lines.map((line) => (time = line.time ?? time));
}
