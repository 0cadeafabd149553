// Starts the dashboard: clock, routing, keyboard, event stream, and the page. Nothing else.

import { render } from "preact";
import { start } from "./server/events.js";
import { startClock } from "./state/clock.js";
import { startRouting, view } from "./state/route.js";
import { showRuns } from "./state/runs.js";
import { html } from "./ui/html.js";
import { startKeyboard } from "./ui/keyboard.js";
import { Shell } from "./ui/shell.js";

/** How long the page waits for its rows before it is drawn without. */
const LIST_MS = 150;

startClock();
startRouting();
startKeyboard();
// The list is asked for at once, and not only when the page is drawn; the stream follows it. As a rule
// the list is there so soon that the page is drawn once, with its rows.
const first = view.peek();
if (first.page === "runs") {
  const listed = showRuns(first);
  void listed.finally(start);
  await Promise.race([listed, new Promise((done) => setTimeout(done, LIST_MS))]);
} else start();
const app = /** @type {HTMLElement} */ (document.getElementById("app"));
app.replaceChildren();
render(html`<${Shell} />`, app);
