// The view that the URL names, as a signal, and the only code that changes the URL. Links are
// ordinary links: a click on one of ours is turned into a change of view, all others are left alone.
/** @import { View } from "../model/view.js" */

import { signal } from "@preact/signals";
import { formatView, parseView } from "../model/view.js";

const base = () => new URL(document.baseURI).pathname;

/** @param {URL} url @returns {View} */
function viewOf(url) {
  return parseView(url.pathname.slice(base().length), url.searchParams);
}

export const view = signal(viewOf(new URL(location.href)));

/** A new place, with a step back to the old one. @param {View} next */
export const go = (next) => show(next, "pushState");

/** The same place, looked at differently: typing in a search must not fill the history. @param {View} next */
export const adjust = (next) => show(next, "replaceState");

const AGAIN_MS = 1000;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let again;

/** @param {View} next @param {"pushState" | "replaceState"} how */
function show(next, how) {
  clearTimeout(again);
  view.value = next;
  const url = new URL(formatView(next), document.baseURI);
  if (how === "replaceState" && url.href === location.href) return;
  try {
    history[how](null, "", url);
  } catch {
    // Browsers take only so many changes in a while, and a key that is held down makes more.
    again = setTimeout(() => show(view.peek(), "replaceState"), AGAIN_MS);
  }
}

/** @param {MouseEvent} event */
function followLink(event) {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(base())) return;
  const next = viewOf(url);
  if (next.page === "missing") return;
  event.preventDefault();
  const samePage = url.pathname === location.pathname;
  go(next);
  if (!samePage) scrollTo(0, 0);
}

export function startRouting() {
  addEventListener("popstate", () => (view.value = viewOf(new URL(location.href))));
  document.addEventListener("click", followLink);
}
