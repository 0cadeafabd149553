// What a node has: its use as the head measures it, its resources as they are reserved, its GPUs one by one.
// What nobody said or measured is said to be unknown.
/** @import { Node } from "../types.js" */
/** @import { GpuCell } from "../model/node_use.js" */

import { bytes, count, integer, NOTHING, number } from "../model/format.js";
import { gpusOf, resourcesOf } from "../model/node_use.js";
import { plain } from "../model/text.js";
import { formatView, runView } from "../model/view.js";
import { html } from "./html.js";

/** @param {{ devices: Node["devices"] }} props */
export function Measured({ devices }) {
  if (!devices)
    return html`<p class="quiet node-unknown" title="The head measures its own host only">CPU and memory use unknown</p>`;
  const used = devices.memory_total_bytes - devices.memory_available_bytes;
  const cpu = Math.min(100, devices.cpu_percent);
  return html`<dl class="meters">
    <dt>CPU</dt>
    <dd title=${plain(devices.cpu_model)}><${Meter} of=${cpu / 100} text=${`${integer(Math.round(cpu))} % of ${count(devices.cpu_count, "processor")}`} /></dd>
    <dt>Memory</dt>
    <dd><${Meter} of=${devices.memory_total_bytes > 0 ? used / devices.memory_total_bytes : 0} text=${`${bytes(used)} of ${bytes(devices.memory_total_bytes)}`} /></dd>
  </dl>`;
}

/** A bar and its number. @param {{ of: number, text: string }} props */
function Meter({ of, text }) {
  const share = Math.min(1, Math.max(0, of));
  return html`<span class="meter"><span class=${share > 0.9 ? "is-high" : ""} style=${{ width: `${(100 * share).toFixed(1)}%` }}></span></span><span class="num">${text}</span>`;
}

/** @param {{ node: Node }} props */
export function Resources({ node }) {
  const rows = resourcesOf(node);
  if (rows.length === 0) return html`<p class="quiet node-unknown">Nobody said what this host has</p>`;
  const amount = (/** @type {number | null} */ n) =>
    n === null ? html`<span title="Nobody said how much there is">${NOTHING}</span>` : number(n);
  return html`<table class="grid resources">
    <thead>
      <tr><th scope="col">Resource</th><th scope="col" class="num">Has</th><th scope="col" class="num">Reserved</th><th scope="col" class="num">Free</th></tr>
    </thead>
    <tbody>
      ${rows.map((r) => html`<tr key=${r.name}><th scope="row"><bdi>${plain(r.name)}</bdi></th><td class="num">${amount(r.capacity)}</td><td class="num">${amount(r.reserved)}</td><td class="num">${amount(r.free)}</td></tr>`)}
    </tbody>
  </table>`;
}

/** @param {{ node: Node, names: Map<string, string> }} props */
export function Gpus({ node, names }) {
  const cells = gpusOf(node);
  if (cells.length === 0) return null;
  const free = cells.filter((c) => c.users.length === 0).length;
  const known = cells.some((c) => c.measured);
  const taken =
    free === 0 ? `all ${integer(cells.length)} taken` : `${integer(free)} of ${integer(cells.length)} free`;
  return html`<h3 class="node-part">GPUs <span class="quiet">${taken}${known ? "" : ", use unknown"}</span></h3>
    <ul class="gpus">
      ${cells.map((cell) => html`<${Gpu} key=${cell.id} cell=${cell} names=${names} />`)}
    </ul>`;
}

/** @param {{ cell: GpuCell, names: Map<string, string> }} props */
function Gpu({ cell: { id, users, measured }, names }) {
  const use = measured?.utilization_percent ?? null;
  return html`<li class=${`gpu ${users.length > 0 ? "is-used" : ""}`} data-gpu=${id} title=${measured ? plain(measured.name) : ""}>
    <span class="gpu-head"><b><bdi>${plain(id)}</bdi></b>${measured && html`<span class="quiet num" title="Use">${use === null ? "use unknown" : `${integer(Math.round(use))} %`}</span>`}</span>
    ${use !== null && html`<span class="meter"><span class=${use > 97 ? "is-full" : ""} style=${{ width: `${Math.min(100, use)}%` }}></span></span>`}
    ${measured && html`<span class="quiet num gpu-memory">${bytes(measured.memory_used_bytes)} of ${bytes(measured.memory_total_bytes)}</span>`}
    ${users.length === 0 && html`<span class="quiet">free</span>`}
    ${users.map(({ run_id, ranks }) => {
      const name = plain(names.get(run_id) ?? run_id);
      return html`<span key=${run_id} class="gpu-user"><a href=${formatView(runView(run_id))} title=${`${name}\n${run_id}`}><bdi>${name}</bdi></a><span class="quiet">${ranks || "reserved"}</span></span>`;
    })}
  </li>`;
}
