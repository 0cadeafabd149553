// A button that copies a text and says so.

import { useState } from "preact/hooks";
import { say } from "../state/toasts.js";
import { html } from "./html.js";

/** @param {{ text: string, label?: string, what?: string }} props `what` is copied, for who hears the page */
export function Copy({ text, label = "Copy", what = "" }) {
  const [copied, setCopied] = useState(false);
  const copy = async (/** @type {Event} */ { currentTarget }) => {
    try {
      await write(text, /** @type {HTMLElement} */ (currentTarget));
    } catch {
      say(`The browser does not let this page copy. It is: ${text}`, { bad: true });
      return;
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<button class="button copy" aria-label=${what ? `Copy ${what}` : undefined} onClick=${copy}>
    ${copied ? "Copied" : label}
  </button>`;
}

/** Browsers give the clipboard to pages over https or from this machine; others may copy what is selected. @param {string} text @param {HTMLElement} button */
async function write(text, button) {
  if (window.isSecureContext && navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  // Beside the button, for what lies over the page keeps the focus.
  button.after(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  button.focus();
  if (!done) throw new Error("not copied");
}
