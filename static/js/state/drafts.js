// Notes that are being written and are not saved yet: they outlive the tab of the page that they are written
// on. The browser asks before they are lost with the page itself.

/** `from`: what the notes were when the writing began. @typedef {{ text: string, from: string }} Draft */

/** By run. @type {Map<string, Draft>} */
const drafts = new Map();

/** @param {string} run */
export const draftOf = (run) => drafts.get(run) ?? null;

/** @param {string} run @param {Draft | null} draft none: it is saved, or given up */
export function keepDraft(run, draft) {
  if (draft) drafts.set(run, draft);
  else drafts.delete(run);
}

addEventListener("beforeunload", (event) => {
  if ([...drafts.values()].some(({ text, from }) => text !== from)) event.preventDefault();
});
