// Which rows of a long list are in sight. All rows have one height, so that the place of each is known
// without measuring it, and only those in sight, and some around them, are in the page.
/** @import { RefObject } from "preact" */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows beyond the edges, and how far is scrolled before others are drawn. */
const SPARE = 20;
const STRIDE = 8;

/**
 * @param {RefObject<HTMLElement | null>} frame what scrolls @param {number} count @param {number} rowPx
 * @returns {{ from: number, to: number, last: number }} rows to draw, without `to`, and the last in sight
 */
export function useWindow(frame, count, rowPx) {
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(() => innerHeight);
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (frame.current);
    let asked = false;
    const look = () => {
      asked = false;
      const first = Math.floor(element.scrollTop / rowPx);
      setTop(first - (first % STRIDE));
    };
    const onScroll = () => {
      if (!asked) requestAnimationFrame(look);
      asked = true;
    };
    element.addEventListener("scroll", onScroll, { passive: true });
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    look();
    return () => {
      element.removeEventListener("scroll", onScroll);
      observer.disconnect();
    };
  }, [rowPx]);
  const last = top + STRIDE + Math.ceil(height / rowPx);
  return { from: Math.max(0, Math.min(top - SPARE, count - 1)), to: Math.min(count, last + SPARE), last };
}

/**
 * What is looked at stays where it is when rows come in above it. At the very top they are let in.
 * @param {RefObject<HTMLElement | null>} frame @param {string[]} ids of all rows @param {number} rowPx @param {unknown} list what the rows are of: another one is no change of this one
 */
export function useAnchor(frame, ids, rowPx, list) {
  const before = useRef({ ids, list });
  useLayoutEffect(() => {
    const old = before.current;
    before.current = { ids, list };
    const element = frame.current;
    if (!element || old.list !== list || old.ids === ids || element.scrollTop < rowPx) return;
    const was = Math.floor(element.scrollTop / rowPx);
    const is = ids.indexOf(old.ids[was]);
    if (is >= 0 && is !== was) element.scrollTop += (is - was) * rowPx;
  }, [ids, list]);
}

/** The height of a row whose height is set in rem, px. @param {number} rem */
export function useRem(rem) {
  const [px, setPx] = useState(() => rem * remPx());
  useEffect(() => {
    const measure = () => setPx(rem * remPx());
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, [rem]);
  return px;
}

const remPx = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

/** Whether a media query holds. @param {string} query */
export function useMedia(query) {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const change = () => setHolds(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, [query]);
  return holds;
}
