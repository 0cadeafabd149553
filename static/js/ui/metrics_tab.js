// The Metrics tab: the charts of one run, its attempts as one curve or each as a branch of its own.
/** @import { Lines } from "../model/lines.js" */
/** @import { RunView } from "../model/view.js" */
/** @import { RunState } from "../state/run.js" */
/** @import { Lost } from "../types.js" */

import { useMemo } from "preact/hooks";
import { branches } from "../model/branches.js";
import { count, length } from "../model/format.js";
import { reason } from "../model/timeline.js";
import { spanOf } from "../model/zoom.js";
import { csvUrl } from "../server/series.js";
import { openMetrics } from "../state/metrics.js";
import { adjust } from "../state/route.js";
import { fileName } from "./chart_menu.js";
import { Charts } from "./charts.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";
import { Segmented } from "./segmented.js";

const ATTEMPTS = /** @type {const} */ ([
  ["merged", "Merged"],
  ["all", "Each attempt"],
]);
/** Rows of one CSV that the head gives, in all and of a key. */
const MOST_ROWS = 4_000_000;
const MOST_ROWS_A_KEY = 1_000_000;
/** So many keys make a URL that proxies let pass. */
const MOST_KEYS = 50;

/** @param {{ view: RunView, run: RunState }} props */
export function MetricsTab({ view, run }) {
  const metrics = useOpened(() => openMetrics([run]), [run.id]);
  const lost = metrics.lost.value;
  const many = run.num_attempts > 1;
  const attempts = many ? view.attempts : "merged";
  const why = (/** @type {number} */ attempt) => {
    const before = run.attempts[attempt - 1];
    return before ? reason(before) : "";
  };
  const styles = useMemo(() => branches(run.id, run.num_attempts), [run.id, run.num_attempts]);
  const legend = useMemo(() => (attempts === "all" ? styles : styles.slice(-1)), [attempts, styles]);
  const curvesOf = (
    /** @type {Lines} */ lines,
    /** @type {string | null} */ picked,
    /** @type {string} */ key,
  ) =>
    (lines.get(run.id) ?? []).map(({ attempt, series }) => {
      const style = styles.find((s) => s.attempt === attempt) ?? {
        ...styles[styles.length - 1],
        id: run.id,
        label: run.name,
      };
      const isFaint = picked === null ? style.isFaint : style.id !== picked;
      return {
        ...style,
        isFaint,
        nans: attempts === "merged" ? metrics.nansOf(run.id, key) : 0,
        series,
        start_ms: run.start_time_ms,
        why,
      };
    });
  const downloads = (/** @type {string[]} */ keys) => {
    const rows = Math.min(MOST_ROWS_A_KEY, Math.floor(MOST_ROWS / keys.length));
    const span = spanOf(view.zoom, view.x, run.start_time_ms);
    const ranks = new Set(keys.map((key) => metrics.rankOf(run.id, key)));
    const rank = ranks.size === 1 ? [...ranks][0] : "all";
    const href = csvUrl(run.id, keys, { ...span, mode: "raw", attempt: attempts, rank, max_points: rows });
    const label =
      keys.length > 1
        ? `CSV of ${count(keys.length, "chart")}`
        : view.zoom
          ? "CSV of this part"
          : "CSV, all points";
    return [{ label, href, file: `${fileName(`${run.name}-${keys.length > 1 ? "metrics" : keys[0]}`)}.csv` }];
  };
  const tools =
    many &&
    html`<${Segmented} label="Attempts" value=${view.attempts} options=${ATTEMPTS} onChoose=${(/** @type {any} */ next) => adjust({ ...view, attempts: next })} />`;
  const facts =
    lost &&
    lost.steps > 0 &&
    html`<span data-lost title="Attempts began again at an earlier step; merged, the curves show the newest attempt that reached each step.">${lostText(lost)}</span>`;
  return html`<${Charts}
    view=${view}
    metrics=${metrics}
    title=${run.name}
    attempts=${attempts}
    curvesOf=${curvesOf}
    downloads=${downloads}
    mostKeys=${MOST_KEYS}
    legend=${legend}
    tools=${tools}
    facts=${facts}
    empty="No metric has been reported yet. Charts appear here with the first report."
  />`;
}

/** @param {Lost} lost */
const lostText = ({ steps, ms }) => `${count(steps, "step")}, ${length(ms)} lost to restarts`;
