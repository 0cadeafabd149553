// A run's colour and dash as a short line, beside its name wherever it stands: what says which curve is whose.

import { DASHES, seriesStyle } from "../model/color.js";
import { html } from "./html.js";

/** @param {{ id: string }} props of the run */
export function Swatch({ id }) {
  const { color, dash } = seriesStyle(id);
  return html`<svg class="swatch" viewBox="0 0 24 8" aria-hidden="true" style=${{ stroke: `var(--series-${color})` }}>
    <path d="M0 4h24" stroke-dasharray=${DASHES[dash].join(" ") || undefined} />
  </svg>`;
}
