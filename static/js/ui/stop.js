// The stop button: asks once, in place, then asks the head. What happens next comes back as the
// run's own state; this shows only the question and an answer that was no.
/** @import { TrainRun } from "../types.js" */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { isLive } from "../model/status.js";
import { errorText, stopRun } from "../server/api.js";
import { announce } from "../server/events.js";
import { html } from "./html.js";

/** @param {{ run: TrainRun }} props */
export function StopButton({ run }) {
  const [asking, setAsking] = useState(false);
  const [sending, setSending] = useState(false);
  const [error, setError] = useState(/** @type {string | null} */ (null));
  const keep = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const ask = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const asked = useRef(false);
  // To the answer that changes nothing, and back to where the question came from; at once, before another key.
  useLayoutEffect(() => {
    if (asking) keep.current?.focus();
    else if (asked.current) ask.current?.focus();
    asked.current = asking;
  }, [asking]);

  if (!isLive(run) || run.stop_requested_at_ms !== null) return null;

  const stop = async () => {
    setSending(true);
    try {
      announce(await stopRun(run.id));
      setError(null);
    } catch (e) {
      setError(errorText(e));
    } finally {
      setSending(false);
      setAsking(false);
    }
  };
  const cancel = () => setAsking(false);
  /** @param {KeyboardEvent} e */
  const onKey = (e) => {
    if (e.key !== "Escape") return;
    // It is meant for this question alone.
    e.preventDefault();
    cancel();
  };

  if (!asking) {
    return html`<span class="stop">
      ${error && html`<span class="stop-error" role="alert" title=${error}>${error}</span>`}
      <button class="button" ref=${ask} aria-label=${`Stop ${run.name}`} onClick=${() => setAsking(true)}>Stop</button>
    </span>`;
  }
  return html`<span class="stop" role="group" aria-label=${`Stop ${run.name}?`} onKeyDown=${onKey}>
    <button class="button is-danger" disabled=${sending} onClick=${stop}>Stop run</button>
    <button class="button" ref=${keep} disabled=${sending} onClick=${cancel}>Keep</button>
  </span>`;
}
