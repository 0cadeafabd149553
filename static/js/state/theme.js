// Light, dark, or as the system has it: the reader's choice, kept by the browser for this address.
// js/ahead.js sets it before the first paint; the colours are in css/tokens.css.

import { computed, signal } from "@preact/signals";

/** @typedef {"system" | "light" | "dark"} Theme */
export const THEMES = /** @type {const} */ (["system", "light", "dark"]);
const KEPT_AS = "theme";

const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const system = signal(systemIsDark.matches);
systemIsDark.addEventListener("change", () => (system.value = systemIsDark.matches));

const kept = document.documentElement.dataset.theme;
export const theme = signal(/** @type {Theme} */ (THEMES.find((t) => t === kept) ?? "system"));

/** Which colours are shown, for what is drawn on a canvas and cannot follow by CSS. */
export const shownTheme = computed(() =>
  theme.value === "system" ? (system.value ? "dark" : "light") : theme.value,
);

/** @param {Theme} next */
export function chooseTheme(next) {
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  theme.value = next;
  try {
    localStorage.setItem(KEPT_AS, next);
  } catch {
    // A browser that keeps nothing still shows it.
  }
}
