// Which curve is which, for all charts of a page at once. The pointer or the focus on one makes it stand out.
/** @import { ChartCurve } from "./chart.js" */

import { html } from "./html.js";
import { Swatch } from "./swatch.js";

/** @param {{ entries: (Omit<ChartCurve, "series" | "start_ms"> & { title?: string, href?: string })[], onPick: (id: string | null) => void }} props */
export function Legend({ entries, onPick }) {
  return html`<ul class="chart-legend" aria-label="Curves">
    ${entries.map(
      (
        e,
      ) => html`<li key=${e.id} title=${e.title ?? ""} onMouseEnter=${() => onPick(e.id)} onMouseLeave=${() => onPick(null)} onFocusIn=${() => onPick(e.id)} onFocusOut=${() => onPick(null)}>
        <${Swatch} color=${e.color} dash=${e.dash} isFaint=${e.isFaint} />
        ${e.href ? html`<a href=${e.href}><bdi>${e.label}</bdi></a>` : html`<bdi>${e.label}</bdi>`}
      </li>`,
    )}
  </ul>`;
}
