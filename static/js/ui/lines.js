// Terminal output as lines of plain text in styled spans.
/** @import { Span } from "../model/terminal.js" */

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
  const rows = Array.from({ length: terminal.length }, (_, i) => terminal.line(i));
  return html`<pre class="lines">${rows.map((spans, i) => html`<div key=${i}><${Line} spans=${spans} />${"\n"}</div>`)}</pre>`;
}
