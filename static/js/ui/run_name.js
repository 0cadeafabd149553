// The name of a run as the title of its page, and the way to give it another one.
/** @import { RunState } from "../state/run.js" */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { plain } from "../model/text.js";
import { annotateRun, errorText } from "../server/api.js";
import { announce } from "../server/events.js";
import { html } from "./html.js";

const PENCIL = "M11.2 2.6l2.2 2.2L5.6 12.6l-2.9.7.7-2.9z";

/** @param {{ run: RunState }} props */
export function RunName({ run }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const [error, setError] = useState(/** @type {string | null} */ (null));
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const editing = text !== null;
  useLayoutEffect(() => field.current?.select(), [editing]);

  const done = () => {
    setText(null);
    setError(null);
    setTimeout(() => button.current?.focus());
  };
  /** @param {Event} e */
  const save = async (e) => {
    e.preventDefault();
    const name = (text ?? "").trim();
    if (name === run.name) return done();
    try {
      announce(await annotateRun(run.id, { name }));
      done();
    } catch (e) {
      setError(errorText(e));
    }
  };
  if (!editing) {
    return html`<h1 title=${run.id}><bdi>${plain(run.name)}</bdi></h1>
      <button class="button is-quiet rename" ref=${button} aria-label="Rename" title="Rename" onClick=${() => setText(run.name)}>
        <svg class="shape" viewBox="0 0 16 16" aria-hidden="true"><path d=${PENCIL} /></svg>
      </button>`;
  }
  return html`<form class="rename-form" onSubmit=${save} onKeyDown=${(/** @type {KeyboardEvent} */ e) => e.key === "Escape" && done()}>
    <input
      ref=${field}
      class="search"
      aria-label="Name of the run"
      aria-invalid=${error !== null}
      autocomplete="off"
      spellcheck=${false}
      value=${text}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)}
    />
    <button class="button is-primary">Save</button>
    <button class="button" type="button" onClick=${done}>Cancel</button>
    ${error && html`<span class="problem" role="alert">${error}</span>`}
  </form>`;
}
