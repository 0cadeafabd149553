// What runs were started with, side by side: a row a setting, and which rows differ. Pure; values are
// compared and shown as they are written.
/** @import { FullRun } from "../types.js" */

import { duration } from "./format.js";
import { failures, isLive, word } from "./status.js";
import { flatten } from "./tree.js";

/** `values`: one a run, null where the run has none. @typedef {{ key: string, values: (string | null)[], differs: boolean, numeric: boolean }} DiffRow */
/** `one`: what a row of it is called. @typedef {{ name: string, one: string, rows: DiffRow[], equal: number }} DiffGroup */

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** The number that a setting is written as; a word, a list, nothing, or what no number can be is none. @param {string | null} text */
export function asNumber(text) {
  const value = text !== null && NUMBER.test(text) ? Number(text) : null;
  return Number.isFinite(value) ? value : null;
}

/** Groups without any row are left out. @param {FullRun[]} runs @returns {DiffGroup[]} */
export function compareSettings(runs) {
  return [
    group("Settings", "setting", runs, (run) => flatten(run.settings)),
    group("Run", "row", runs, factsOf),
    group("Tags", "tag", runs, (run) => Object.entries(run.tags)),
    group("Datasets", "dataset", runs, (run) =>
      run.datasets.map((d) => [d.name, [d.dataset_name, d.dataset_uuid].filter(Boolean).join(" ")]),
    ),
    group("Versions", "version", runs, (run) => flatten(run.framework_versions)),
  ].filter((g) => g.rows.length > 0);
}

/** What became of a run. @param {FullRun} run @returns {[string, string | null][]} */
function factsOf(run) {
  return [
    ["experiment", run.experiment],
    ["job", run.job_id],
    ["status", word(run.run_status)],
    ["duration", isLive(run) ? "not ended yet" : duration(run.duration_ms)],
    ["attempts", String(run.num_attempts)],
    ["failures", String(failures(run))],
    ["preemptions", String(run.num_failures.preemption)],
    ["workers", run.workers ? String(run.workers.length) : null],
  ];
}

/** @param {string} name @param {string} one @param {FullRun[]} runs @param {(run: FullRun) => [string, string | null][]} read @returns {DiffGroup} */
function group(name, one, runs, read) {
  const rows = rowsOf(runs.map((run) => new Map(read(run))));
  return { name, one, rows, equal: rows.filter((r) => !r.differs).length };
}

/** By key; keys that no run has a value for are left out. @param {Map<string, string | null>[]} columns @returns {DiffRow[]} */
export function rowsOf(columns) {
  const keys = [...new Set(columns.flatMap((c) => [...c.keys()]))].sort();
  return keys
    .map((key) => {
      const values = columns.map((c) => c.get(key) ?? null);
      const known = values.filter((v) => v !== null);
      const differs = values.some((v) => v !== values[0]);
      return { key, values, differs, numeric: known.length > 0 && known.every((v) => asNumber(v) !== null) };
    })
    .filter((row) => row.values.some((v) => v !== null));
}
