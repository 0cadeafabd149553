// The shapes that the head sends of a run's files, its checkpoints and logs, as JSDoc types; all others are
// in types.js. Only tsc reads this file: no code here, and nothing imports it at run time.
/** @import { WireNumber } from "./types.js" */

/**
 * @typedef {object} Checkpoint
 * @property {number} number
 * @property {"STAGING" | "COMMITTED" | "VALIDATING" | "VALIDATED" | "VALIDATION_FAILED" | "VALIDATION_TIMEOUT" | "CORRUPT" | "MISSING" | "DELETED"} state
 * @property {string | null} status_detail
 * @property {number} step
 * @property {number} attempt
 * @property {string} uri
 * @property {number} num_files
 * @property {number} size_bytes
 * @property {Record<string, WireNumber>} metrics
 * @property {number} committed_at_ms
 * @property {boolean} pinned
 * @property {boolean} best
 * @property {boolean} latest
 * @property {"BEST" | "LATEST" | "PINNED" | "PENDING" | "GOES" | "GONE"} fate
 */

/** @typedef {{ checkpoints: Checkpoint[], total_size: number, best: number | null, latest: number | null, next_page_token: string | null }} CheckpointPage */

/** @typedef {{ attempt: number, rank: number, size_bytes: number, url: string }} LogFile */
/** @typedef {{ matches: { offset: number, text: string }[], next_from: number | null, scanned_to: number, resume_from: number, size_bytes: number }} LogMatches */

export {};
