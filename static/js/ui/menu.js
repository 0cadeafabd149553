// A button that opens a panel below it: a native popover, so that Escape, a click beside it and the
// focus do what they do everywhere. Only one is open at a time.

import { useId, useRef, useState } from "preact/hooks";
import { html } from "./html.js";

/** @param {{ label: any, title?: string, children: any, class?: string }} props the children are drawn while it is open */
export function Menu({ label, title, children, class: kind = "" }) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  /** @param {any} event */
  const onToggle = (event) => {
    setOpen(event.newState === "open");
    if (event.newState !== "open" || !button.current || !panel.current) return;
    // Popovers stand in the top layer and know nothing of their button.
    const { left, right, bottom } = button.current.getBoundingClientRect();
    const width = panel.current.offsetWidth;
    const at = left + width > innerWidth - 8 ? right - width : left;
    panel.current.style.left = `${Math.max(8, at)}px`;
    panel.current.style.top = `${bottom + 4}px`;
  };
  return html`<button
      class=${`button ${kind}`}
      ref=${button}
      popovertarget=${id}
      aria-expanded=${open}
      aria-haspopup="dialog"
      title=${title}
    >
      ${label}
    </button>
    <div class="menu" role="dialog" aria-label=${title ?? label} id=${id} popover ref=${panel} onToggle=${onToggle}>${open && children}</div>`;
}
