// A button that copies a text and says so.

import { useState } from "preact/hooks";
import { html } from "./html.js";

/** @param {{ text: string, label?: string, what?: string }} props `what` is copied, for who hears the page */
export function Copy({ text, label = "Copy", what = "" }) {
  const [copied, setCopied] = useState(false);
  // Browsers give the clipboard to secure pages only; the text can still be selected.
  if (!window.isSecureContext || !navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<button class="button copy" aria-label=${what ? `Copy ${what}` : undefined} onClick=${copy}>
    ${copied ? "Copied" : label}
  </button>`;
}
