// Work that may be asked for often and is to be done rarely: once an animation frame, or at most
// once in a given time. Timers only; what is done is the caller's affair.

/**
 * Collects what comes within one frame and hands it over at once: a burst of events is one redraw.
 * @template T @param {(items: T[]) => void} flush
 */
export function perFrame(flush) {
  /** @type {T[]} */
  let items = [];
  return (/** @type {T} */ item) => {
    items.push(item);
    if (items.length > 1) return;
    requestAnimationFrame(() => {
      const all = items;
      items = [];
      flush(all);
    });
  };
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
