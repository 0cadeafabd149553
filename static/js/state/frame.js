// Work that may be asked for often and is to be done rarely: once an animation frame, or at most
// once in a given time. Timers only; what is done is the caller's affair.

/**
 * Collects what comes within one frame and hands it over at once: a burst of events is one redraw.
 * `forget` drops what waits.
 * @template T @param {(items: T[]) => void} flush
 */
export function perFrame(flush) {
  /** @type {T[]} */
  let items = [];
  let asked = false;
  const add = (/** @type {T} */ item) => {
    items.push(item);
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      const all = items;
      items = [];
      asked = false;
      if (all.length > 0) flush(all);
    });
  };
  return Object.assign(add, { forget: () => void (items = []) });
}

/**
 * Runs `work` soon, and again after `ms` if it was asked for meanwhile; never two at once.
 * @param {() => Promise<void>} work @param {number} ms
 */
export function throttled(work, ms) {
  let busy = false;
  let again = false;
  const run = async () => {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    await work();
    setTimeout(() => {
      busy = false;
      if (again) void run();
    }, ms);
  };
  return () => void run();
}
