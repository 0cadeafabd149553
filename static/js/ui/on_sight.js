// The end of a list that goes on: its coming into sight asks for more. To be keyed by the page token,
// so that after each page there is a new one, which has not been seen yet.

import { useSight } from "./hooks.js";
import { html } from "./html.js";

/** @param {{ load: () => void }} props */
export function OnSight({ load }) {
  const ref = useSight((visible) => visible && load());
  return html`<span ref=${ref}></span>`;
}
