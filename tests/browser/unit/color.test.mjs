// The colours of runs: always the same, and told apart side by side.
import assert from "node:assert/strict";
import { test } from "node:test";
import { DASHES, SERIES, seriesStyle, seriesStyles } from "../../../static/js/model/color.js";

const many = Array.from({ length: SERIES * DASHES.length }, (_, i) => `01a22e6c-644f-748f-8215-e62db474${i}`);
const text = (/** @type {{ color: number, dash: number }} */ s) => `${s.color} ${s.dash}`;

test("as many runs as there are styles have one each, whatever their order", () => {
  const styles = seriesStyles(many);
  assert.equal(new Set([...styles.values()].map(text)).size, many.length);
  const turned = seriesStyles([...many].reverse());
  for (const id of many) assert.deepEqual(turned.get(id), styles.get(id));
  assert.equal(seriesStyles([...many, "one more"]).size, many.length + 1);
});

test("a few runs have the colour on every page that they have alone", () => {
  for (let n = 1; n <= DASHES.length; n += 1) {
    const some = many.slice(0, n);
    for (const [id, style] of seriesStyles(some)) assert.equal(style.color, seriesStyle(id).color);
  }
});

test("ids that differ in one digit are spread over the colours", () => {
  assert.ok(new Set(many.map((id) => seriesStyle(id).color)).size >= SERIES - 1);
});
