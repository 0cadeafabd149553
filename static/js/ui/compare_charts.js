// Charts of several runs over each other, in one colour and dash for each run, the same on every page.
//
//   <CompareCharts view=VIEW runs=RUNS />
//
// `view` is the Compare page's, `runs` at least { id, name, start_time_ms } of each; with `num_attempts`,
// live runs with restarts are extended at once from the right attempt, and with `attempts` the reasons of
// restarts are told. It loads what comes into sight.
/** @import { Lines } from "../model/lines.js" */
/** @import { CompareView } from "../model/view.js" */
/** @import { Attempt } from "../types.js" */

import { useMemo } from "preact/hooks";
import { seriesStyles } from "../model/color.js";
import { integer } from "../model/format.js";
import { plain } from "../model/text.js";
import { reason } from "../model/timeline.js";
import { formatView, runView } from "../model/view.js";
import { spanOf } from "../model/zoom.js";
import { csvUrl } from "../server/series.js";
import { openMetrics } from "../state/metrics.js";
import { fileName } from "./chart_menu.js";
import { Charts } from "./charts.js";
import { useOpened } from "./hooks.js";
import { html } from "./html.js";

/** @typedef {{ id: string, name: string, start_time_ms: number, num_attempts?: number, run_status?: string, attempts?: Attempt[] }} ComparedRun */

const MOST_ROWS = 1_000_000;
/** Links of one menu. */
const MOST_LINKS = 20;

/** @param {{ view: CompareView, runs: ComparedRun[] }} props */
export function CompareCharts({ view, runs }) {
  const ids = runs.map((run) => run.id).join(" ");
  const metrics = useOpened(() => openMetrics(runs), [ids]);
  const names = runs.map((run) => run.name).join("\n");
  const legend = useMemo(() => {
    const styles = seriesStyles(runs.map((run) => run.id));
    return runs.map((run) => {
      const href = formatView({ ...runView(run.id), tab: "metrics" });
      const { color, dash } = styles.get(run.id) ?? { color: 0, dash: 0 };
      return { id: run.id, label: plain(run.name), title: run.id, href, color, dash };
    });
  }, [ids, names]);
  const curvesOf = (
    /** @type {Lines} */ lines,
    /** @type {string | null} */ picked,
    /** @type {string} */ key,
  ) =>
    runs.flatMap((run, i) =>
      (lines.get(run.id) ?? []).map(({ series }) => {
        const isFaint = picked !== null && picked !== run.id;
        return {
          ...legend[i],
          isFaint,
          nans: metrics.nansOf(run.id, key),
          series,
          start_ms: run.start_time_ms,
          why: (/** @type {number} */ attempt) => {
            const before = run.attempts?.[attempt - 1];
            return before ? reason(before) : "";
          },
        };
      }),
    );
  const downloads = (/** @type {string[]} */ keys) => [
    ...runs.slice(0, MOST_LINKS).map((run) => ({
      label: `CSV of ${run.name}`,
      href: csvUrl(run.id, keys, {
        ...spanOf(view.zoom, view.x, run.start_time_ms),
        mode: "raw",
        rank: metrics.rankOf(run.id, keys[0]),
        max_points: MOST_ROWS,
      }),
      file: `${fileName(`${run.name}-${keys[0]}`)}.csv`,
    })),
    ...(runs.length > MOST_LINKS
      ? [{ label: `${integer(runs.length - MOST_LINKS)} more: on the runs' own pages`, href: "", file: "" }]
      : []),
  ];
  return html`<${Charts}
    view=${view}
    metrics=${metrics}
    title=${`${runs.length} runs`}
    attempts="merged"
    curvesOf=${curvesOf}
    downloads=${downloads}
    mostKeys=${0}
    legend=${legend}
    empty="None of these runs has reported a metric yet."
  />`;
}
