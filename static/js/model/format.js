// How numbers, times and sizes are written. Pure, and knows no locale: an instrument shows
// the same digits everywhere. It never decides what to show, only how.

const THIN = "\u202f"; // narrow no-break space: between a number and its unit, and between thousands
const SPACE = "\u00a0";
export const NOTHING = "–";

/** Thousands apart, every digit kept: for steps, counts and pids. @param {number} n */
export function integer(n) {
  const digits = Math.abs(n).toFixed(0);
  return (n < 0 ? "−" : "") + digits.replace(/\B(?=(\d{3})+$)/g, THIN);
}

/** A step where there is room for few digits. @param {number} n */
export const shortStep = (n) => (n < 1e7 ? integer(n) : n.toExponential(2).replace("e+", "e"));

/** A float as the head sends it: the three values that JSON has no numbers for are strings. @param {unknown} v */
export function toNumber(v) {
  return typeof v === "number" ? v : v === null || v === undefined ? NaN : Number(v);
}

/**
 * Four significant digits, and in any case those before the point; whole numbers keep all of theirs, for they
 * are often steps or epochs.
 * @param {unknown} value
 */
export function number(value) {
  const v = toNumber(value);
  if (Number.isNaN(v)) return "NaN";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  const size = Math.abs(v);
  if (Number.isInteger(v) && size < 1e12) return integer(v);
  if (size >= 999.95 && size < 1e9) return integer(Math.round(v));
  const text = size < 1e-3 || size >= 1e9 ? v.toExponential(3).replace("e+", "e") : v.toPrecision(4);
  return text.replaceAll("-", "−");
}

/** As `number`, without the zeros at the end: for the ticks of an axis. @param {number} v */
export function tick(v) {
  const text = number(v);
  return text.includes(".") ? text.replace(/\.?0+(?=e|$)/, "") : text;
}

/** @param {number} value @param {string} unit */
const part = (value, unit) => `${value}${THIN}${unit}`;

/** `2 h 14 min`: the two largest units. @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NOTHING;
  const s = Math.floor(Math.max(0, ms) / 1000);
  if (s < 60) return part(s, "s");
  const m = Math.floor(s / 60);
  if (m < 60) return part(m, "min") + SPACE + part(s % 60, "s");
  const h = Math.floor(m / 60);
  if (h < 24) return part(h, "h") + SPACE + part(m % 60, "min");
  return part(Math.floor(h / 24), "d") + SPACE + part(h % 24, "h");
}

/** A duration without a second unit that is zero: for the ticks of an axis. @param {number} s */
export function elapsed(s) {
  return duration(s * 1000).replace(new RegExp(`${SPACE}0${THIN}.+$`), "");
}

/** A short stretch of time where milliseconds matter, such as a step. @param {number} ms */
export function interval(ms) {
  if (ms < 1000) return part(Math.round(ms), "ms");
  return ms < 60_000 ? `${(ms / 1000).toPrecision(3)}${THIN}s` : duration(ms);
}

/** `14 min ago`: one unit, for reading at a glance. @param {number | null} then @param {number} now */
export function ago(then, now) {
  if (then === null) return NOTHING;
  const s = Math.floor((now - then) / 1000);
  if (s < 2) return "now";
  if (s < 60) return `${part(s, "s")} ago`;
  if (s < 3600) return `${part(Math.floor(s / 60), "min")} ago`;
  if (s < 86_400) return `${part(Math.floor(s / 3600), "h")} ago`;
  return `${part(Math.floor(s / 86_400), "d")} ago`;
}

/** @param {number} n @param {number} [width] */
const pad = (n, width = 2) => String(n).padStart(width, "0");

/** The exact local time with its offset, for hovering. @param {number | null | undefined} ms */
export function exact(ms) {
  if (ms === null || ms === undefined) return "";
  const d = new Date(ms);
  if (Number.isNaN(d.getTime())) return "";
  const off = -d.getTimezoneOffset();
  const zone = `${off < 0 ? "−" : "+"}${pad(Math.floor(Math.abs(off) / 60))}:${pad(Math.abs(off) % 60)}`;
  return `${day(ms)} ${clock(ms)}.${pad(d.getMilliseconds(), 3)} ${zone}`;
}

/** `2026-07-01`, local. @param {number} ms */
export function day(ms) {
  const d = new Date(ms);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
}

/** `12:00:03`, local. @param {number} ms */
export function clock(ms) {
  const d = new Date(ms);
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

/** Steps a second, or seconds a step once that reads better. @param {number | null | undefined} perSecond */
export function rate(perSecond) {
  if (!perSecond || !Number.isFinite(perSecond)) return "";
  if (perSecond >= 1)
    return `${perSecond >= 99.95 ? integer(Math.round(perSecond)) : perSecond.toPrecision(3)}${THIN}/s`;
  return `${interval(1000 / perSecond)} each`;
}

/** The same for a sentence: `23.0 steps/s`. @param {number | null | undefined} perSecond */
export function stepRate(perSecond) {
  return rate(perSecond).replace(/\/s$/, "steps/s").replace(/each$/, "a step");
}

/**
 * The ticks of one axis alike: as many decimals as they are apart, and an exponent for all or none.
 * @param {number[]} values evenly apart
 */
export function ticks(values) {
  const apart = values.length > 1 ? Math.abs(values[1] - values[0]) : 0;
  let decimals = 0;
  while (decimals < 8 && Math.abs(Number(apart.toFixed(decimals)) - apart) > apart * 1e-6) decimals += 1;
  if (apart === 0 || decimals === 8 || Math.max(...values.map(Math.abs)) >= 1e9) return values.map(tick);
  return values.map((v) => {
    const rounded = Number(v.toFixed(decimals));
    if (decimals === 0) return integer(rounded);
    return (rounded < 0 ? "−" : "") + Math.abs(rounded).toFixed(decimals);
  });
}

/** A set length of time, such as a lease: without a second unit that is zero. @param {number} ms */
export const length = (ms) => elapsed(ms / 1000);

/** @param {number} n */
export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (Number(n.toPrecision(3)) >= 1000 && i < units.length - 1) {
    n /= 1000;
    i += 1;
  }
  return part(i === 0 ? n : Number(n.toPrecision(3)), units[i]);
}

/** `1 worker`, `2 workers`. @param {number} n @param {string} noun */
export function count(n, noun) {
  return `${integer(n)} ${noun}${n === 1 ? "" : "s"}`;
}
