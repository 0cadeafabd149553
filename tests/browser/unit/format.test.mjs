// How numbers, times and sizes are written.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../../static/js/model/format.js";

const S = "\u202f";
const N = "\u00a0";

test("numbers have four significant digits and whole ones keep all of theirs", () => {
  const cases = [
    [0.314159, "0.3142"],
    [-0.5, "−0.5000"],
    [3e-4, "3.000e−4"],
    [1234.5, "1\u202f235"],
    [999.97, `1${S}000`],
    [9999.7, `10${S}000`],
    [18412.7, `18${S}413`],
    [4200, `4${S}200`],
    [0, "0"],
    [1e15, "1.000e15"],
    ["NaN", "NaN"],
    ["Infinity", "∞"],
    ["-Infinity", "−∞"],
    [undefined, "NaN"],
  ];
  for (const [value, text] of cases) assert.equal(format.number(value), text, String(value));
});

test("the ticks of one axis have as many decimals as they need, all alike", () => {
  assert.deepEqual(format.ticks([0.0009, 0.00095, 0.001]), ["0.00090", "0.00095", "0.00100"]);
  assert.deepEqual(format.ticks([-0.5, 0, 0.5]), ["−0.5", "0.0", "0.5"]);
  assert.deepEqual(format.ticks([0, 500, 1000]), ["0", "500", `1${S}000`]);
  assert.deepEqual(format.ticks([1e-12, 2e-12]), ["1e−12", "2e−12"]);
  assert.deepEqual(format.ticks([]), []);
});

test("a rate in a sentence names what is counted", () => {
  assert.equal(format.stepRate(2), `2.00${S}steps/s`);
  assert.equal(format.stepRate(0.25), `4.00${S}s a step`);
  assert.equal(format.rate(999.7), `1${S}000${S}/s`);
  assert.equal(format.stepRate(null), "");
});

test("a size never reads as a thousand of its unit", () => {
  assert.equal(format.bytes(999), `999${S}B`);
  assert.equal(format.bytes(999_950), `1${S}MB`);
});

test("axis ticks drop the zeros at their end and nothing else", () => {
  assert.equal(format.tick(7.5), "7.5");
  assert.equal(format.tick(1e-4), "1e−4");
  assert.equal(format.tick(1000), `1${S}000`);
});

test("durations show their two largest units", () => {
  const cases = [
    [0, `0${S}s`],
    [-5000, `0${S}s`],
    [59_999, `59${S}s`],
    [74_000, `1${S}min${N}14${S}s`],
    [8_040_000, `2${S}h${N}14${S}min`],
    [273_600_000, `3${S}d${N}4${S}h`],
  ];
  for (const [ms, text] of cases) assert.equal(format.duration(Number(ms)), text);
  assert.equal(format.duration(null), "–");
  assert.equal(format.elapsed(1800), `30${S}min`);
  assert.equal(format.elapsed(5400), `1${S}h${N}30${S}min`);
});

test("ages have one unit and never run into the future", () => {
  assert.equal(format.ago(1000, 500), "now");
  assert.equal(format.ago(0, 14 * 60_000), `14${S}min ago`);
  assert.equal(format.ago(0, 50 * 3_600_000), `2${S}d ago`);
  assert.equal(format.ago(null, 0), "–");
});

test("the exact time carries milliseconds and the offset", () => {
  assert.match(format.exact(1_767_225_600_123), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.123 [+−]\d\d:\d\d$/);
  assert.equal(format.exact(null), "");
  assert.equal(format.exact(Number.MAX_VALUE), "");
});

test("a rate below one a second is said as the time of one step", () => {
  assert.equal(format.rate(3.2), `3.20${S}/s`);
  assert.equal(format.rate(0.25), `4.00${S}s each`);
  assert.equal(format.rate(0), "");
});

test("sizes are decimal", () => {
  assert.equal(format.bytes(999), `999${S}B`);
  assert.equal(format.bytes(5_210_000_000), `5.21${S}GB`);
});
