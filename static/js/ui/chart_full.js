// One chart that fills the window below the bar. Escape closes it, arrows lead to the next key.

import { useEffect, useRef } from "preact/hooks";
import { integer } from "../model/format.js";
import { html } from "./html.js";

/** @param {{ name: string, keys: string[], draw: (name: string) => any, legend: any, isZoomed: boolean, onReset: () => void, onGo: (name: string) => void }} props */
export function FullChart({ name, keys, draw, legend, isZoomed, onReset, onGo }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.focus();
    return () => before instanceof HTMLElement && before.focus({ preventScroll: true });
  }, []);
  const at = keys.indexOf(name);
  const step = (/** @type {number} */ by) => keys[at + by] && onGo(keys[at + by]);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    // A menu that is open closes first, by itself.
    if (document.querySelector("[popover]:popover-open")) return;
    if (event.key === "Escape") onGo("");
    else if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
    else return;
    event.preventDefault();
  };
  return html`<div class="chart-full" role="dialog" aria-modal="true" aria-label=${`${name}, full screen`} tabindex="-1" ref=${ref} onKeyDown=${onKey} data-metric=${name}>
    <div class="chart-full-bar">
      <button class="button" disabled=${at <= 0} onClick=${() => step(-1)} title="Previous metric (arrow left)">Previous</button>
      <button class="button" disabled=${at < 0 || at >= keys.length - 1} onClick=${() => step(1)} title="Next metric (arrow right)">Next</button>
      ${at >= 0 && html`<span class="quiet num">${integer(at + 1)} of ${integer(keys.length)}</span>`}
      <button class="button" hidden=${!isZoomed} onClick=${onReset}>Reset zoom</button>
      <span class="grow"></span>
      <button class="button" onClick=${() => onGo("")} title="Close (Escape)">Close</button>
    </div>
    ${legend}
    ${at < 0 ? html`<p class="quiet tab-note">There is no metric of this name.</p>` : draw(name)}
  </div>`;
}
