// Status marks: a shape, a word and a colour, so that none of them has to be relied on alone.
/** @import { TrainRun } from "../types.js" */
/** @import { Shape } from "../model/status.js" */

import { mark } from "../model/status.js";
import { html } from "./html.js";

const RING = "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11";
/** @type {Record<Shape | "alive", string>} */
const PATHS = {
  started: "M8 2.5A5.5 5.5 0 0 1 13.5 8",
  stalled: "M6.5 5.8v4.4M9.5 5.8v4.4",
  finished: "M3 8.6l3.4 3.4L13 4.8",
  errored: "M4 4l8 8M12 4l-8 8",
  aborted: `${RING}M4.2 11.8l7.6-7.6`,
  waiting: RING,
  alive: "M8 5.5a2.5 2.5 0 1 1 0 5a2.5 2.5 0 0 1 0-5",
};

/** @param {{ shape: Shape | "alive" }} props */
export function Glyph({ shape }) {
  const ring = shape === "started" || shape === "stalled";
  return html`<svg class=${`shape is-${shape}`} viewBox="0 0 16 16" aria-hidden="true">
    ${ring && html`<path class="shape-ring" d=${RING} />`}
    <path class="shape-line" d=${PATHS[shape]} />
  </svg>`;
}

/** @param {{ shape: Shape | "alive", word: string, detail?: string }} props */
export function Mark({ shape, word, detail = "" }) {
  return html`<span class=${`mark is-${shape}`}
    ><${Glyph} shape=${shape} /><b>${word}</b>${detail && html`<span class="mark-detail">${detail}</span>`}</span
  >`;
}

/** @param {{ run: TrainRun }} props */
export function RunMark({ run }) {
  const { shape, word, detail } = mark(run);
  return html`<${Mark} shape=${shape} word=${word} detail=${detail} />`;
}
