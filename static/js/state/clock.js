// The head's time, ticking once a second while somebody looks. Ages and durations are measured
// on the head's clock, because the browser's may be off; nothing here decides liveness.

import { signal } from "@preact/signals";

let offset_ms = 0;

export const now = signal(Date.now());

/** @param {number} server_time_ms */
export function setServerTime(server_time_ms) {
  offset_ms = server_time_ms - Date.now();
  tick();
}

function tick() {
  now.value = Date.now() + offset_ms;
}

export function startClock() {
  setInterval(() => !document.hidden && tick(), 1000);
  document.addEventListener("visibilitychange", () => !document.hidden && tick());
}
