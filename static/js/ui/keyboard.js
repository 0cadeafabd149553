// Keys that work without a modifier while nothing is being typed. Rows are walked by moving the
// focus between their links, so Enter, and a screen reader, need nothing from us.

/** @type {Map<string, () => void>} */
const bindings = new Map();

/** @param {string} key @param {() => void} action @returns {() => void} undoes it */
export function bind(key, action) {
  bindings.set(key, action);
  return () => bindings.get(key) === action && bindings.delete(key);
}

/** @param {EventTarget | null} target */
const isTyping = (target) =>
  target instanceof HTMLElement &&
  target.closest("input:not([type=range], [type=checkbox]), textarea, select") !== null;

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  // What lies over the page has the keys, and closes by itself.
  if (document.querySelector(":popover-open, dialog[open]")) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") /** @type {HTMLElement} */ (event.target).blur();
    return;
  }
  const action = bindings.get(event.key);
  if (!action) return;
  event.preventDefault();
  action();
}

/** @param {1 | -1} by */
function walk(by) {
  const links = [...document.querySelectorAll("[data-row-link]")];
  const row = document.activeElement?.closest("tr");
  const at = links.findIndex((l) => row?.contains(l));
  // Of a long list only a part is in the page, and it may begin above what is in sight, or below the head.
  const isBelowHead = (/** @type {Element} */ l) => {
    const head = l.closest("table")?.tHead?.getBoundingClientRect().bottom ?? 0;
    return l.getBoundingClientRect().top >= Math.max(0, head);
  };
  const isAboveFoot = (/** @type {Element} */ l) => l.getBoundingClientRect().bottom <= innerHeight;
  const next = at >= 0 ? at + by : by > 0 ? links.findIndex(isBelowHead) : links.findLastIndex(isAboveFoot);
  const link = /** @type {HTMLElement | undefined} */ (links[next]);
  link?.focus({ preventScroll: true });
  link?.closest("tr")?.scrollIntoView({ block: "nearest" });
}

function focusSearch() {
  const search = /** @type {HTMLInputElement | null} */ (document.querySelector("input[type=search]"));
  search?.focus();
  search?.select();
}

export function startKeyboard() {
  document.addEventListener("keydown", onKey);
  bind("j", () => walk(1));
  bind("k", () => walk(-1));
  bind("/", focusSearch);
}
