// What can be done with one chart: fill the window with it, take its points or its image along, copy
// its place.
/** @import { ChartCurve } from "./chart.js" */

import { formatView } from "../model/view.js";
import { say } from "../state/toasts.js";
import { chartImage, save } from "./chart_png.js";
import { Copy } from "./copy.js";
import { html } from "./html.js";
import { Menu } from "./menu.js";

/** Without an address it only says something. @typedef {{ label: string, href: string, file: string }} Download */

/** Of a key, as a part of a file's name. @param {string} text */
export const fileName = (text) => text.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80) || "chart";

const DOTS = html`<svg class="shape" viewBox="0 0 16 16" aria-hidden="true"><path d="M3.5 8h.01M8 8h.01M12.5 8h.01" /></svg>`;

/** @typedef {{ name: string, title: string, note: string, curves: ChartCurve[] | null, view: any, canvas: () => HTMLCanvasElement | undefined, downloads: () => Download[] }} Props */

/** @param {Props} props */
export function ChartMenu(props) {
  const { name } = props;
  return html`<${Menu} class="is-quiet chart-button" label=${DOTS} title=${`More of ${name}`}><${Items} ...${props} /><//>`;
}

/** Drawn only while the menu is open, so that thousands of charts make no links. @param {Props} props */
function Items({ name, title, note, curves, view, canvas, downloads }) {
  const image = async () => {
    const plot = canvas();
    if (!plot || !curves) return;
    try {
      await save(chartImage(plot, { title: name, note, curves }), `${fileName(`${title}-${name}`)}.png`);
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), { bad: true });
    }
  };
  const link = new URL(formatView({ ...view, full: name }), document.baseURI).href;
  return html`${downloads().map((d) =>
    d.href
      ? html`<a key=${d.href} class="menu-item" href=${d.href} download=${d.file}>${d.label}</a>`
      : html`<span key="left" class="menu-item quiet">${d.label}</span>`,
  )}
    <button class="menu-item" onClick=${image}>PNG image</button>
    <span class="menu-item"><${Copy} text=${link} label="Copy link" what=${`the link to ${name}`} /></span>`;
}

/** @param {{ name: string, onFull: () => void }} props */
export function FullButton({ name, onFull }) {
  return html`<button class="button is-quiet chart-button" aria-label=${`Full screen: ${name}`} title="Full screen" data-full onClick=${onFull}>
    <svg class="shape" viewBox="0 0 16 16" aria-hidden="true"><path d="M9.5 3H13v3.5M6.5 13H3V9.5M13 3 9.5 6.5M3 13l3.5-3.5" /></svg>
  </button>`;
}
