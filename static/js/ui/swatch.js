// A short piece of a curve, in its colour and dash: which one is meant, in legends, readings and lists.
// `<Swatch id=RUN />` is a run's own, the same on every page; `<Swatch color= dash= />` any other.

import { DASHES, seriesStyle } from "../model/color.js";
import { html } from "./html.js";

/** @param {{ id?: string, color?: number, dash?: number, isFaint?: boolean }} props */
export function Swatch({ id, color = 0, dash = 0, isFaint = false }) {
  const style = id === undefined ? { color, dash } : seriesStyle(id);
  return html`<svg class=${`swatch ${isFaint ? "is-faint" : ""}`} viewBox="0 0 18 8" aria-hidden="true" style=${{ stroke: `var(--series-${style.color})` }}>
    <path d="M0 4h18" stroke-dasharray=${DASHES[style.dash].join(" ") || undefined} />
  </svg>`;
}
