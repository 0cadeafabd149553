// What can be done with the runs that are selected. Lies over the foot of the page, so that selecting
// moves nothing. Stopping is asked about once; deleting is not, for it can be undone.
/** @import { RunsView } from "../model/view.js" */

import { useEffect, useState } from "preact/hooks";
import { count, integer } from "../model/format.js";
import { isLive } from "../model/status.js";
import { compareView, formatView, MOST_SELECTED } from "../model/view.js";
import { getRun } from "../server/api.js";
import { deleteRuns, doing, restoreRuns, stopRuns } from "../state/actions.js";
import { adjust, go, view as shownView } from "../state/route.js";
import { list } from "../state/runs.js";
import { html } from "./html.js";
import { bind } from "./keyboard.js";

/** @param {{ view: RunsView }} props */
export function SelectionBar({ view }) {
  const { selected } = view;
  const [asking, setAsking] = useState(false);
  useEffect(() => setAsking(false), [selected.join()]);
  useEffect(() => {
    const undo = [
      bind("Escape", () => adjust({ ...view, selected: [] })),
      bind("c", () => go(compareView(selected))),
    ];
    return () => undo.forEach((u) => u());
  }, [view]);
  const isRunning = useStanding(selected);
  const live = selected.filter((id) => isRunning(id));
  const ended = selected.filter((id) => !live.includes(id));
  // As the page is then: much may have happened while the head was asked.
  const keep = (/** @type {string[]} */ done) => {
    const now = shownView.peek();
    if (now.page === "runs") adjust({ ...now, selected: now.selected.filter((id) => !done.includes(id)) });
  };
  const stop = () => {
    setAsking(false);
    void stopRuns(live);
  };
  const title =
    selected.length === MOST_SELECTED ? `No more than ${MOST_SELECTED} can be selected` : undefined;
  const busy = doing.value;
  if (busy) {
    return html`<div class="selection" role="region" aria-label="Selected runs">
      <span role="status">${integer(busy.done)} of ${count(busy.of, "run")}</span>
      <progress max=${busy.of} value=${busy.done} aria-label="How far it has come"></progress>
    </div>`;
  }
  return html`<div class="selection" role="region" aria-label="Selected runs">
    <span title=${title}>${count(selected.length, "run")} selected${title ? ", the most there can be" : ""}</span>
    <a class="button is-primary" href=${formatView(compareView(selected))} aria-keyshortcuts="c">Compare</a>
    ${
      asking
        ? html`<button class="button is-danger" onClick=${stop}>Stop ${count(live.length, "run")}</button>
            <button class="button" onClick=${() => setAsking(false)}>Keep ${live.length > 1 ? "them" : "it"}</button>`
        : live.length > 0 &&
          html`<button class="button" onClick=${() => setAsking(true)}>Stop ${live.length}…</button>`
    }
    ${
      view.trashed
        ? html`<button class="button" onClick=${async () => keep(await restoreRuns(selected))}>Restore</button>`
        : ended.length > 0 &&
          html`<button class="button" title=${live.length > 0 ? "Those that still run are left" : undefined} onClick=${async () => keep(await deleteRuns(ended))}>
            Delete ${live.length > 0 ? ended.length : ""}
          </button>`
    }
    <button class="button is-quiet" aria-label="Clear the selection" aria-keyshortcuts="Escape" title="Clear (Esc)" onClick=${() => keep(selected)}>✕</button>
  </div>`;
}

/**
 * Whether a run that is selected still runs. Of those that are not in the list (it may be filtered since)
 * the head is asked once.
 * @param {string[]} selected
 */
function useStanding(selected) {
  const [asked, setAsked] = useState(/** @type {Map<string, boolean>} */ (new Map()));
  const rows = new Map(list.value.rows.map((r) => [r.id, r]));
  const unknown = selected.filter((id) => !rows.has(id) && !asked.has(id));
  useEffect(() => {
    for (const id of unknown) {
      getRun(id).then(
        (run) => setAsked((all) => new Map(all).set(id, isLive(run))),
        // A run that cannot be had is left to what is then asked for it.
        () => setAsked((all) => new Map(all).set(id, false)),
      );
    }
  }, [unknown.join()]);
  return (/** @type {string} */ id) => {
    const row = rows.get(id);
    return row ? isLive(row) : asked.get(id) === true;
  };
}
