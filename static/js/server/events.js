// The one module that listens: what the head says of runs as it happens, and whether it is heard.
// Listeners get what changed, `gone` what was deleted for good; `resync` tells them that something may have been missed and what they
// show must be asked for again. A hidden tab hears nothing. The stream is the worker's that all tabs
// share (shared.js), or this tab's own where the browser has no such workers.
/** @import { MetricTick, RunChange, TrailEvent } from "../types.js" */
/** @import { Message } from "./stream.js" */

import { signal } from "@preact/signals";
import { setServerTime } from "../state/clock.js";
import { makeStream } from "./stream.js";

/** @typedef {{ state: "connecting" | "live" | "lost", since: number }} Connection */
/** @typedef {{ run?: (run: RunChange) => void, gone?: (id: string) => void, trail?: (event: TrailEvent) => void, metrics?: (tick: MetricTick) => void, resync?: () => void }} Listener */

/** How long a first page waits for the stream before it loads without. */
const LISTENING_MS = 250;
const HIDDEN_GRACE_MS = 10_000;

export const connection = signal(/** @type {Connection} */ ({ state: "connecting", since: Date.now() }));

/** @type {() => void} */
let settle = () => {};
/**
 * Settles once changes are heard, so that what is asked for after it cannot miss one between the
 * answer and the start of the stream; or once that takes too long, and then all is asked for again
 * when they are heard.
 * @type {Promise<void>}
 */
export const listening = new Promise((done) => (settle = done));
let wentAhead = false;

function goAhead() {
  wentAhead = connection.peek().state !== "live";
  settle();
}

/** @type {Set<Listener>} */
const listeners = new Set();

/** @param {Listener} listener @returns {() => void} stops listening */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** What an answer to this tab's own request says of a run is news for all who listen. @param {RunChange} run */
export function announce(run) {
  tell((l) => l.run?.(run));
}

/** @typedef {{ show: () => void, hide: () => void, leave: () => void }} Source */

export function start() {
  setTimeout(goAhead, LISTENING_MS);
  let source = sharedSource() ?? ownSource();
  let quiet = document.hidden;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => {
        quiet = true;
        source.hide();
      }, HIDDEN_GRACE_MS);
    } else if (quiet) {
      quiet = false;
      source.show();
    }
  });
  // A page that is kept for the way back may be shown again.
  addEventListener("pagehide", () => source.leave());
  addEventListener("pageshow", (e) => e.persisted && source.show());
  if (!quiet) source.show();

  /** @returns {Source | null} */
  function sharedSource() {
    try {
      const url = new URL("static/js/server/shared.js", document.baseURI);
      const worker = new SharedWorker(url, { type: "module", name: "events" });
      worker.port.onmessage = (e) => accept(e.data);
      // It could not be loaded: this tab listens by itself.
      worker.onerror = () => {
        source = ownSource();
        if (!quiet) source.show();
      };
      /** @param {string} word */
      const say = (word) => () => worker.port.postMessage(word);
      return { show: say("shown"), hide: say("hidden"), leave: say("gone") };
    } catch {
      return null;
    }
  }
}

/** @returns {Source} */
function ownSource() {
  const stream = makeStream("api/train/events", accept);
  return { show: stream.open, hide: stream.close, leave: stream.close };
}

/** @param {Connection["state"]} state */
function become(state) {
  if (connection.peek().state !== state) connection.value = { state, since: Date.now() };
}

/** @param {Message} message */
function accept({ event, data, missed }) {
  if (event === "lost") {
    if (connection.peek().state === "connecting") goAhead();
    return become("lost");
  }
  const said = JSON.parse(data);
  if (event === "hello") {
    setServerTime(said.server_time_ms);
    become("live");
    settle();
    if (missed || wentAhead) tell((l) => l.resync?.());
    wentAhead = false;
    return;
  }
  if (event === "run") tell((l) => l.run?.(said));
  if (event === "gone") tell((l) => l.gone?.(said.run_id));
  if (event === "trail") tell((l) => l.trail?.(said));
  if (event === "metrics") tell((l) => l.metrics?.(said));
  if (event === "reset") tell((l) => l.resync?.());
}

/** @param {(listener: Listener) => void} what */
function tell(what) {
  for (const listener of [...listeners]) what(listener);
}
