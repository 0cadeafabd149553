// The stream of events from the head, taken up again whenever it breaks. Runs in the worker that all
// tabs share, or in a tab of a browser without such workers; it knows neither. What an event says is
// passed on as the text that came.

/**
 * `hello` begins a stream, `missed` if something may have happened since an earlier one; `lost`: the
 * head does not answer. The others are the head's.
 * @typedef {{ event: "hello" | "run" | "gone" | "trail" | "metrics" | "reset" | "lost", data: string, missed?: boolean }} Message
 */

const RETRY_MS = 2_000;
const EVENTS = /** @type {const} */ (["run", "gone", "trail", "metrics", "reset"]);

/** @param {string | URL} url @param {(message: Message) => void} tell */
export function makeStream(url, tell) {
  /** @type {EventSource | null} */
  let source = null;
  let openedBefore = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };

  const open = () => {
    close();
    const mine = new EventSource(url);
    source = mine;
    // The browser resumes a broken connection by its last event id; a new EventSource has none.
    let missed = openedBefore;
    openedBefore = true;
    mine.addEventListener("hello", ({ data }) => {
      tell({ event: "hello", data, missed });
      missed = false;
    });
    for (const event of EVENTS) mine.addEventListener(event, ({ data }) => tell({ event, data }));
    mine.onerror = () => {
      if (source !== mine) return;
      tell({ event: "lost", data: "" });
      // After an answer that is not an event stream (a proxy's 502) the browser gives up; we do not.
      if (mine.readyState === EventSource.CLOSED) {
        clearTimeout(timer);
        timer = setTimeout(open, RETRY_MS);
      }
    };
  };

  return {
    open: () => {
      if (!source || source.readyState === EventSource.CLOSED) open();
    },
    close,
  };
}
