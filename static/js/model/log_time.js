// The time that a logger wrote at the beginning of a line, if one did. Pure. Times are only compared with
// each other: one without a zone is taken for UTC, one without a day for a time of the day that is given.
/** @import { Span } from "./terminal.js" */

const DAY_MS = 86_400_000;
/** What may stand before the time: a level, or who writes, as in `INFO `, `[rank0]: `, `(worker pid=7) `. */
const BEFORE = String.raw`^\s*(?:\[[a-zA-Z]\w{0,15}[ :]?\d*\]:?\s*|\([^)\d]{1,16}\w*=?\d*\)\s*|[A-Z]{4,8}:?\s+)?[[(<]?`;
const TIME = String.raw`([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d{1,9}))?`;
const DATED = new RegExp(
  String.raw`${BEFORE}(\d{4})[-/](\d\d)[-/](\d\d)[T ,]\s?${TIME}\s?(Z|[+-]\d\d:?\d\d)?`,
);
const OF_DAY = new RegExp(String.raw`${BEFORE}${TIME}(?=$|[\s\])>|:,;-])`);
/** `I0102 12:34:56.789012`, as glog writes. */
const GLOG = new RegExp(String.raw`^[IWEF](\d\d)(\d\d)\s${TIME}\s`);
const UNIX = /^\[?(1\d{9})(?:\.(\d{1,9}))?\]?(?=\s|$)/;
const FAR = 80;

/**
 * UNIX milliseconds, or null.
 * @param {Span[]} spans @param {number} day_ms a time on the day that lines without one are of
 */
export function timeOf(spans, day_ms) {
  const text = headOf(spans);
  if (!/\d\d:?\d\d/.test(text)) return null;
  const dated = DATED.exec(text);
  if (dated) {
    const [, y, mo, d, h, m, s, f, zone] = dated;
    return Date.UTC(+y, +mo - 1, +d, +h, +m, +s) + fraction(f) - zoneMs(zone);
  }
  const ofDay = OF_DAY.exec(text);
  if (ofDay) {
    const [, h, m, s, f] = ofDay;
    return Math.floor(day_ms / DAY_MS) * DAY_MS + ((+h * 60 + +m) * 60 + +s) * 1000 + fraction(f);
  }
  const glog = GLOG.exec(text);
  if (glog) {
    const [, mo, d, h, m, s, f] = glog;
    return Date.UTC(new Date(day_ms).getUTCFullYear(), +mo - 1, +d, +h, +m, +s) + fraction(f);
  }
  const unix = UNIX.exec(text);
  return unix ? Number(unix[1]) * 1000 + fraction(unix[2]) : null;
}

/** @param {Span[]} spans */
function headOf(spans) {
  let text = "";
  for (const span of spans) {
    text += span.text;
    if (text.length >= FAR) break;
  }
  return text.slice(0, FAR);
}

/** @param {string | undefined} digits */
const fraction = (digits) => (digits ? Number(`0.${digits}`) * 1000 : 0);

/** @param {string | undefined} zone */
function zoneMs(zone) {
  if (!zone || zone === "Z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(-2))];
  return (zone[0] === "-" ? -1 : 1) * (hours * 60 + minutes) * 60_000;
}
