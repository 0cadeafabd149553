// A labelled select: one of several named things.
import { html } from "./html.js";

/** @param {{ label: string, value: number | string, options: [number | string, string][], onChoose: (chosen: string) => void }} props */
export function Choice({ label, value, options, onChoose }) {
  const all = options.some(([v]) => v === value) ? options : [[value, String(value)], ...options];
  return html`<label class="choice">
    ${label}
    <select value=${value} onChange=${(/** @type {any} */ e) => onChoose(e.target.value)}>
      ${all.map(([v, shown]) => html`<option key=${v} value=${v} selected=${v === value}>${shown}</option>`)}
    </select>
  </label>`;
}
