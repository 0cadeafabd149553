// The Checkpoints tab: what there is to go on from, newest first, what is kept and why, and pins.
/** @import { Checkpoint } from "../types.js" */
/** @import { Shape } from "../model/status.js" */
/** @import { RunState } from "../state/run.js" */

import { bytes, count, exact, integer, NOTHING, number } from "../model/format.js";
import { word } from "../model/status.js";
import { plain } from "../model/text.js";
import { openCheckpoints } from "../state/checkpoints.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { Mark } from "./status.js";
import { Ago } from "./time.js";

/** @type {Record<Checkpoint["state"], Shape>} */
const SHAPES = {
  STAGING: "waiting",
  COMMITTED: "finished",
  VALIDATING: "started",
  VALIDATED: "finished",
  VALIDATION_FAILED: "errored",
  VALIDATION_TIMEOUT: "errored",
  CORRUPT: "errored",
  MISSING: "aborted",
  DELETED: "aborted",
};

const SHOWN_METRICS = 3;

/** @param {{ run: RunState }} props */
export function CheckpointsTab({ run }) {
  const opened = useOpened(() => openCheckpoints(run.id), [run.id]);
  const page = opened.page.value;
  const error = opened.error.value;
  const problem = error && html`<p class="problem" role="alert">${error}</p>`;
  if (!page) return html`${problem}<p class="quiet tab-note">Loading…</p>`;
  if (page.checkpoints.length === 0) {
    return html`${problem}
      <p class="quiet tab-note">
        No checkpoint yet. A training script hands one over with${" "}
        <code>trainhead.report(metrics, checkpoint=trainhead.Checkpoint.from_directory(path))</code>.
      </p>`;
  }
  const more = page.total_size - page.checkpoints.length;
  return html`${problem}
    <div class="scroll-x">
      <table class="grid checkpoints">
        <thead>
          <tr>
            <th class="num">No.</th>
            <th class="num">Step</th>
            <th>State</th>
            <th>Kept as</th>
            <th class="num">Attempt</th>
            <th class="num">Files</th>
            <th class="num">Size</th>
            <th class="num">Written</th>
            <th>Metrics</th>
            <th class="c-where">Where</th>
            <th></th>
          </tr>
        </thead>
        <tbody>
          ${page.checkpoints.map((c) => html`<${Row} key=${c.number} checkpoint=${c} pin=${opened.pin} />`)}
        </tbody>
      </table>
    </div>
    ${more > 0 && html`<p class="quiet tab-note">and ${count(more, "older checkpoint")}</p>`}`;
}

/** @param {{ checkpoint: Checkpoint, pin: (number: number, method: "PUT" | "DELETE") => void }} props */
function Row({ checkpoint: c, pin }) {
  const metrics = Object.entries(c.metrics);
  const all = metrics.map(([key, value]) => `${key}: ${number(value)}`);
  const rest = metrics.length > SHOWN_METRICS ? ", …" : "";
  const gone = c.fate === "GONE";
  return html`<tr class=${gone ? "is-gone" : ""}>
    <td class="num">${c.number}</td>
    <td class="num">${integer(c.step)}</td>
    <td title=${c.status_detail ? plain(c.status_detail) : ""}>
      <${Mark} shape=${SHAPES[c.state]} word=${word(c.state)} />
      ${c.status_detail && html`<div class="quiet">${plain(c.status_detail)}</div>`}
    </td>
    <td>${kept(c) || NOTHING}</td>
    <td class="num">${c.attempt}</td>
    <td class="num">${integer(c.num_files)}</td>
    <td class="num">${bytes(c.size_bytes)}</td>
    <td class="num" title=${exact(c.committed_at_ms)}><${Ago} at=${c.committed_at_ms} /></td>
    <td title=${all.join("\n")}>${all.slice(0, SHOWN_METRICS).join(", ")}${rest}</td>
    <td class="c-where mono" title=${c.uri}>${c.uri}</td>
    <td>
      ${
        !gone &&
        html`<button
          class="button"
          aria-label=${`${c.pinned ? "Unpin" : "Pin"} checkpoint ${c.number}`}
          onClick=${() => pin(c.number, c.pinned ? "DELETE" : "PUT")}
        >
          ${c.pinned ? "Unpin" : "Pin"}
        </button>`
      }
    </td>
  </tr>`;
}

/** @param {Checkpoint} c */
function kept(c) {
  const waits = c.fate === "PENDING" && "pending";
  const goes = c.fate === "GOES" && "goes next";
  return [c.best && "best", c.latest && "latest", c.pinned && "pinned", waits, goes]
    .filter(Boolean)
    .join(", ");
}
