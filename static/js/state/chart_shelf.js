// What is held of the series of all charts, and the signals that charts draw. It asks for nothing.
/** @import { Signal } from "@preact/signals" */
/** @import { Extents, Line, Lines } from "../model/lines.js" */
/** @import { Found } from "./chart_fetch.js" */

import { signal } from "@preact/signals";
import { extentsOf, fine } from "../model/lines.js";

/** `seen`: how many ticks of the run had come when it was asked for. @typedef {{ lines: Line[], seen: number, stale: boolean }} Held */

/** Keys that are kept when they are out of sight. */
const MOST_KEYS = 400;
/** Points of all of them together: of a hundred runs few keys fit. */
const MOST_POINTS = 2_000_000;

/** @param {(run: string) => number} startOf @param {(key: string) => Lines | undefined} finer parts of what is looked at */
export function openShelf(startOf, finer) {
  const extents = signal(/** @type {Extents | null} */ (null));
  /** By kind of attempts and key, then by run. @type {Map<string, Map<string, Held>>} */
  const held = new Map();
  /** @type {Map<string, Signal<Lines | null>>} */
  const shown = new Map();
  let kind = "merged";

  /** @param {string} key */
  const linesOf = (key) => {
    const old = shown.get(key);
    if (old) return old;
    const fresh = signal(/** @type {Lines | null} */ (null));
    shown.set(key, fresh);
    return fresh;
  };

  function* allLines() {
    for (const of of held.values())
      for (const [run, { lines }] of of) for (const line of lines) yield { line, start_ms: startOf(run) };
  }

  return {
    extents,
    linesOf,
    /** @param {string} run @param {string} key */
    get: (run, key) => held.get(`${kind} ${key}`)?.get(run),
    /** Series that were asked for, also where there are none. @param {string[]} runs @param {string[]} keys @param {Found[]} found @param {number[]} seen of each run */
    put: (runs, keys, found, seen) => {
      for (const key of keys) {
        const of = held.get(`${kind} ${key}`) ?? new Map();
        held.set(`${kind} ${key}`, of);
        runs.forEach((run, i) => {
          const lines = found.filter((f) => f.run === run && f.key === key).map((f) => f.line);
          of.set(run, { lines, seen: seen[i], stale: false });
        });
      }
    },
    /** Shows what is held of these keys now; without any, of all. @param {string[]} [keys] */
    publish: (keys = [...shown.keys()]) => {
      extents.value = extentsOf(allLines()) ?? extents.peek();
      for (const key of keys) {
        const of = held.get(`${kind} ${key}`);
        const lines = [...(of ?? [])].map(
          ([run, one]) => /** @type {[string, Line[]]} */ ([run, fine(one.lines, finer(key)?.get(run))]),
        );
        linesOf(key).value = of ? new Map(lines) : null;
      }
    },
    /** Which curves are shown. @param {"merged" | "all"} next */
    choose: (next) => void (kind = next),
    /** @param {string[]} runs */
    outdate: (runs) => {
      for (const of of held.values())
        for (const [run, one] of of) one.stale = one.stale || runs.includes(run);
    },
    /** Room for others. @param {{ has: (key: string) => boolean }} inSight */
    tidy: (inSight) => {
      let points = 0;
      for (const of of held.values()) points += sizeOf(of);
      for (const [name, of] of held) {
        if (held.size <= MOST_KEYS && points <= MOST_POINTS) return;
        const key = name.slice(name.indexOf(" ") + 1);
        if (inSight.has(key)) continue;
        held.delete(name);
        points -= sizeOf(of);
        if (name.startsWith(`${kind} `)) linesOf(key).value = null;
      }
    },
  };
}

/** How many points. @param {Map<string, Held>} of */
function sizeOf(of) {
  let size = 0;
  for (const { lines } of of.values()) for (const { series } of lines) size += series.step.length;
  return size;
}
