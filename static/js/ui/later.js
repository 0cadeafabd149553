// Parts of the dashboard that are loaded when they are first shown, with the style sheets that the first
// page does without, so that it stays small and quick. What is loaded once is there at once from then on.

import { useEffect, useState } from "preact/hooks";
import { styles } from "../ahead.js";
import { html } from "./html.js";

/** @param {() => Promise<any>} load gives the component */
export function later(load) {
  /** @type {any} */
  let loaded = null;
  return function Later(/** @type {any} */ props) {
    const [state, setState] = useState(loaded ? "there" : "loading");
    useEffect(() => {
      if (loaded) return;
      Promise.all([load(), styles()]).then(
        ([component]) => {
          loaded = component;
          setState("there");
        },
        () => setState("failed"),
      );
    }, []);
    if (state === "failed") {
      return html`<p class="problem" role="alert">
        This part could not be loaded from the head. Reload the page to try again.
      </p>`;
    }
    return loaded && html`<${loaded} ...${props} />`;
  };
}
