// The notes of a run: read as Markdown, written in place. The library that reads Markdown is loaded only
// where there are notes.
/** @import { Draft } from "../state/drafts.js" */
/** @import { RunState } from "../state/run.js" */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { annotateRun, errorText } from "../server/api.js";
import { announce } from "../server/events.js";
import { draftOf, keepDraft } from "../state/drafts.js";
import { html } from "./html.js";
import { later } from "./later.js";

const Markdown = later(async () => (await import("./markdown.js")).Markdown);

/** @param {{ run: RunState }} props */
export function Notes({ run }) {
  /** What is being written; null: nothing is. */
  const [draft, setDraft] = useState(() => draftOf(run.id));
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const notes = run.notes ?? "";
  // Back to where the writing began, for the field with the focus is gone.
  const done = () => {
    write(null);
    setTimeout(() => button.current?.focus());
  };
  /** @param {Draft | null} next */
  const write = (next) => {
    keepDraft(run.id, next);
    setDraft(next);
  };
  const edit = () => write({ text: notes, from: notes });
  if (draft !== null) {
    return html`<section>
      <h2>Notes</h2>
      ${draft.from !== notes && draft.text !== notes && html`<p class="problem" role="alert">These notes were changed elsewhere meanwhile. What is saved here takes the place of:</p><${Markdown} text=${notes} />`}
      <${Editor} id=${run.id} text=${draft.text} setText=${(/** @type {string} */ text) => write({ ...draft, text })} done=${done} />
    </section>`;
  }
  return html`<section>
    <div class="heading">
      <h2>Notes</h2>
      <button class="button" ref=${button} onClick=${edit}>${notes ? "Edit" : "Add notes"}</button>
    </div>
    ${
      notes
        ? html`<${Markdown} text=${notes} />`
        : html`<p class="quiet">None yet. Say what this run is to show, and what came of it; Markdown is understood.</p>`
    }
  </section>`;
}

/** @param {{ id: string, text: string, setText: (text: string) => void, done: () => void }} props */
function Editor({ id, text, setText, done }) {
  const [sending, setSending] = useState(false);
  const [error, setError] = useState(/** @type {string | null} */ (null));
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useLayoutEffect(() => field.current?.focus(), []);
  /** @param {Event} e */
  const save = async (e) => {
    e.preventDefault();
    setSending(true);
    try {
      announce(await annotateRun(id, { notes: text.trim() ? text : null }));
      done();
    } catch (e) {
      setError(errorText(e));
      setSending(false);
    }
  };
  /** @param {KeyboardEvent} e */
  const onKeyDown = (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void save(e);
    if (e.key === "Escape") {
      e.stopPropagation();
      done();
    }
  };
  return html`<form class="notes-editor" onSubmit=${save} onKeyDown=${onKeyDown}>
    <textarea
      ref=${field}
      rows="10"
      aria-label="Notes, in Markdown"
      value=${text}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)}
    ></textarea>
    ${error && html`<p class="problem" role="alert">${error}</p>`}
    <p class="notes-buttons">
      <button class="button is-primary" disabled=${sending}>Save</button>
      <button class="button" type="button" disabled=${sending} onClick=${done}>Cancel</button>
      <span class="quiet">Markdown; Ctrl+Enter saves, Escape leaves it as it was</span>
    </p>
  </form>`;
}
