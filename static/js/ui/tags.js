// The tags of a run, with a way to add and remove them. A tag leads to the runs that have it.
/** @import { RunState } from "../state/run.js" */

import { useState } from "preact/hooks";
import { plain } from "../model/text.js";
import { ALL_RUNS, formatView } from "../model/view.js";
import { annotateRun, errorText } from "../server/api.js";
import { announce } from "../server/events.js";
import { html } from "./html.js";

/** @param {{ run: RunState }} props */
export function Tags({ run }) {
  const [text, setText] = useState("");
  const [error, setError] = useState(/** @type {string | null} */ (null));
  /** @param {Record<string, string | null>} tags */
  const change = async (tags) => {
    try {
      announce(await annotateRun(run.id, { tags }));
      setError(null);
      setText("");
    } catch (e) {
      setError(errorText(e));
    }
  };
  /** @param {Event} e */
  const add = (e) => {
    e.preventDefault();
    const [key, ...rest] = text.split(":");
    if (key.trim()) void change({ [key.trim()]: rest.join(":").trim() });
  };
  return html`<section>
    <h2>Tags</h2>
    <ul class="tags">
      ${Object.entries(run.tags).map(
        ([key, value]) => html`<li key=${key} class="tag-row">
          <a href=${formatView({ ...ALL_RUNS, tag: [`${key}:${value}`] })} title="Runs with this tag"
            ><bdi>${plain(value ? `${key}: ${value}` : key)}</bdi></a
          >
          <button class="button is-quiet" aria-label=${`Remove the tag ${plain(key)}`} onClick=${() => change({ [key]: null })}>✕</button>
        </li>`,
      )}
    </ul>
    <form class="tag-form" onSubmit=${add}>
      <input
        class="search"
        aria-label="New tag"
        placeholder="key: value"
        spellcheck=${false}
        autocomplete="off"
        value=${text}
        onInput=${(/** @type {any} */ e) => setText(e.target.value)}
      />
      <button class="button" disabled=${!text.trim()}>Add</button>
    </form>
    ${error && html`<p class="problem" role="alert">${error}</p>`}
  </section>`;
}
