// Sets the theme that was chosen, and asks at once for the modules of the page that the URL names, where otherwise each would be found
// only after the one that imports it. Runs before everything else and imports nothing. The Run page's
// are also asked for once the list is there, for most people then open a run. A test keeps the lists right.

const RUN = [
  "model/sgr",
  "model/terminal",
  "model/timeline",
  "model/tree",
  "state/checkpoints",
  "state/run",
  "state/trail",
  "ui/attempts",
  "ui/checkpoints_tab",
  "ui/events_tab",
  "ui/evidence",
  "ui/lines",
  "ui/overview",
  "ui/run_page",
  "ui/workers_tab",
];
const METRICS = ["model/color", "model/series", "state/metrics", "ui/chart", "ui/metrics_tab", "ui/plot"];
const LOGS = ["state/log", "ui/logs_tab"];

try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing shows what the system has.
}

/** @param {string} href */
function preload(href) {
  const link = document.createElement("link");
  link.rel = "modulepreload";
  link.href = href;
  document.head.append(link);
}

/** @param {string[]} names */
const ours = (names) => names.forEach((name) => preload(`static/js/${name}.js`));

const tab = new URLSearchParams(location.search).get("tab");
if (!location.pathname.startsWith("runs/", new URL(document.baseURI).pathname.length)) {
  addEventListener("load", () => setTimeout(() => document.hidden || ours(RUN), 1000));
} else {
  ours(RUN);
  if (tab === "metrics") {
    ours(METRICS);
    preload("static/vendor/uplot/dist/uPlot.esm.js");
  }
  if (tab === "logs") ours(LOGS);
}
