// The one module that listens: a single EventSource for the whole tab, and whether it is alive.
// Listeners get what changed; `resync` tells them that something may have been missed and what
// they show must be asked for again. Closed while the tab is hidden, because a browser allows
// few connections to one host. Sharing one between tabs is not done here yet.
/** @import { MetricTick, RunChange, TrailEvent } from "../types.js" */

import { signal } from "@preact/signals";
import { setServerTime } from "../state/clock.js";

/** @typedef {{ state: "connecting" | "live" | "lost", since: number }} Connection */
/** @typedef {{ run?: (run: RunChange) => void, trail?: (event: TrailEvent) => void, metrics?: (tick: MetricTick) => void, resync?: () => void }} Listener */

/** How long a first page waits for the stream before it loads without. */
const LISTENING_MS = 250;
const HIDDEN_GRACE_MS = 10_000;
const RETRY_MS = 2_000;

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
/** @type {EventSource | null} */
let source = null;
let openedBefore = false;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** @param {Listener} listener @returns {() => void} stops listening */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** What an answer to this tab's own request says of a run is news for all who listen. @param {RunChange} run */
export function announce(run) {
  tell((l) => l.run?.(run));
}

export function start() {
  setTimeout(goAhead, LISTENING_MS);
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(close, HIDDEN_GRACE_MS);
    else if (!source || source.readyState === EventSource.CLOSED) open();
  });
  if (!document.hidden) open();
}

function close() {
  source?.close();
  source = null;
}

/** @param {Connection["state"]} state */
function become(state) {
  if (connection.peek().state !== state) connection.value = { state, since: Date.now() };
}

function open() {
  close();
  const mine = new EventSource("api/train/events");
  source = mine;
  // The browser resumes a broken connection by its last event id; a new EventSource has none.
  let missed = openedBefore;
  openedBefore = true;
  let heard = false;
  on(mine, "hello", (hello) => {
    setServerTime(hello.server_time_ms);
    heard = true;
    become("live");
    settle();
    if (missed || wentAhead) tell((l) => l.resync?.());
    missed = wentAhead = false;
  });
  on(mine, "run", (run) => tell((l) => l.run?.(run)));
  on(mine, "trail", (event) => tell((l) => l.trail?.(event)));
  on(mine, "metrics", (tick) => tell((l) => l.metrics?.(tick)));
  on(mine, "reset", () => tell((l) => l.resync?.()));
  mine.onerror = () => {
    if (source !== mine) return;
    become("lost");
    if (!heard) goAhead();
    // After an answer that is not an event stream (a proxy's 502) the browser gives up; we do not.
    if (mine.readyState === EventSource.CLOSED) {
      clearTimeout(timer);
      timer = setTimeout(() => !document.hidden && open(), RETRY_MS);
    }
  };
}

/** @param {EventSource} from @param {string} name @param {(data: any) => void} then */
function on(from, name, then) {
  from.addEventListener(name, (e) => then(JSON.parse(/** @type {MessageEvent} */ (e).data)));
}

/** @param {(listener: Listener) => void} what */
function tell(what) {
  for (const listener of [...listeners]) what(listener);
}
