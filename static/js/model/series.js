// One metric of one run as columns: decoding, pairing what the server thinned out into bands, extending
// by what is new, and replacing a part by a finer one. Pure; how it is drawn is in curve.js.
/** @import { WireSeries } from "../types.js" */

import { toNumber } from "./format.js";

/**
 * Points in the order of steps. Where one stands for several, `value` is their mean and `low` and
 * `high` their least and greatest value; else all three are the same. `count`: points that the head
 * has; `sent`: how many of them came.
 * @typedef {{ step: number[], time: number[], value: number[], low: number[], high: number[], attempt: number[], rank: number, count: number, sent: number }} Series
 */

/** @param {number} rank @param {number} count @param {number} sent @returns {Series} */
const empty = (rank, count, sent) => ({
  step: [],
  time: [],
  value: [],
  low: [],
  high: [],
  attempt: [],
  rank,
  count,
  sent,
});

export const EMPTY = empty(0, 0, 0);
const COLUMNS = /** @type {const} */ (["step", "time", "value", "low", "high", "attempt"]);

/** @param {Pick<Series, "count" | "sent">} series */
export const isThinned = ({ count, sent }) => count > sent;

/**
 * How wide the head's buckets are, in steps: the least 2ⁿ or 3·2ⁿ⁻¹ with no more buckets than asked
 * for. As `Grid::over` of src/model/buckets.rs.
 * @param {number} first @param {number} last @param {number} buckets
 */
export function bucketWidth(first, last, buckets) {
  const fits = (/** @type {number} */ w) =>
    Math.floor(last / w) - Math.floor(first / w) < Math.max(1, buckets);
  for (let half = 1; half < 2 ** 53; half *= 2) {
    if (fits(half)) return half;
    const wider = half + Math.floor(half / 2);
    if (fits(wider)) return wider;
  }
  return 2 ** 53;
}

/**
 * What came, each point as it is; or, if the server left some out, the least and greatest of each
 * bucket as one point of a band, its line at the mean if that is known too. The first and the last point
 * stay by themselves: there the axis begins, and from there on more is asked for.
 * @param {WireSeries} wire @param {{ width?: number, means?: WireSeries | null }} [buckets] `width` in steps
 * @returns {Series}
 */
export function decode(wire, { width = 1, means = null } = {}) {
  const values = wire.value.map(toNumber);
  const size = values.length;
  if (wire.count <= size) {
    const { step, time_ms, attempt_at } = wire;
    const same = { value: values, low: values, high: values };
    return {
      step,
      time: time_ms,
      ...same,
      attempt: attempt_at,
      rank: wire.rank,
      count: wire.count,
      sent: size,
    };
  }
  const out = empty(wire.rank, wire.count, size);
  const mean = meansOf(means, width);
  let i = 0;
  while (i < size) {
    const bucket = Math.floor(wire.step[i] / width);
    let end = i + 1;
    while (
      i > 0 &&
      end < size - 1 &&
      Math.floor(wire.step[end] / width) === bucket &&
      wire.attempt_at[end] === wire.attempt_at[i]
    )
      end += 1;
    addBucket(out, wire, values, i, end, mean.get(`${wire.attempt_at[i]} ${bucket}`));
    i = end;
  }
  return out;
}

/** Means by attempt and bucket. @param {WireSeries | null} means @param {number} width */
function meansOf(means, width) {
  /** @type {Map<string, number>} */
  const out = new Map();
  if (!means || means.count <= means.step.length) return out;
  means.step.forEach((step, i) =>
    out.set(`${means.attempt_at[i]} ${Math.floor(step / width)}`, toNumber(means.value[i])),
  );
  return out;
}

/** Points `from` to `end` of the wire as one; what is not finite stays by itself. @param {Series} out @param {WireSeries} wire @param {number[]} values @param {number} from @param {number} end @param {number | undefined} mean */
function addBucket(out, wire, values, from, end, mean) {
  let [n, step, time, low, high] = [0, 0, 0, Infinity, -Infinity];
  for (let i = from; i < end; i += 1) {
    const v = values[i];
    if (!Number.isFinite(v)) {
      push(out, wire.step[i], wire.time_ms[i], v, v, v, wire.attempt_at[i]);
      continue;
    }
    n += 1;
    step += (wire.step[i] - step) / n;
    time += (wire.time_ms[i] - time) / n;
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  if (n === 0) return;
  const known = mean !== undefined && mean >= low && mean <= high;
  push(out, step, time, known ? mean : (low + high) / 2, low, high, wire.attempt_at[from]);
}

/** @param {Series} out @param {number} step @param {number} time @param {number} value @param {number} low @param {number} high @param {number} attempt */
function push(out, step, time, value, low, high, attempt) {
  out.step.push(step);
  out.time.push(time);
  out.value.push(value);
  out.low.push(low);
  out.high.push(high);
  out.attempt.push(attempt);
}

/** Last step of an attempt: from there on more of it is asked for. Null: it has no point yet. @param {Series} series @param {number} attempt */
export function resumeStep(series, attempt) {
  const at = series.attempt.lastIndexOf(attempt);
  return at < 0 ? null : series.step[at];
}

/** Index of the last point of the newest attempt; −1 if there is none. @param {number[]} attempts */
export function lastOfNewest(attempts) {
  let last = -1;
  for (let i = 0; i < attempts.length; i += 1) if (last < 0 || attempts[i] >= attempts[last]) last = i;
  return last;
}

/**
 * With the newest points of the newest attempt, all of them from `from` on: they replace what was held
 * of the steps that they enclose. What an older attempt reached beyond them stays.
 * @param {Series} old @param {Series} tail @param {number | null} from @returns {Series}
 */
export function extend(old, tail, from) {
  if (tail.step.length === 0) return old;
  const low = Math.min(from ?? Infinity, tail.step[0]);
  const next = replaced(old, tail, low, tail.step[tail.step.length - 1]);
  const dropped = old.step.length + tail.step.length - next.step.length;
  const sent = old.sent + tail.sent - dropped;
  return { ...next, rank: tail.rank, sent, count: Math.max(sent, old.count + tail.count - dropped) };
}

/** With a finer part in place of what is held of it. @param {Series} coarse @param {Series} fine @returns {Series} */
export function refined(coarse, fine) {
  if (fine.step.length === 0) return coarse;
  const next = replaced(coarse, fine, fine.step[0], fine.step[fine.step.length - 1]);
  return { ...next, count: fine.count, sent: fine.sent };
}

/** @param {Series} old @param {Series} part @param {number} low @param {number} high @returns {Series} */
function replaced(old, part, low, high) {
  let head = old.step.findIndex((s) => s >= low);
  if (head < 0) head = old.step.length;
  let rest = head;
  while (rest < old.step.length && old.step[rest] <= high) rest += 1;
  const out = { ...old };
  for (const name of COLUMNS)
    out[name] = [...old[name].slice(0, head), ...part[name], ...old[name].slice(rest)];
  return out;
}

/** @typedef {{ step: [number, number], time: [number, number] }} Extent */
/** @type {WeakMap<Series, Extent>} */
const extents = new WeakMap();

/** First and last step and time; none if it is empty. @param {Series} series @returns {Extent | null} */
export function extentOf(series) {
  const size = series.step.length;
  if (size === 0) return null;
  const known = extents.get(series);
  if (known) return known;
  let [first, last] = [Infinity, -Infinity];
  for (const t of series.time) {
    if (t < first) first = t;
    if (t > last) last = t;
  }
  /** @type {Extent} */
  const found = { step: [series.step[0], series.step[size - 1]], time: [first, last] };
  extents.set(series, found);
  return found;
}
