// The Checkpoints tab: what there is to go on from, newest first, what is kept and why, and pins.
/** @import { Checkpoint } from "../file_types.js" */
/** @import { Shape } from "../model/status.js" */
/** @import { RunState } from "../state/run.js" */

import { bytes, count, exact, integer, NOTHING, number } from "../model/format.js";
import { scoreOf } from "../model/scores.js";
import { word } from "../model/status.js";
import { plain } from "../model/text.js";
import { openCheckpoints } from "../state/checkpoints.js";
import { Copy } from "./copy.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { ScorePlot } from "./score_plot.js";
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
/** So many of those that go next are named in a sentence. */
const NAMED = 8;

/** @param {{ run: RunState }} props */
export function CheckpointsTab({ run }) {
  const opened = useOpened(() => openCheckpoints(run.id), [run.id]);
  const page = opened.page.value;
  const error = opened.error.value;
  const problem = error && html`<p class="problem" role="alert">${error}</p>`;
  if (!page) return problem || html`<p class="quiet tab-note">Loading…</p>`;
  if (page.checkpoints.length === 0) {
    return html`${problem}
      <p class="quiet tab-note">
        No checkpoint yet. A training script hands one over with${" "}
        <code>trainhead.report(metrics, checkpoint=trainhead.Checkpoint.from_directory(path))</code>.
      </p>`;
  }
  const { checkpoints, total_size } = page;
  const score = scoreOf(run.settings, checkpoints);
  const metrics = score ? [score.key] : [];
  return html`${problem}
    <p class="tab-note">${retention(run.settings, checkpoints)}</p>
    ${score && html`<${ScorePlot} checkpoints=${checkpoints} score=${score} />`}
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
          ${checkpoints.map((c) => html`<${Row} key=${c.number} checkpoint=${c} first=${metrics} pin=${opened.pin} />`)}
        </tbody>
      </table>
    </div>
    <p class="quiet tab-note num c-all">
      ${integer(checkpoints.length)} of ${integer(total_size)}
      ${page.next_page_token && html`<button class="button" onClick=${opened.more}>Load older ones</button>`}
    </p>`;
}

/** @param {{ checkpoint: Checkpoint, first: string[], pin: (number: number, method: "PUT" | "DELETE") => void }} props `first`: the metrics that are shown before others */
function Row({ checkpoint: c, first, pin }) {
  const keys = [
    ...first.filter((k) => k in c.metrics),
    ...Object.keys(c.metrics).filter((k) => !first.includes(k)),
  ];
  const all = keys.map((key) => `${plain(key)}: ${number(c.metrics[key])}`);
  const rest = keys.length > SHOWN_METRICS ? ", …" : "";
  const gone = c.fate === "GONE";
  return html`<tr class=${gone ? "is-gone" : ""}>
    <td class="num">${c.number}</td>
    <td class="num">${integer(c.step)}</td>
    <td title=${c.status_detail ? plain(c.status_detail) : ""}>
      <${Mark} shape=${SHAPES[c.state]} word=${word(c.state)} />
      ${c.status_detail && html`<div class="quiet c-detail">${plain(c.status_detail)}</div>`}
    </td>
    <td class=${c.fate === "GOES" ? "c-goes" : ""}>${kept(c) || NOTHING}</td>
    <td class="num">${c.attempt}</td>
    <td class="num">${integer(c.num_files)}</td>
    <td class="num">${bytes(c.size_bytes)}</td>
    <td class="num" title=${exact(c.committed_at_ms)}><${Ago} at=${c.committed_at_ms} /></td>
    <td class="c-metrics" title=${all.join("\n")}>${all.slice(0, SHOWN_METRICS).join(", ")}${rest}</td>
    <td class="c-where mono" title=${c.uri}><bdi>${plain(c.uri)}</bdi></td>
    <td class="c-does">
      ${
        !gone &&
        html`<${Copy} text=${c.uri} what=${`the path of checkpoint ${c.number}`} />
          <button
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

/** What is kept, and what goes next. @param {Record<string, unknown>} settings @param {Checkpoint[]} checkpoints */
function retention(settings, checkpoints) {
  const rule = /** @type {Record<string, unknown>} */ (settings.checkpoints ?? {});
  const keep = typeof rule.num_to_keep === "number" ? rule.num_to_keep : null;
  if (keep === null) return "Every checkpoint is kept: the run says no number to keep.";
  const by =
    typeof rule.score_attribute === "string" ? `the best by ${plain(rule.score_attribute)}` : "the newest";
  const goes = checkpoints.filter((c) => c.fate === "GOES").map((c) => c.number);
  const named = goes.slice(0, NAMED).map(integer).join(", ");
  const more = goes.length > NAMED ? ` and ${integer(goes.length - NAMED)} more` : "";
  const next = goes.length === 0 ? "" : ` Next to go: ${named}${more}; a pin keeps it.`;
  return `${count(keep, "checkpoint")} to keep, ${by}, besides the latest and those that are pinned.${next}`;
}

/** @param {Checkpoint} c */
function kept(c) {
  const waits = c.fate === "PENDING" && "pending";
  const goes = c.fate === "GOES" && "goes next";
  return [c.best && "best", c.latest && "latest", c.pinned && "pinned", waits, goes]
    .filter(Boolean)
    .join(", ");
}
