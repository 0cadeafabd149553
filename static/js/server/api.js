// The one module that talks to the head. Every URL is relative, so that the dashboard works
// below any prefix. It keeps no state and retries nothing: whoever asks decides that.
/** @import { CheckpointPage, FullRun, LogFile, Lost, MetricSummary, RunPage, TrailPage, TrainRun, WireSeries } from "../types.js" */
/** @import { RunsView } from "../model/view.js" */

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
async function ask(url, init) {
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
const runUrl = (id) => `api/train/runs/${encodeURIComponent(id)}`;

/**
 * @param {RunsView} view @param {{ page_token?: string | null, page_size?: number, signal?: AbortSignal }} [options]
 * @returns {Promise<RunPage>}
 */
export async function listRuns(view, { page_token = null, page_size = 100, signal } = {}) {
  const query = new URLSearchParams();
  for (const s of view.status) query.append("status", s);
  if (view.q.trim()) query.set("q", view.q.trim());
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

/** @param {string} id @param {string | null} page_token @param {AbortSignal} [signal] @returns {Promise<TrailPage>} */
export async function listEvents(id, page_token, signal) {
  const query = new URLSearchParams({ page_size: "200" });
  if (page_token) query.set("page_token", page_token);
  return (await ask(`${runUrl(id)}/events?${query}`, { signal })).json();
}

/** @param {string} id @param {AbortSignal} [signal] @returns {Promise<{ metrics: MetricSummary[], lost: Lost }>} */
export async function listMetrics(id, signal) {
  return (await ask(`${runUrl(id)}/metrics`, { signal })).json();
}

/**
 * @param {string} id @param {string[]} keys
 * @param {{ from_step?: number | null, rank: number | "all", max_points?: number, signal: AbortSignal }} options
 * @returns {Promise<{ series: WireSeries[] }>}
 */
export async function getSeries(id, keys, { from_step = null, rank, max_points = 1000, signal }) {
  const query = new URLSearchParams({ max_points: String(max_points), rank: String(rank) });
  for (const key of keys) query.append("key", key);
  if (from_step !== null) query.set("from_step", String(from_step));
  return (await ask(`${runUrl(id)}/metrics/series?${query}`, { signal })).json();
}

/** The newest ones. @param {string} id @param {AbortSignal} [signal] @returns {Promise<CheckpointPage>} */
export async function listCheckpoints(id, signal) {
  return (await ask(`${runUrl(id)}/checkpoints?page_size=200`, { signal })).json();
}

/** @param {string} id @param {number} number @param {"PUT" | "DELETE"} method */
export async function pinCheckpoint(id, number, method) {
  await ask(`${runUrl(id)}/checkpoints/${number}/pin`, { method });
}

/** @param {string} id @param {AbortSignal} [signal] @returns {Promise<{ logs: LogFile[] }>} */
export async function listLogs(id, signal) {
  return (await ask(`${runUrl(id)}/logs`, { signal })).json();
}

/** @param {string} id @param {number} attempt @param {number} rank */
export function logUrl(id, attempt, rank) {
  return `${runUrl(id)}/logs/${attempt}/${rank}`;
}

/**
 * Where the first byte of an answer stands, and where the hole begins that it follows, if it follows one.
 * @param {Response} response
 */
function placeOf(response) {
  const hole = response.headers.get("x-log-hole-start");
  return {
    offset: Number(response.headers.get("x-log-offset") ?? 0),
    hole: hole === null ? null : Number(hole),
  };
}

/**
 * The end of a log and, with `follow`, what is written to it from now on.
 * @param {string} url @param {{ tail: number, follow: boolean, signal: AbortSignal }} options
 */
export async function openLog(url, { tail, follow, signal }) {
  const response = await ask(`${url}?tail=${tail}${follow ? "&follow=1" : ""}`, { signal });
  return { ...placeOf(response), body: response.body };
}

/** Bytes `from` to `to`, without `to`, or the next that are there. @param {string} url @param {number} from @param {number} to @param {AbortSignal} signal */
export async function readLog(url, from, to, signal) {
  const response = await ask(url, { headers: { range: `bytes=${from}-${to - 1}` }, signal });
  return { ...placeOf(response), bytes: new Uint8Array(await response.arrayBuffer()) };
}

/** @param {string} id @returns {Promise<TrainRun>} */
export async function stopRun(id) {
  const response = await ask(`${runUrl(id)}/stop`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ reason: "asked on the dashboard", grace_period_ms: null }),
  });
  return response.json();
}
