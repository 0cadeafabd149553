// One chart that fills the window below the bar: a native dialog, so that nothing behind it can be reached.
// Escape closes it, arrows lead to the next key.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { integer } from "../model/format.js";
import { html } from "./html.js";

/** @param {{ name: string, keys: string[], draw: (name: string) => any, legend: any, isZoomed: boolean, onReset: () => void, onGo: (name: string) => void }} props */
export function FullChart({ name, keys, draw, legend, isZoomed, onReset, onGo }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // Before the chart in it measures itself.
  useLayoutEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    dialog?.focus();
    return () => {
      // While it is open, what is behind it takes no focus.
      dialog?.close();
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
  // With the chart before, the focus may have gone.
  useEffect(() => {
    if (!ref.current?.contains(document.activeElement)) ref.current?.focus();
  }, [name]);
  const at = keys.indexOf(name);
  const step = (/** @type {number} */ by) => keys[at + by] && onGo(keys[at + by]);
  const reset = () => {
    ref.current?.focus();
    onReset();
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    // A menu that is open closes first, by itself.
    if (ref.current?.querySelector("[popover]:popover-open")) return;
    if (event.key === "Escape") onGo("");
    else if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
    else return;
    event.preventDefault();
  };
  /** @param {Event} event */
  const onCancel = (event) => {
    event.preventDefault();
    onGo("");
  };
  return html`<dialog class="chart-full" aria-label=${`${name}, full screen`} tabindex="-1" ref=${ref} onKeyDown=${onKey} onCancel=${onCancel} data-metric=${name}>
    <div class="chart-full-bar">
      <button class="button" aria-disabled=${at <= 0} onClick=${() => step(-1)} title="Previous metric (arrow left)">Previous</button>
      <button class="button" aria-disabled=${at < 0 || at >= keys.length - 1} onClick=${() => step(1)} title="Next metric (arrow right)">Next</button>
      ${at >= 0 && html`<span class="quiet num">${integer(at + 1)} of ${integer(keys.length)}</span>`}
      <button class="button" hidden=${!isZoomed} onClick=${reset}>Reset zoom</button>
      <span class="grow"></span>
      <button class="button" onClick=${() => onGo("")} title="Close (Escape)">Close</button>
    </div>
    ${legend}
    ${at < 0 ? html`<p class="quiet tab-note">There is no metric of this name.</p>` : draw(name)}
  </dialog>`;
}
