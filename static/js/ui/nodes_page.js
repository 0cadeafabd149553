// The Nodes page: each host with what it has, what is reserved and used of it, and which runs are on it.
/** @import { Node } from "../types.js" */

import { useEffect } from "preact/hooks";
import { count } from "../model/format.js";
import { plain } from "../model/text.js";
import { openNodes } from "../state/nodes.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { Gpus, Measured, Resources } from "./node_devices.js";
import { NodeRuns } from "./node_runs.js";

export function NodesPage() {
  const opened = useOpened(openNodes, []);
  useEffect(() => void (document.title = "Nodes · TrainHead"), []);
  const nodes = opened.list.value?.nodes ?? null;
  const names = opened.names.value;
  const idle = nodes?.every((n) => n.workers.length === 0 && n.reservations.length === 0);
  return html`<main class="nodes" aria-busy=${nodes === null}>
    <header class="nodes-head">
      <h1>Nodes</h1>
      <span class="quiet" role="status">${nodes && summary(nodes)}</span>
    </header>
    ${opened.error.value && html`<p class="problem" role="alert">${opened.error.value}</p>`}
    ${!nodes && !opened.error.value && html`<p class="quiet tab-note">Loading nodes…</p>`}
    ${nodes?.map((node) => html`<${OneNode} key=${node.node_id} node=${node} names=${names} />`)}
    ${idle && html`<${Idle} />`}
  </main>`;
}

/** @param {Node[]} nodes */
function summary(nodes) {
  const workers = nodes.reduce((sum, n) => sum + n.workers.length, 0);
  const runs = new Set(nodes.flatMap((n) => [...n.workers, ...n.reservations].map((p) => p.run_id))).size;
  return `${count(nodes.length, "node")}, ${count(workers, "worker")} of ${count(runs, "run")}`;
}

/** @param {{ node: Node, names: Map<string, string> }} props */
function OneNode({ node, names }) {
  const name = plain(node.node_id);
  return html`<section class="node" data-node=${node.node_id} aria-label=${name}>
    <header class="node-head">
      <h2 title=${name}><bdi>${name}</bdi></h2>
      <span class="mono quiet"><bdi>${plain(node.node_ip)}</bdi></span>
      ${node.is_head && html`<span class="tag" title="The head runs on this host and measures it">head</span>`}
    </header>
    <div class="node-body">
      <div class="node-has">
        <${Measured} devices=${node.devices} />
        <${Resources} node=${node} />
      </div>
      <div class="node-who">
        <${Gpus} node=${node} names=${names} />
        <${NodeRuns} node=${node} names=${names} />
      </div>
    </div>
  </section>`;
}

/** While no worker runs anywhere: what brings one here. */
function Idle() {
  return html`<section class="empty">
    <h2>No worker runs anywhere</h2>
    <p>The workers of a run appear here when they start, on this host or on the one that their controller names. A host elsewhere stays in this list once it was named.</p>
    <ol>
      <li><h3>Run workers on this host</h3><p>With <code class="mono">--gpus-per-worker</code> each gets GPUs of its own, which nobody else gets meanwhile.</p><pre class="command">trainhead run --workers 2 --gpus-per-worker 1 -- python3 train.py</pre></li>
      <li><h3>Name other hosts over HTTP</h3><p>The field <code class="mono">nodes</code> of the body that begins an attempt says what each host has.</p><pre class="command">"nodes": [{"node_id": "gpu-box", "node_ip": "10.0.0.7", "resources": {"CPU": 64}, "gpu_ids": ["0", "1"]}]</pre></li>
    </ol>
  </section>`;
}
