// Whether the end of a log is followed. Who follows the newest attempt goes on with the next one, and who reads
// in it stays: so the URL names the attempt then.
/** @import { RunView } from "../model/view.js" */

import { useEffect, useRef, useState } from "preact/hooks";
import { adjust } from "../state/route.js";

/** @param {boolean} first @param {{ view: RunView, attempt: number, growing: boolean }} now `growing`: lines may come */
export function usePin(first, { view, attempt, growing }) {
  const [pinned, setPinned] = useState(first);
  // What is done later is done to the view as it is then.
  const latest = useRef({ growing, pinned, view });
  latest.current = { growing, pinned, view };
  useEffect(() => {
    if (pinned && growing && view.attempt !== null) adjust({ ...view, attempt: null });
  }, []);
  /** @param {boolean} on @param {number | null} [at] the byte that is looked at: of this attempt's log and of no other's */
  const pin = (on, at = on ? null : latest.current.view.at) => {
    latest.current.pinned = on;
    setPinned(on);
    const was = latest.current.view;
    const isNamed = !on && (growing || at !== null);
    const named = isNamed ? attempt : growing ? null : was.attempt;
    if (named !== was.attempt || at !== was.at) adjust({ ...was, attempt: named, at });
  };
  return { pinned, pin, latest };
}
