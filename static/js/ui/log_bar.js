// What stands above the lines of a log: whether it is read to its end, where in it one is, and the ways to
// its ends.

import { html } from "./html.js";

const STATES = {
  loading: "Loading…",
  live: "Live",
  ended: "End of log",
  lost: "Not reachable; trying again",
};

/** @typedef {keyof typeof STATES} LogState */

/**
 * @param {object} props
 * @param {LogState} props.state
 * @param {string} props.place
 * @param {boolean} props.growing lines may come
 * @param {boolean} props.pinned the end is followed
 * @param {(on: boolean) => void} props.follow
 * @param {() => void} [props.toStart]
 */
export function LogBar({ state, place, growing, pinned, follow, toStart }) {
  return html`<div class="log-bar">
    <span class=${`quiet log-state is-${state}`} role="status">${STATES[state]}</span>
    <span class="quiet">${place}</span>
    <span class="grow"></span>
    ${toStart && html`<button class="button" onClick=${toStart}>Start</button>`}
    <button class="button" onClick=${() => follow(true)}>End</button>
    ${growing && html`<button class="chip" aria-pressed=${pinned} onClick=${() => follow(!pinned)}>Follow</button>`}
  </div>`;
}
