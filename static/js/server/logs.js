// Logs as the head sends them: which there are, how long they are, parts by range, and what is found in them.
/** @import { LogFile, LogMatches } from "../file_types.js" */
/** @import { Piece } from "../model/log_window.js" */

import { ApiError, ask, runUrl } from "./api.js";

const BEYOND_END = 416;

/** Of all attempts or of one. @param {string} id @param {AbortSignal} [signal] @param {number} [attempt] @returns {Promise<{ logs: LogFile[] }>} */
export async function listLogs(id, signal, attempt) {
  const query = attempt === undefined ? "" : `?attempt=${attempt}`;
  return (await ask(`${runUrl(id)}/logs${query}`, { signal })).json();
}

/** @param {string} id @param {number} attempt @param {number} rank */
export function logUrl(id, attempt, rank) {
  return `${runUrl(id)}/logs/${attempt}/${rank}`;
}

/** @param {Response} response @param {string} name */
function numberIn(response, name) {
  const value = response.headers.get(name);
  return value === null ? null : Number(value);
}

/** Where the next byte will stand. @param {string} url @param {AbortSignal} signal */
export async function logSize(url, signal) {
  return numberIn(await ask(`${url}?tail=0`, { signal }), "x-log-offset") ?? 0;
}

/** Bytes `from` to `to`, without `to`, or the next that are there; null: there are none. @param {string} url @param {number} from @param {number} to @param {AbortSignal} signal @returns {Promise<Piece | null>} */
async function readPiece(url, from, to, signal) {
  try {
    const response = await ask(url, { headers: { range: `bytes=${from}-${to - 1}` }, signal });
    const bytes = new Uint8Array(await response.arrayBuffer());
    const offset = numberIn(response, "x-log-offset") ?? from;
    return bytes.length === 0 ? null : { offset, bytes, hole: numberIn(response, "x-log-hole-start") };
  } catch (e) {
    if (e instanceof ApiError && e.status === BEYOND_END) return null;
    throw e;
  }
}

/**
 * What is there between two places: pieces with holes between them, all of them before `to`. `beyond` is the
 * first that is there after `to`, if it was come across.
 * @param {string} url @param {number} from @param {number} to @param {AbortSignal} signal
 * @returns {Promise<{ pieces: Piece[], beyond: Piece | null }>}
 */
export async function readLog(url, from, to, signal) {
  /** @type {Piece[]} */
  const pieces = [];
  for (let at = from; at < to;) {
    const piece = await readPiece(url, at, to, signal);
    if (!piece || piece.offset >= to) return { pieces, beyond: piece };
    const bytes = piece.bytes.subarray(0, to - piece.offset);
    pieces.push({ ...piece, bytes });
    at = piece.offset + bytes.length;
  }
  return { pieces, beyond: null };
}

/**
 * What is found in the next part of a log; the answer says where to go on.
 * @param {string} url @param {{ q: string } | { errors: true }} what @param {number} from @param {number} limit @param {AbortSignal} signal
 * @returns {Promise<LogMatches>}
 */
export async function searchLog(url, what, from, limit, signal) {
  const query = new URLSearchParams({ from: String(from), limit: String(limit) });
  for (const [name, value] of Object.entries(what)) query.set(name, String(value));
  return (await ask(`${url}/search?${query}`, { signal })).json();
}
