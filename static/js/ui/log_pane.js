// The lines of a log, as a list of which only those in sight are in the page. It asks for earlier and
// later parts when their edge comes near, and keeps what is read where it is when lines come above it.
/** @import { LogRow } from "../model/log_window.js" */
/** @import { LogView } from "../state/log.js" */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { marked } from "../model/find.js";
import { bytes } from "../model/format.js";
import { html } from "./html.js";
import { useRem, useWindow } from "./window.js";

/** In css/logs.css too. */
const LINE_REM = 1.125;
/** So many lines before its edge the next part is asked for. */
const NEAR_LINES = 60;
/** What is followed has so many lines above the frame, so that one can scroll away from the end. */
const ABOVE_LINES = 10;

/** What a pane needs of a log, be it one rank's or several's. @typedef {Pick<LogView, "version" | "target" | "earlier" | "later" | "part" | "base" | "count" | "row" | "isAtStart" | "isAtEnd">} Shown */

/**
 * @param {object} props
 * @param {Shown} props.log
 * @param {string} props.find what is marked
 * @param {number} props.current the number of the line that is looked at; −1: none
 * @param {(row: LogRow) => { href: string, label: string, rank: number | null }} props.link the place of a line
 * @param {boolean} props.pinned the end is followed
 * @param {(pinned: boolean) => void} props.onPin
 * @param {(row: LogRow) => void} props.onTop the first line in sight
 */
export function LogPane({ log, find, current, link, pinned, onPin, onTop }) {
  const pane = useRef(/** @type {HTMLElement | null} */ (null));
  const linePx = LINE_REM * useRem();
  const version = log.version.value;
  const target = log.target.value;
  const count = log.count();
  const base = log.base();
  const { from, to, height } = useWindow(/** @type {any} */ (pane), count, linePx);
  const before = useRef({ part: log.part(), base });
  const seen = useRef(0);
  // Scrolling back to where it is is no wish to stay at the end.
  const moved = useRef(false);

  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (pane.current);
    const shift = before.current.base - base;
    if (before.current.part === log.part() && shift !== 0 && !pinned)
      scrollTo(element.scrollTop + shift * linePx);
    before.current = { part: log.part(), base };
    if (pinned) scrollTo(element.scrollHeight);
  }, [version, pinned, linePx, height]);

  useLayoutEffect(() => {
    if (!target || target.seq === seen.current) return;
    // Passed while the end was followed, it must not draw the reader back when they scroll away.
    seen.current = target.seq;
    if (pinned) return;
    const element = /** @type {HTMLElement} */ (pane.current);
    const top = (target.line - log.base()) * linePx;
    const inSight = top >= element.scrollTop && top + linePx <= element.scrollTop + element.clientHeight;
    if (!inSight) scrollTo(top - element.clientHeight / 3);
  }, [target, version, pinned]);

  /** @param {number} top */
  const scrollTo = (top) => {
    const element = /** @type {HTMLElement} */ (pane.current);
    const was = element.scrollTop;
    element.scrollTop = top;
    moved.current = element.scrollTop !== was;
  };

  const look = () => {
    const { scrollTop, scrollHeight, clientHeight } = /** @type {HTMLElement} */ (pane.current);
    const left = scrollHeight - scrollTop - clientHeight;
    // Of what is followed little more is wanted than fills the frame.
    const enough = pinned && (count - ABOVE_LINES) * linePx > clientHeight;
    if (scrollTop < NEAR_LINES * linePx && !enough && !log.isAtStart()) void log.earlier();
    else if (left < NEAR_LINES * linePx && !log.isAtEnd()) void log.later();
    const first = Math.min(count - 1, Math.floor(scrollTop / linePx));
    if (first >= 0) onTop(log.row(first));
    return left;
  };
  const onScroll = () => {
    const left = look();
    if (moved.current) moved.current = false;
    else onPin(left < linePx && log.isAtEnd());
  };
  useEffect(() => void look(), [version, pinned]);

  const shown = Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
  return html`<div class="log" ref=${pane} onScroll=${onScroll} tabindex="0" role="log" aria-live="off" aria-label="Log">
    <div class="log-space" style=${{ height: `${count * linePx}px` }}>
      <div class="log-lines" style=${{ transform: `translateY(${from * linePx}px)` }}>
        ${shown.map((i) => html`<${Row} key=${base + i} row=${log.row(i)} find=${find} current=${base + i === current} link=${link} />`)}
      </div>
    </div>
  </div>`;
}

/** @param {{ row: LogRow, find: string, current: boolean, link: (row: LogRow) => { href: string, label: string, rank: number | null } }} props */
function Row({ row, find, current, link }) {
  if (row.hole) {
    return html`<div class="log-line log-hole">${bytes(row.hole)} were left out here${row.rank === undefined ? "" : ` (rank ${row.rank})`}</div>`;
  }
  const { href, label, rank } = link(row);
  const kind = rank === null ? "log-at" : `log-at log-rank is-series-${rank % 8}`;
  return html`<div class=${current ? "log-line is-at" : "log-line"} aria-current=${current ? "true" : undefined}>
    <a class=${kind} href=${href} aria-label=${label} title=${label} tabindex="-1" data-rank=${rank ?? undefined}></a
    >${marked(row.spans, find).map(({ text, style, hit }, i) =>
      hit
        ? html`<mark key=${i} class=${style}>${text}</mark>`
        : style
          ? html`<span key=${i} class=${style}>${text}</span>`
          : text,
    )}
  </div>`;
}
