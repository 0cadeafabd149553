// The list of keys, opened with `?`. A native dialog: focus, Escape and the rest come with it.

import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";
import { bind } from "./keyboard.js";

const KEYS = [
  ["/", "Search"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["c", "Compare what is selected"],
  ["Esc", "Leave the search, clear the selection"],
  ["+  −  ←  →", "Zoom and move the charts, from one that has the focus"],
  ["?", "This list"],
];

export function Help() {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const open = () => dialog.current?.showModal();
  useEffect(() => bind("?", open), []);
  /** @param {MouseEvent} e */
  const onClick = (e) => e.target === dialog.current && dialog.current?.close();
  return html`<button class="button is-quiet" aria-label="Keys" title="Keys (?)" onClick=${open}>?</button>
    <dialog class="help" ref=${dialog} aria-label="Keys" onClick=${onClick}>
      <form method="dialog">
        <h2>Keys</h2>
        <dl>
          ${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}
        </dl>
        <button class="button">Close</button>
      </form>
    </dialog>`;
}
