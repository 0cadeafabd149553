// A button that opens a panel below it: a native popover, so that Escape, a click beside it and the
// focus do what they do everywhere. Only one is open at a time.

import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";

/** @param {{ label: any, title?: string, children: any, class?: string }} props the children are drawn while it is open */
export function Menu({ label, title, children, class: kind = "" }) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  // Once its children are drawn: before, nobody knows how large it is.
  useLayoutEffect(() => {
    if (!open || !button.current || !panel.current) return;
    // Popovers stand in the top layer and know nothing of their button.
    const { left, right, top, bottom } = button.current.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = panel.current;
    const at = left + width > innerWidth - 8 ? right - width : left;
    const above = bottom + 4 + height > innerHeight - 8 && top - 4 - height >= 8;
    panel.current.style.left = `${Math.max(8, at)}px`;
    panel.current.style.top = `${above ? top - 4 - height : bottom + 4}px`;
  }, [open]);
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
    <div class="menu" role="dialog" aria-label=${title ?? label} id=${id} popover ref=${panel} onToggle=${(/** @type {any} */ e) => setOpen(e.newState === "open")}>${open && children}</div>`;
}
