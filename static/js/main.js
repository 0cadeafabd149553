// Starts the dashboard: clock, routing, keyboard, event stream, and the page. Nothing else.

import { render } from "preact";
import { start } from "./server/events.js";
import { startClock } from "./state/clock.js";
import { startRouting } from "./state/route.js";
import { html } from "./ui/html.js";
import { startKeyboard } from "./ui/keyboard.js";
import { Shell } from "./ui/shell.js";

startClock();
startRouting();
startKeyboard();
start();
const app = /** @type {HTMLElement} */ (document.getElementById("app"));
app.replaceChildren();
render(html`<${Shell} />`, app);
