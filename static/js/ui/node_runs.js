// The runs on a node: how many workers of each, their ranks, and what is reserved for them.
/** @import { Node } from "../types.js" */
/** @import { RunOnNode } from "../model/node_use.js" */

import { integer, NOTHING } from "../model/format.js";
import { runsOn } from "../model/node_use.js";
import { plain } from "../model/text.js";
import { formatView, runView } from "../model/view.js";
import { html } from "./html.js";
import { Swatch } from "./swatch.js";

/** @param {{ node: Node, names: Map<string, string> }} props */
export function NodeRuns({ node, names }) {
  const runs = runsOn(node);
  if (runs.length === 0) return html`<p class="quiet node-unknown">No worker runs here</p>`;
  return html`<div class="scroll-x"><table class="grid node-runs">
    <thead>
      <tr>
        <th scope="col" class="n-run">Run</th>
        <th scope="col" class="n-num num">Workers</th>
        <th scope="col" class="n-ranks">Ranks</th>
        <th scope="col" class="n-gpus">GPUs</th>
        <th scope="col" class="n-reserved">Reserved</th>
      </tr>
    </thead>
    <tbody>
      ${runs.map((run) => html`<${Row} key=${run.run_id} run=${run} name=${names.get(run.run_id) ?? run.run_id} />`)}
    </tbody>
  </table></div>`;
}

/** @param {{ run: RunOnNode, name: string }} props */
function Row({ run, name }) {
  const text = plain(name);
  const ranks = run.attempt === null ? run.ranks : `${run.ranks}, attempt ${run.attempt}`;
  return html`<tr data-run=${run.run_id}>
    <td class="n-run"><span class="run-key"><${Swatch} id=${run.run_id} /><a href=${formatView({ ...runView(run.run_id), tab: "workers" })} data-row-link title=${`${text}\n${run.run_id}`}><bdi>${text}</bdi></a></span></td>
    <td class="n-num num">${integer(run.workers)}</td>
    <td class="n-ranks" title=${run.pids || ranks}>${ranks}</td>
    <td class="n-gpus" title=${plain(run.gpus)}><bdi>${plain(run.gpus) || NOTHING}</bdi></td>
    <td class="n-reserved" title=${plain(run.reserved)}><bdi>${plain(run.reserved) || NOTHING}</bdi></td>
  </tr>`;
}
