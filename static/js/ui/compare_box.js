// What the sweep's charts share: how large they may be, the label that follows the pointer, and the way
// from a mark to its run. They draw in CSS pixels, so that text and thin lines are crisp.
/** @import { Value } from "../model/sweep_axis.js" */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { NOTHING, tick } from "../model/format.js";
import { plain } from "../model/text.js";
import { runView } from "../model/view.js";
import { go } from "../state/route.js";
import { html } from "./html.js";

/** The width of an element, and how large the reader's text is: 1 is usual. */
export function useBox() {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const [box, setBox] = useState({ width: 0, em: 1 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => {
      const em = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
      setBox((old) => {
        const same = old.width === element.clientWidth && old.em === em;
        return same ? old : { width: element.clientWidth, em };
      });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { ref, ...box };
}

/** What is said of a run where the pointer is. @typedef {{ x: number, y: number, name: string, rows: [string, Value][] }} Said */

/** @param {{ said: Said, width: number }} props */
export function Tip({ said: { x, y, name, rows }, width }) {
  const side = x > width / 2 ? { right: `${width - x + 12}px` } : { left: `${x + 12}px` };
  return html`<div class="tip" role="status" style=${{ ...side, top: `${y}px` }}>
    <b><bdi>${plain(name)}</bdi></b>
    ${rows.map(([key, value]) => html`<span key=${key} class="tip-row"><span class="quiet"><bdi>${plain(key)}</bdi></span><span class="num"><bdi>${shown(value)}</bdi></span></span>`)}
  </div>`;
}

/** @param {Value} value */
export const shown = (value) =>
  value === null ? NOTHING : typeof value === "number" ? tick(value) : plain(value);

/** A plain click stays in this window; all others are the browser's. The router does not know links within SVG. @param {MouseEvent} event @param {string} id */
export function openRunOf(event, id) {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(runView(id));
  scrollTo(0, 0);
}

/** Where SVG text has no ellipsis of its own. @param {string} text @param {number} most */
export const cut = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);
