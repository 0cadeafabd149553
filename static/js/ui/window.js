// Which rows of a long list are in sight. All rows have one height, so that the place of each is known
// without measuring it, and only those in sight, and some around them, are in the page.
/** @import { RefObject } from "preact" */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows beyond the edges that are in the page. */
const SPARE = 12;
const SPARE_AFTER_MS = 300;

/**
 * @param {RefObject<HTMLElement | null>} frame what scrolls @param {number} count @param {number} rowPx
 * @returns {{ from: number, to: number, last: number, width: number, height: number }} rows to draw, without `to`, the last in sight, and how large the frame is, px
 */
export function useWindow(frame, count, rowPx) {
  const [top, setTop] = useState(0);
  // The first drawing has what is in sight, the others follow.
  const [spare, setSpare] = useState(0);
  const [size, setSize] = useState(() => ({ height: innerHeight, width: innerWidth }));
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (frame.current);
    let asked = false;
    const look = () => {
      asked = false;
      setTop(Math.floor(element.scrollTop / rowPx));
    };
    const onScroll = () => {
      setSpare(SPARE);
      if (!asked) requestAnimationFrame(look);
      asked = true;
    };
    element.addEventListener("scroll", onScroll, { passive: true });
    const observer = new ResizeObserver(() =>
      setSize({ height: element.clientHeight, width: element.clientWidth }),
    );
    observer.observe(element);
    look();
    const timer = setTimeout(() => setSpare(SPARE), SPARE_AFTER_MS);
    return () => {
      clearTimeout(timer);
      element.removeEventListener("scroll", onScroll);
      observer.disconnect();
    };
  }, [rowPx]);
  const last = top + Math.ceil(size.height / rowPx);
  const from = Math.max(0, Math.min(top - spare, count - 1));
  return { from, to: Math.min(count, last + spare), last, ...size };
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

/** What a rem is, px: the reader may have set the size of text. */
export function useRem() {
  const [px, setPx] = useState(remPx);
  useEffect(() => {
    const measure = () => setPx(remPx());
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
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
