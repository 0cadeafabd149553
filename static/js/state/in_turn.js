// Work that waits for its turn: a browser has six connections to a head, and one part of a page must not
// take them all. It knows nothing of what is done.

/** Lets so many be done at once; the others follow in their order. @param {number} most */
export function inTurn(most) {
  let busy = 0;
  /** @type {(() => void)[]} */
  const waiting = [];
  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  return async (work) => {
    if (busy < most) busy += 1;
    // Its place is handed over, so that nobody comes between.
    else await new Promise((resolve) => waiting.push(() => resolve(null)));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else busy -= 1;
    }
  };
}

/**
 * Does it for all, a few at a time. Those that fail keep none of the others from being done to their end; then
 * the first failure is thrown.
 * @template T @param {T[]} all @param {number} most @param {(one: T) => Promise<void>} work
 */
export async function each(all, most, work) {
  const turn = inTurn(most);
  const done = await Promise.allSettled(all.map((one) => turn(() => work(one))));
  const failed = done.find((d) => d.status === "rejected");
  if (failed) throw failed.reason;
}
