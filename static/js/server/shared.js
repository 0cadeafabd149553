// The worker that all tabs of a browser share: one stream from the head, passed on to the tabs that
// somebody looks at, and closed when there is none. Browsers allow few connections to one host.
/** @import { Message } from "./stream.js" */

import { makeStream } from "./stream.js";

/** @typedef {{ postMessage: (message: Message) => void }} Port */

/** Tabs that somebody looks at. @type {Set<Port>} */
const shown = new Set();
/** Tabs that did not hear something that happened. @type {WeakSet<Port>} */
const behind = new WeakSet();
/** Tabs that are there but hidden. @type {Set<Port>} */
const hidden = new Set();
let live = false;
/** The head's clock less ours. */
let ahead_ms = 0;

const stream = makeStream(new URL("../../../api/train/events", import.meta.url), (message) => {
  if (message.event === "hello") {
    live = true;
    ahead_ms = JSON.parse(message.data).server_time_ms - Date.now();
  }
  if (message.event === "lost") live = false;
  for (const port of shown) {
    const missed = message.event === "hello" && (message.missed || behind.delete(port));
    port.postMessage(missed ? { ...message, missed } : message);
  }
  for (const port of hidden) behind.add(port);
});

/** @param {Port} port */
function show(port) {
  hidden.delete(port);
  shown.add(port);
  stream.open();
  if (!live) return;
  const data = JSON.stringify({ server_time_ms: Date.now() + ahead_ms });
  port.postMessage({ event: "hello", data, missed: behind.delete(port) });
}

/** @param {Port} port @param {"hidden" | "gone"} how */
function leave(port, how) {
  shown.delete(port);
  if (how === "hidden") hidden.add(port);
  else {
    // It may be kept for the way back, and hears nothing until then.
    hidden.delete(port);
    behind.add(port);
  }
  if (shown.size > 0) return;
  // From here on things happen unheard.
  stream.close();
  live = false;
  for (const other of hidden) behind.add(other);
}

/** @type {any} */
const worker = globalThis;
worker.onconnect = (/** @type {MessageEvent} */ { ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data === "shown") show(port);
    else leave(port, data);
  };
};
