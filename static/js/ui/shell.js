// What is around every page: the bar, the state of the connection, and which page is shown.
/** @import { View } from "../model/view.js" */

import { useEffect } from "preact/hooks";
import { clock } from "../model/format.js";
import { connection } from "../server/events.js";
import { view } from "../state/route.js";
import { chooseTheme, theme, THEMES } from "../state/theme.js";
import { Help } from "./help.js";
import { html } from "./html.js";
import { later } from "./later.js";
import { RunsPage } from "./runs_page.js";
import { Toasts } from "./toasts.js";

const RunPage = later(async () => (await import("./run_page.js")).RunPage);
const ComparePage = later(async () => (await import("./compare_page.js")).ComparePage);
const ExperimentsPage = later(async () => (await import("./experiments_page.js")).ExperimentsPage);
const NodesPage = later(async () => (await import("./nodes_page.js")).NodesPage);

const WORDS = { connecting: "Connecting", live: "Live", lost: "Not connected" };

function ConnectionMark() {
  const { state } = connection.value;
  return html`<span class=${`connection is-${state}`} role="status">
    <svg viewBox="0 0 8 8" aria-hidden="true"><circle cx="4" cy="4" r="3" /></svg><span class="word">${WORDS[state]}</span>
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

const THEME_WORDS = { system: "as the system has it", light: "light", dark: "dark" };
const THEME_SHAPES = {
  system: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11M8 2.5v11M8 5h3.5M8 8h5M8 11h3.5",
  light:
    "M8 5a3 3 0 1 1 0 6a3 3 0 0 1 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3.05 3.05l1.1 1.1M11.85 11.85l1.1 1.1M3.05 12.95l1.1-1.1M11.85 4.15l1.1-1.1",
  dark: "M12.5 10A5.5 5.5 0 0 1 6 3.5a5.5 5.5 0 1 0 6.5 6.5",
};

/** Goes through system, light and dark. */
function ThemeButton() {
  const now = theme.value;
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  const title = `Colours: ${THEME_WORDS[now]}. Change to ${THEME_WORDS[next]}`;
  return html`<button class="button is-quiet" aria-label=${title} title=${title} onClick=${() => chooseTheme(next)}>
    <svg class="shape" viewBox="0 0 16 16" aria-hidden="true"><path d=${THEME_SHAPES[now]} /></svg>
  </button>`;
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
  if (at.page === "compare") return html`<${ComparePage} view=${at} />`;
  if (at.page === "experiments") return html`<${ExperimentsPage} view=${at} />`;
  if (at.page === "nodes") return html`<${NodesPage} />`;
  return html`<${MissingPage} path=${at.path} />`;
}

const PLACES = /** @type {const} */ ([
  ["./", "runs", "Runs"],
  ["experiments", "experiments", "Experiments"],
  ["nodes", "nodes", "Nodes"],
]);

export function Shell() {
  const at = view.value;
  return html`<header class="bar">
      <a class="brand" href="./">TrainHead</a>
      <nav aria-label="Pages">
        ${PLACES.map(([href, page, name]) => html`<a key=${page} href=${href} aria-current=${at.page === page ? "page" : undefined}>${name}</a>`)}
        <a href="docs/">API</a>
      </nav>
      <span class="grow"></span>
      <${ConnectionMark} />
      <${ThemeButton} />
      <${Help} />
    </header>
    <${Page} at=${at} />
    <${LostBar} />
    <${Toasts} />`;
}
