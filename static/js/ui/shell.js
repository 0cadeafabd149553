// What is around every page: the bar, the state of the connection, and which page is shown.
/** @import { View } from "../model/view.js" */

import { useEffect } from "preact/hooks";
import { clock } from "../model/format.js";
import { connection } from "../server/events.js";
import { view } from "../state/route.js";
import { Help } from "./help.js";
import { html } from "./html.js";
import { later } from "./later.js";
import { RunsPage } from "./runs_page.js";

const RunPage = later(async () => (await import("./run_page.js")).RunPage);
const WORDS = { connecting: "Connecting", live: "Live", lost: "Not connected" };

function ConnectionMark() {
  const { state } = connection.value;
  return html`<span class=${`connection is-${state}`} role="status">
    <svg viewBox="0 0 8 8" aria-hidden="true"><circle cx="4" cy="4" r="3" /></svg>${WORDS[state]}
  </span>`;
}

/** Lies over the page instead of moving it. */
function LostBar() {
  const { state, since } = connection.value;
  if (state !== "lost") return null;
  return html`<div class="lost" role="alert">
    The head has not answered since ${clock(since)}. What you see is from before; this page tries again by itself.
  </div>`;
}

/** @param {{ path: string }} props */
function MissingPage({ path }) {
  useEffect(() => void (document.title = "Not found · TrainHead"), []);
  return html`<main class="notice">
    <h1>There is no page here</h1>
    <p class="mono">${path}</p>
    <p><a href="./">All runs</a></p>
  </main>`;
}

/** @param {{ at: View }} props */
function Page({ at }) {
  if (at.page === "runs") return html`<${RunsPage} view=${at} />`;
  if (at.page === "run") return html`<${RunPage} key=${at.id} view=${at} />`;
  return html`<${MissingPage} path=${at.path} />`;
}

export function Shell() {
  const at = view.value;
  return html`<header class="bar">
      <a class="brand" href="./">TrainHead</a>
      <nav aria-label="Pages">
        <a href="./" aria-current=${at.page === "runs" ? "page" : undefined}>Runs</a>
        <a href="docs">API</a>
      </nav>
      <span class="grow"></span>
      <${ConnectionMark} />
      <${Help} />
    </header>
    <${Page} at=${at} />
    <${LostBar} />`;
}
