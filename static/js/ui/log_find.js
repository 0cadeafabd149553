// The search in a log: what is looked for, which of the matches is looked at, and how far the head has
// looked. Enter leads to the next match, Shift+Enter to the one before.
/** @import { Found } from "../state/log_search.js" */

import { bytes, integer } from "../model/format.js";
import { MOST_MATCHES } from "../state/log_search.js";
import { html } from "./html.js";
import { SearchBox } from "./search_box.js";

/**
 * @param {object} props
 * @param {string} props.find
 * @param {(find: string, step: 1 | -1 | 0) => void} props.onFind `step`: also go to a match
 */
export function FindBox({ find, onFind }) {
  /** @param {KeyboardEvent} e */
  const onKeyDown = (e) => {
    if (e.key !== "Enter") return;
    e.preventDefault();
    onFind(/** @type {HTMLInputElement} */ (e.target).value, e.shiftKey ? -1 : 1);
  };
  return html`<span class="log-find" onKeyDown=${onKeyDown}>
    <${SearchBox} value=${find} label="Search in the log" onSearch=${(/** @type {string} */ text) => onFind(text, 0)} />
  </span>`;
}

/**
 * @param {object} props
 * @param {Found} props.found
 * @param {number} props.current which of the matches is looked at; −1: none of them
 * @param {string | null} props.error
 * @param {(step: 1 | -1) => void} props.onStep
 */
export function Matches({ found, current, error, onStep }) {
  const { matches, done, full, searched, size } = found;
  const n = `${integer(matches.length)}${done && !full ? "" : "+"}`;
  const none = matches.length === 0;
  const said = none
    ? done
      ? "No match"
      : "Searching"
    : current < 0
      ? n === "1"
        ? "1 line"
        : `${n} lines`
      : `${integer(current + 1)} of ${n}`;
  const far = done
    ? full
      ? `the first ${integer(MOST_MATCHES)} lines`
      : ""
    : size > 0
      ? `searched ${bytes(searched)} of ${bytes(size)}`
      : "";
  return html`<span class="log-matches">
    <span role="status">${said}</span>
    <button class="button" aria-label="Previous match" title="Previous match (Shift+Enter)" disabled=${none} onClick=${() => onStep(-1)}>↑</button>
    <button class="button" aria-label="Next match" title="Next match (Enter)" disabled=${none} onClick=${() => onStep(1)}>↓</button>
    <span class="quiet">${far}</span>
    ${error && html`<span class="problem" role="alert">${error}</span>`}
  </span>`;
}
