// Short messages that lie over the page for a while: what was done, and how to undo it.

import { signal } from "@preact/signals";

/** @typedef {{ id: number, text: string, bad: boolean, undo: (() => void) | null }} Toast */

const SHOWN_MS = 10_000;
let next = 1;

export const toasts = signal(/** @type {Toast[]} */ ([]));

/** @param {string} text @param {{ bad?: boolean, undo?: () => void }} [how] */
export function say(text, { bad = false, undo } = {}) {
  const id = next++;
  toasts.value = [...toasts.peek(), { id, text, bad, undo: undo ?? null }];
  setTimeout(() => dismiss(id), SHOWN_MS);
}

/** @param {number} id */
export function dismiss(id) {
  toasts.value = toasts.peek().filter((t) => t.id !== id);
}
