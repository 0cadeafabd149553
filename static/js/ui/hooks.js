// Small hooks that several components share. Nothing here knows what it is used for.

import { useEffect, useMemo, useRef } from "preact/hooks";

/**
 * Something that is opened for a component and closed with it, or anew when `deps` change.
 * @template {{ close: () => void }} T @param {() => T} open @param {unknown[]} deps @returns {T}
 */
export function useOpened(open, deps) {
  const opened = useMemo(open, deps);
  useEffect(() => opened.close, [opened]);
  return opened;
}

/**
 * Calls `seen` when the element comes into view (with some margin) and when it leaves.
 * @param {(visible: boolean) => void} seen
 */
export function useSight(seen) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const latest = useRef(seen);
  latest.current = seen;
  useEffect(() => {
    if (!ref.current) return undefined;
    const observer = new IntersectionObserver(
      (entries) => latest.current(entries[entries.length - 1].isIntersecting),
      {
        rootMargin: "300px",
      },
    );
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return ref;
}

/** Lets an element fade from the accent when `value` changes: motion only to show change. @param {unknown} value */
export function useFlash(value) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const before = useRef(value);
  useEffect(() => {
    if (before.current === value) return;
    before.current = value;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const accent = getComputedStyle(document.documentElement).getPropertyValue("--accent-wash");
    ref.current?.animate([{ backgroundColor: accent }, { backgroundColor: "transparent" }], 600);
  }, [value]);
  return ref;
}
