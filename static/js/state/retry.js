// Trying again what failed: what is over makes no event that would have it asked for again. One timer,
// however many fail meanwhile. It asks nothing itself.

import { ApiError, errorText } from "../server/api.js";

const RETRY_MS = 5000;
/** Answers that another time may not give. */
const PASSING = [408, 425, 429];

/** Whether the same question would get the same answer again. @param {unknown} error */
export const isFinal = (error) =>
  error instanceof ApiError && error.status >= 400 && error.status < 500 && !PASSING.includes(error.status);

/** It was deleted for good, or never was. @param {unknown} error */
export const isNotThere = (error) => error instanceof ApiError && error.status === 404;

/** @param {() => void} work @param {AbortSignal} [closing] */
export function openRetry(work, closing) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  closing?.addEventListener("abort", () => clearTimeout(timer));
  /** Once, a little later. */
  return () => {
    if (closing?.aborted) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      work();
    }, RETRY_MS);
  };
}

/**
 * What is to be done about a failure of `work`: it is said, and tried again unless the answer would be the same.
 * @param {AbortSignal} closing @param {(text: string) => void} say @param {() => void} work
 */
export function openFailing(closing, say, work) {
  const retry = openRetry(work, closing);
  return (/** @type {unknown} */ e) => {
    if (closing.aborted) return;
    say(errorText(e));
    if (!isFinal(e)) retry();
  };
}

/**
 * Work of several kinds, with one place for what went wrong: a kind that has nothing to ask says nothing
 * of the others. Whatever failed, `again` is to try all of it.
 * @param {{ value: string | null }} error @param {AbortSignal} closing @param {() => void} again
 * @param {() => void} onMissing something that was asked for is not there
 */
export function openTries(error, closing, again, onMissing) {
  const retry = openRetry(again, closing);
  /** @type {Map<string, string>} */
  const faults = new Map();
  return (/** @type {string} */ kind, /** @type {() => Promise<void>} */ work) => async () => {
    try {
      await work();
      faults.delete(kind);
    } catch (e) {
      if (closing.aborted) return;
      faults.set(kind, errorText(e));
      if (isNotThere(e)) onMissing();
      if (isNotThere(e) || !isFinal(e)) retry();
    }
    error.value = [...faults.values()][0] ?? null;
  };
}
