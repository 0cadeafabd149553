// Who uses what of a node: its resources, its GPUs one by one, its runs. Pure; what nobody said or measured
// stays null, so that it is not shown as zero.
/** @import { Gpu, Node } from "../types.js" */

import { count, tick } from "./format.js";
import { ranges } from "./status.js";

/** @typedef {{ name: string, capacity: number | null, reserved: number, free: number | null }} Resource */
/** @typedef {{ run_id: string, ranks: string }} GpuUser */
/** `measured`: null where the head cannot look. @typedef {{ id: string, users: GpuUser[], measured: Gpu | null }} GpuCell */
/** @typedef {{ run_id: string, attempt: number | null, workers: number, ranks: string, pids: string, reserved: string, gpus: string }} RunOnNode */

/** Those that everybody looks for first. */
const FIRST = ["CPU", "GPU"];

/** @param {Pick<Node, "capacity" | "reserved" | "free">} node @returns {Resource[]} */
export function resourcesOf({ capacity, reserved, free }) {
  const names = [...new Set([...Object.keys(capacity), ...Object.keys(reserved)])];
  const order = (/** @type {string} */ name) => (FIRST.indexOf(name) + FIRST.length + 1) % (FIRST.length + 1);
  return names
    .sort((a, b) => order(a) - order(b) || (a < b ? -1 : 1))
    .map((name) => ({
      name,
      capacity: capacity[name] ?? null,
      reserved: reserved[name] ?? 0,
      free: free[name] ?? null,
    }));
}

/** By id; ids that are numbers in their order. @param {Node} node @returns {GpuCell[]} */
export function gpusOf({ gpu_ids, reservations, workers, devices }) {
  const measured = new Map((devices?.gpus ?? []).map((g) => [String(g.index), g]));
  const placed = [...reservations, ...workers];
  const ids = new Set([...gpu_ids, ...measured.keys(), ...placed.flatMap((p) => p.gpu_ids)]);
  return [...ids].sort(byNumber).map((id) => {
    const runs = [...new Set(placed.filter((p) => p.gpu_ids.includes(id)).map((p) => p.run_id))];
    const users = runs.map((run_id) => {
      const ranks = workers.filter((w) => w.run_id === run_id && w.gpu_ids.includes(id));
      return { run_id, ranks: ranksOf(ranks.map((w) => w.world_rank)) };
    });
    return { id, users, measured: measured.get(id) ?? null };
  });
}

/** Workers by run, and reservations whose workers do not run yet. @param {Node} node @returns {RunOnNode[]} */
export function runsOn({ reservations, workers }) {
  const ids = [...new Set([...workers, ...reservations].map((p) => p.run_id))];
  return ids.map((run_id) => {
    const mine = workers.filter((w) => w.run_id === run_id);
    const kept = reservations.find((r) => r.run_id === run_id);
    const gpus = [...new Set([...(kept?.gpu_ids ?? []), ...mine.flatMap((w) => w.gpu_ids)])].sort(byNumber);
    return {
      run_id,
      attempt: mine.length > 0 ? Math.max(...mine.map((w) => w.attempt)) : null,
      workers: mine.length,
      ranks: mine.length > 0 ? ranksOf(mine.map((w) => w.world_rank)) : waiting(kept?.num_workers ?? 0),
      pids: mine
        .toSorted((a, b) => a.world_rank - b.world_rank)
        .map((w) => `rank ${w.world_rank}: ${w.pid === null ? "pid unknown" : `pid ${w.pid}`}`)
        .join("\n"),
      reserved: kept ? amounts(kept.resources) : "",
      gpus: idsOf(gpus),
    };
  });
}

/** @param {number} n */
const waiting = (n) => `room for ${count(n, "worker")}, none started`;

/** `rank 3`, `ranks 0–2, 5`, nothing for nobody. @param {number[]} ranks */
export function ranksOf(ranks) {
  const sorted = [...new Set(ranks)].sort((a, b) => a - b);
  return sorted.length === 0 ? "" : `${sorted.length > 1 ? "ranks" : "rank"} ${ranges(sorted)}`;
}

/** `4 CPU, 1 GPU`. @param {Record<string, number>} resources */
export const amounts = (resources) =>
  resourcesOf({ capacity: {}, reserved: resources, free: {} })
    .filter((r) => r.reserved > 0)
    .map((r) => `${tick(r.reserved)} ${r.name}`)
    .join(", ");

/** Ids that are numbers as ranges, others one by one. @param {string[]} ids sorted */
const idsOf = (ids) => (ids.every((id) => /^\d{1,6}$/.test(id)) ? ranges(ids.map(Number)) : ids.join(", "));

/** @param {string} a @param {string} b */
const byNumber = (a, b) => a.localeCompare(b, "en", { numeric: true });
