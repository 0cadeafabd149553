// The controls above charts: search, smoothing, x-axis and scale of all of them at once. What they say
// goes into the view, and so into the URL.
/** @import { ChartsView } from "../model/view.js" */

import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";
import { SearchBox } from "./search_box.js";
import { Segmented } from "./segmented.js";

const AXES = /** @type {const} */ ([
  ["step", "Step"],
  ["time", "Time"],
  ["wall", "Clock"],
]);
const SCALES = /** @type {const} */ ([
  ["linear", "Linear"],
  ["log", "Log"],
]);
/** Browsers take few changes of the URL a second. */
const SETTLED_MS = 200;

/**
 * @param {{ view: ChartsView, smooth: number, onSmooth: (smooth: number) => void, onChange: (change: Partial<ChartsView>) => void, children?: any }} props
 *   `smooth` is drawn at once; the view follows when it has settled
 */
export function ChartControls({ view, smooth, onSmooth, onChange, children }) {
  const change = useRef(onChange);
  change.current = onChange;
  useEffect(() => {
    if (smooth === view.smooth) return undefined;
    const timer = setTimeout(() => change.current({ smooth }), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [smooth]);
  return html`<div class="toolbar chart-controls">
    <${SearchBox} value=${view.q} label="Search metrics" onSearch=${(/** @type {string} */ q) => onChange({ q })} />
    <label class="smoothing">
      Smoothing
      <input type="range" min="0" max="0.99" step="0.01" value=${smooth} onInput=${(/** @type {any} */ e) => onSmooth(Number(e.target.value))} />
      <output class="num">${smooth.toFixed(2)}</output>
    </label>
    <${Segmented} label="X-axis" value=${view.x} options=${AXES} onChoose=${(/** @type {any} */ x) => x !== view.x && onChange({ x, zoom: null })} />
    <${Segmented} label="Scale" value=${view.scale} options=${SCALES} onChoose=${(/** @type {any} */ scale) => onChange({ scale })} />
    ${children}
    <button class="button chart-reset" disabled=${!view.zoom} onClick=${() => onChange({ zoom: null })}>Reset zoom</button>
  </div>`;
}
