// The one module that talks to the head: for runs here, for metrics in series.js and for logs in
// logs.js. Every URL is relative, so that the dashboard works below any prefix. It keeps no state
// and retries nothing: whoever asks decides that.
/** @import { CheckpointPage } from "../file_types.js" */
/** @import { Experiment, FullRun, NodeList, RunEvidence, RunPage, TrailPage, TrainRun } from "../types.js" */
/** @import { RunsView } from "../model/view.js" */

import { NEWEST_FIRST } from "../model/view.js";

/** What went wrong, in the head's own words where it answered. */
export class ApiError extends Error {
  /** @param {string} message @param {number} status 0: no answer at all */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** @param {unknown} error */
export function errorText(error) {
  return error instanceof Error ? error.message : String(error);
}

/** @param {string} url @param {RequestInit} [init] */
export async function ask(url, init) {
  let response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (init?.signal?.aborted) throw error;
    throw new ApiError("The head cannot be reached. Is `trainhead serve` running?", 0);
  }
  if (response.ok) return response;
  throw new ApiError(await problemText(response), response.status);
}

/** @param {Response} response */
async function problemText(response) {
  try {
    const problem = await response.json();
    return String(problem.detail || problem.title);
  } catch {
    return `The head answered ${response.status} ${response.statusText}`.trim() + ".";
  }
}

/** @param {string} id */
export const runUrl = (id) => `api/train/runs/${encodeURIComponent(id)}`;

/** Runs of a first page: more than a window shows, and few enough to be there at once. */
export const FIRST_PAGE = 50;

/**
 * @param {RunsView} view
 * @param {{ page_token?: string | null, page_size?: number, signal?: AbortSignal }} [options]
 * @returns {Promise<RunPage>}
 */
export async function listRuns(view, { page_token = null, page_size = 100, signal } = {}) {
  const query = new URLSearchParams();
  for (const s of view.status) query.append("status", s);
  if (view.q.trim()) query.set("q", view.q.trim());
  if (view.experiment) query.set("experiment", view.experiment);
  for (const tag of view.tag) query.append("tag", tag);
  if (view.sort !== NEWEST_FIRST) query.set("sort", view.sort);
  if (view.trashed) query.set("trashed", "true");
  query.append("include", "workers");
  query.append("include", "evidence");
  query.set("page_size", String(page_size));
  if (page_token) query.set("page_token", page_token);
  return (await ask(`api/train/runs?${query}`, { signal })).json();
}

/** @param {string} id @param {AbortSignal} [signal] @returns {Promise<FullRun>} */
export async function getRun(id, signal) {
  return (await ask(runUrl(id), { signal })).json();
}

/** What changes of a run by the clock alone; with `stats`, also what its newest workers use right now. @param {string} id @param {AbortSignal} signal @param {boolean} [stats] @returns {Promise<RunEvidence>} */
export async function getEvidence(id, signal, stats = false) {
  return (await ask(`${runUrl(id)}/evidence${stats ? "?include=stats" : ""}`, { signal })).json();
}

/** @param {string} id @param {string | null} page_token @param {AbortSignal} [signal] @returns {Promise<TrailPage>} */
export async function listEvents(id, page_token, signal) {
  const query = new URLSearchParams({ page_size: "200" });
  if (page_token) query.set("page_token", page_token);
  return (await ask(`${runUrl(id)}/events?${query}`, { signal })).json();
}

/** Newest first. @param {string} id @param {string | null} page_token @param {AbortSignal} [signal] @param {number} [page_size] @returns {Promise<CheckpointPage>} */
export async function listCheckpoints(id, page_token, signal, page_size = 200) {
  const query = new URLSearchParams({ page_size: String(page_size) });
  if (page_token) query.set("page_token", page_token);
  return (await ask(`${runUrl(id)}/checkpoints?${query}`, { signal })).json();
}

/** @param {string} id @param {number} number @param {"PUT" | "DELETE"} method */
export async function pinCheckpoint(id, number, method) {
  await ask(`${runUrl(id)}/checkpoints/${number}/pin`, { method });
}

/** @param {string} method @param {string} url @param {unknown} [body] @returns {Promise<TrainRun>} */
async function change(method, url, body) {
  const sent = body === undefined ? {} : { headers: JSON_BODY, body: JSON.stringify(body) };
  return (await ask(url, { method, ...sent })).json();
}

const JSON_BODY = { "content-type": "application/json" };

/** @param {string} id */
export const stopRun = (id) =>
  change("POST", `${runUrl(id)}/stop`, { reason: "asked on the dashboard", grace_period_ms: null });

/** To the trash. @param {string} id */
export const trashRun = (id) => change("DELETE", runUrl(id));

/** Out of the trash. @param {string} id */
export const restoreRun = (id) => change("POST", `${runUrl(id)}/restore`);

/** What is not named stays. @param {string} id @param {{ name?: string, notes?: string | null, tags?: Record<string, string | null> }} said */
export const annotateRun = (id, said) => change("PATCH", runUrl(id), said);

/** @param {string | null} page_token @param {AbortSignal} [signal] @returns {Promise<{ experiments: Experiment[], next_page_token: string | null }>} */
export async function listExperiments(page_token, signal) {
  const query = new URLSearchParams({ page_size: "500" });
  if (page_token) query.set("page_token", page_token);
  return (await ask(`api/train/experiments?${query}`, { signal })).json();
}

/** @param {AbortSignal} [signal] @returns {Promise<NodeList>} */
export async function listNodes(signal) {
  return (await ask("api/train/nodes", { signal })).json();
}
