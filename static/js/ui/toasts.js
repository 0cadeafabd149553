// The messages of state/toasts.js, at the foot of the window.

import { dismiss, toasts } from "../state/toasts.js";
import { html } from "./html.js";

export function Toasts() {
  return html`<div class="toasts" role="status">
    ${toasts.value.map(
      ({ id, text, bad, undo }) => html`<div class=${`toast ${bad ? "is-bad" : ""}`} key=${id}>
        <span>${text}</span>
        ${
          undo &&
          html`<button
            class="button"
            onClick=${() => {
              dismiss(id);
              undo();
            }}
          >
            Undo
          </button>`
        }
        <button class="button is-quiet" aria-label="Dismiss" onClick=${() => dismiss(id)}>✕</button>
      </div>`,
    )}
  </div>`;
}
