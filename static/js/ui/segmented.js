// One of a few: buttons side by side of which one is pressed.

import { html } from "./html.js";

/** @param {{ label: string, value: string, options: readonly (readonly [string, string])[], onChoose: (value: any) => void }} props options: value and what is shown */
export function Segmented({ label, value, options, onChoose }) {
  return html`<div class="segmented" role="group" aria-label=${label}>
    ${options.map(
      ([name, shown]) =>
        html`<button key=${name} aria-pressed=${name === value} onClick=${() => onChoose(name)}>${shown}</button>`,
    )}
  </div>`;
}
