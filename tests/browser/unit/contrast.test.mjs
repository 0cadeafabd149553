// Text colours hold AA contrast (4.5:1) on every ground they are drawn on, in both themes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const css = readFileSync(new URL("../../../static/css/tokens.css", import.meta.url), "utf8");
const pairs = [...css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);/g)];
const light = new Map(pairs.map(([, name, color]) => [name, color]));
const dark = new Map(pairs.map(([, name, , color]) => [name, color]));
const TEXT = [
  "text",
  "quiet",
  "accent",
  "green",
  "red",
  "amber",
  ...Array.from({ length: 16 }, (_, i) => `t${i}`),
];
const GROUNDS = ["page", "panel", "hover"];

/** @param {string} hex */
function luminance(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => {
    const c = parseInt(hex.slice(i, i + 2), 16) / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** @param {string} a @param {string} b */
function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

for (const [name, tokens] of /** @type {const} */ ([
  ["light", light],
  ["dark", dark],
])) {
  test(`text holds its contrast in the ${name} theme`, () => {
    for (const text of TEXT) {
      for (const ground of GROUNDS) {
        const ratio = contrast(tokens.get(text) ?? "", tokens.get(ground) ?? "");
        assert.ok(ratio >= 4.5, `--${text} on --${ground}: ${ratio.toFixed(2)}`);
      }
    }
  });
  test(`what stands on the accent holds its contrast in the ${name} theme`, () => {
    assert.ok(contrast(tokens.get("on-accent") ?? "", tokens.get("accent") ?? "") >= 4.5);
  });
  test(`curves can be told from the ground in the ${name} theme`, () => {
    for (let i = 0; i < 8; i += 1) {
      assert.ok(contrast(tokens.get(`series-${i}`) ?? "", tokens.get("page") ?? "") >= 3, `--series-${i}`);
    }
  });
}
