// Terminal output as lines of plain text in styled spans.
/** @import { Span } from "../model/terminal.js" */

import { useCallback } from "preact/hooks";
import { Terminal } from "../model/terminal.js";
import { html } from "./html.js";

/** @param {{ spans: Span[] }} props */
export function Line({ spans }) {
  return spans.map(({ text, style }, i) =>
    style ? html`<span key=${i} class=${style}>${text}</span>` : text,
  );
}

/** A short piece of output, all of it. @param {{ text: string }} props */
export function Lines({ text }) {
  const terminal = new Terminal();
  terminal.write(text);
  terminal.flush(0);
  const rows = Array.from({ length: terminal.length }, (_, i) => terminal.line(i).spans);
  // The end is where the reason stands.
  const toEnd = (/** @type {HTMLElement | null} */ e) => e && (e.scrollTop = e.scrollHeight);
  return html`<pre class="lines" ref=${useCallback(toEnd, [text])} tabindex="0">${rows.map((spans, i) => html`<div key=${i}><${Line} spans=${spans} />${"\n"}</div>`)}</pre>`;
}
