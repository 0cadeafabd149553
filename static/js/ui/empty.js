// The first page of an empty head: the three commands that produce a run.

import { Copy } from "./copy.js";
import { html } from "./html.js";

const head = () => document.baseURI.replace(/\/$/, "");

const WAYS = () => [
  {
    title: "Start a training run here",
    text: "In place of torchrun. The workers, their metrics and their logs appear on this page.",
    command: "trainhead run --workers 2 -- python3 train.py",
  },
  {
    title: "Let another terminal or machine report to this head",
    text: "Keep one head for the team; every controller names it.",
    command: `trainhead serve\ntrainhead run --head ${head()} --workers 2 -- python3 train.py`,
  },
  {
    title: "Register a run over HTTP",
    text: "For launchers of your own. The answer carries the token for everything that follows.",
    command: `curl -X POST ${head()}/api/train/runs \\\n  -H 'content-type: application/json' \\\n  -d '{"name": "my-first-run", "controller": {"actor_id": "shell"}}'`,
  },
];

export function EmptyHead() {
  return html`<section class="empty">
    <h2>No runs yet</h2>
    <p>This head is ready. Any of these makes the first run; it appears here by itself.</p>
    <ol>
      ${WAYS().map((way) => html`<li key=${way.title}><h3>${way.title}</h3><p>${way.text}</p><${Command} text=${way.command} /></li>`)}
    </ol>
  </section>`;
}

/** @param {{ text: string }} props */
function Command({ text }) {
  return html`<div class="command">
    <pre>${text}</pre>
    <${Copy} text=${text} />
  </div>`;
}
