// Sets the theme that was chosen, and asks at once for what the page that the URL names needs beyond the
// list of runs: its modules, which otherwise would each be found only after the one that imports it, and
// the style sheets. Runs before everything else and imports nothing. The Run page's are also asked for
// once the list is there, for most people then open a run. A test keeps the lists right.

const FIRST_PAGE = "api/train/runs?include=workers&include=evidence&page_size=50";
const STYLES = [
  "static/css/empty.css",
  "static/css/run.css",
  "static/css/tabs.css",
  "static/css/overview.css",
  "static/css/metrics.css",
  "static/css/chart.css",
  "static/css/logs.css",
  "static/css/terminal.css",
  "static/css/compare.css",
  "static/css/sweep.css",
  "static/css/places.css",
  "static/vendor/uplot/dist/uPlot.min.css",
];
const RUN = [
  "model/scores",
  "model/sgr",
  "model/straggle",
  "model/terminal",
  "model/timeline",
  "state/actions",
  "state/checkpoints",
  "state/drafts",
  "state/run",
  "state/trail",
  "state/workers",
  "ui/attempts",
  "ui/checkpoints_tab",
  "ui/choice",
  "ui/colors",
  "ui/copy",
  "ui/events_tab",
  "ui/evidence",
  "ui/heat_strip",
  "ui/lines",
  "ui/notes",
  "ui/on_sight",
  "ui/overview",
  "ui/run_name",
  "ui/run_page",
  "ui/score_plot",
  "ui/segmented",
  "ui/tags",
  "ui/worker_row",
  "ui/workers_tab",
];
const METRICS = [
  "model/axis",
  "model/branches",
  "model/chart_groups",
  "model/curve",
  "model/lines",
  "model/series",
  "model/zoom",
  "state/chart_details",
  "state/chart_fetch",
  "state/chart_keys",
  "state/chart_shelf",
  "state/metrics",
  "ui/chart",
  "ui/chart_controls",
  "ui/chart_full",
  "ui/chart_groups",
  "ui/chart_legend",
  "ui/chart_menu",
  "ui/chart_png",
  "ui/chart_reading",
  "ui/charts",
  "ui/metrics_tab",
  "ui/palette",
  "ui/plot",
  "ui/plot_draw",
];
const LOGS = [
  "model/find",
  "model/interleave",
  "model/log_time",
  "model/log_window",
  "model/rank_source",
  "server/logs",
  "state/in_turn",
  "state/log",
  "state/log_all",
  "state/log_search",
  "ui/all_logs",
  "ui/log_bar",
  "ui/log_find",
  "ui/log_pane",
  "ui/log_pin",
  "ui/logs_tab",
  "ui/rank_log",
];

try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing shows what the system has.
}

/** @param {string} href @param {Partial<HTMLLinkElement>} how */
function preload(href, how = { rel: "modulepreload" }) {
  document.head.append(Object.assign(document.createElement("link"), { href, ...how }));
}

/** @param {string[]} names */
const ours = (names) => names.forEach((name) => preload(`static/js/${name}.js`));

/** @type {Promise<unknown> | null} */
let styled = null;

/** Settles when the style sheets are there that the list of runs does without. */
export function styles() {
  styled ??= Promise.all(
    STYLES.map(
      (href) =>
        new Promise((done) => {
          // One that does not come leaves a page that is plain, not one that is not there.
          preload(href, { rel: "stylesheet", onload: done, onerror: done });
        }),
    ),
  );
  return styled;
}

const place = location.pathname.slice(new URL(document.baseURI).pathname.length);
// The first page of the list, while the modules that ask for it are still on their way.
if (place === "" && location.search === "")
  preload(FIRST_PAGE, { rel: "preload", as: "fetch", crossOrigin: "anonymous" });

const tab = new URLSearchParams(location.search).get("tab");
if (place === "") {
  addEventListener("load", () => setTimeout(() => document.hidden || (styles(), ours(RUN)), 1000));
} else {
  void styles();
}
if (place.startsWith("runs/")) {
  ours(RUN);
  if (tab === "metrics") {
    ours(METRICS);
    preload("static/vendor/uplot/dist/uPlot.esm.js");
  }
  if (tab === "logs") ours(LOGS);
}
