// A sweep: which settings differ between runs, and what each run has of a setting or a metric. Pure; the
// geometry of its charts is in sweep_axis.js and parallel.js.
/** @import { FullRun, MetricSummary, WireNumber } from "../types.js" */
/** @import { Value } from "./sweep_axis.js" */

import { toNumber } from "./format.js";
import { choose } from "./metric_keys.js";
import { asNumber, rowsOf } from "./settings_diff.js";
import { flatten } from "./tree.js";

/** `values`: one a run. @typedef {{ key: string, values: Value[], numeric: boolean, distinct: number }} Dimension */
/** Which of a run's values of a metric. @typedef {"last" | "min" | "max"} Taken */
/** @typedef {Map<string, Map<string, MetricSummary>>} Summaries by run and key */

/** In the view a setting is named by its key, a metric by this and its key. */
export const METRIC = "metric:";

/** The settings that are not the same in all runs, those first that vary most. @param {FullRun[]} runs @returns {Dimension[]} */
export function differingSettings(runs) {
  return rowsOf(runs.map((run) => new Map(flatten(run.settings))))
    .filter((row) => row.differs)
    .map(({ key, values, numeric }) => ({
      key,
      values: numeric ? values.map(asNumber) : values,
      numeric,
      distinct: new Set(values.filter((v) => v !== null)).size,
    }))
    .sort((a, b) => rank(b) - rank(a) || (a.key < b.key ? -1 : 1));
}

// A seed is different in each run and is what a sweep averages over, not what it looks for; a command says
// again what other settings say.
const INCIDENTAL = /(^|[/_.-])(seed|port|pid|dir|path|time|timestamp|command|entrypoint|args|argv)$/i;
/** Words that are longer than this are no choice among a few. */
const LONG = 40;

/** Numbers before words, more values before fewer, of as many those that are spread wider. @param {Dimension} d */
function rank({ key, values, numeric, distinct }) {
  const incidental = INCIDENTAL.test(key) || values.some((v) => String(v).length > LONG);
  const sizes = numeric ? values.map((v) => Math.abs(Number(v))).filter((v) => v > 0) : [];
  const decades = sizes.length > 0 ? Math.log10(Math.max(...sizes) / Math.min(...sizes)) : 0;
  return (incidental ? -2000 : 0) + (numeric ? 1000 : 0) + distinct + Math.min(0.99, decades / 20);
}

/** @param {FullRun[]} runs @param {Summaries} summaries */
export function metricKeys(runs, summaries) {
  const known = runs.flatMap((run) => [
    ...Object.keys(run.last_metrics),
    ...(summaries.get(run.id)?.keys() ?? []),
  ]);
  return [...new Set(known)].sort();
}

const HELD_OUT = /^(val|valid|validation|eval|test)\b|[/_](val|valid|eval|test)\b/i;

/** What a sweep is judged by: what was held out, where there is that. @param {string[]} keys */
export function defaultScore(keys) {
  const judged = choose(
    keys.filter((k) => HELD_OUT.test(k)),
    1,
  );
  return judged[0] ?? choose(keys, 1)[0] ?? "";
}

/** The setting that varies most; where none does, another metric. @param {Dimension[]} settings @param {string[]} keys @param {string} score */
export function defaultAcross(settings, keys, score) {
  const other = choose(
    keys.filter((k) => k !== score),
    1,
  )[0];
  return settings[0]?.key ?? (other ? METRIC + other : "");
}

/**
 * What a run has of a metric; undefined: not known before its summaries are there. NaN and the infinities
 * have no place on an axis.
 * @param {FullRun} run @param {string} key @param {Taken} taken @param {Summaries} summaries @returns {number | null | undefined}
 */
export function metricOf(run, key, taken, summaries) {
  if (taken === "last" && key in run.last_metrics) return finite(run.last_metrics[key]);
  const all = summaries.get(run.id);
  return all && finite(all.get(key)?.[taken]);
}

/** @param {WireNumber | null | undefined} value */
function finite(value) {
  const v = toNumber(value);
  return Number.isFinite(v) ? v : null;
}

/** A setting of all runs, whether it differs or not. @param {FullRun[]} runs @param {string} key @returns {Value[]} */
export function settingOf(runs, key) {
  const texts = runs.map((run) => flatten(run.settings).find(([k]) => k === key)?.[1] ?? null);
  return texts.every((t) => t === null || asNumber(t) !== null) ? texts.map(asNumber) : texts;
}
