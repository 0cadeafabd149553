// Logs as workers leave them, written where the head looks for them: one of 5 GB that takes some
// kilobytes of disk, because its middle is a hole, and small ones.

import { closeSync, ftruncateSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";

export const HOLE_BYTES = 5 * 2 ** 30;
const ESC = "\u001b";

/** src/state/data_dir.rs says where. @param {string} dir @param {string} id @param {number} attempt @param {number} rank */
const logPath = (dir, id, attempt, rank) =>
  join(dir, "runs", id, "logs", String(attempt), `rank_${rank}.log`);

/** @param {number} from @param {number} to @param {number} rank */
function steps(from, to, rank) {
  let text = "";
  for (let i = from; i < to; i++) {
    const loss = (2.5 * Math.exp(-i / 900) + 0.1).toFixed(4);
    text += `${stamp(i)} [rank ${rank}] step ${i}  loss ${loss}  lr 3.0e-04\n`;
  }
  return text;
}

/** @param {number} i */
const stamp = (i) => new Date(Date.UTC(2026, 0, 1, 8, 0, i)).toISOString();

/** What a terminal understands, and what it must not do. */
const PECULIAR =
  `${ESC}[1m${ESC}[32mready${ESC}[0m ${ESC}[38;5;208m256 colours${ESC}[0m ${ESC}[38;2;90;120;250mtrue colour${ESC}[0m\n` +
  `see ${ESC}]8;;https://example.org/runs/1${ESC}\\the report${ESC}]8;;${ESC}\\ and ${ESC}]8;;javascript:alert(1)${ESC}\\not this${ESC}]8;;${ESC}\\\n` +
  `epoch 1:   0%|          |\repoch 1:  50%|#####     |\repoch 1: 100%|##########| 512/512\n` +
  `bytes: \u0000 \u0001 \u0007 \u0008x \u007f \u009b31m ${ESC}[2J${ESC}[H after a cleared screen\n` +
  `<img src=x onerror=alert(1)> <script>alert(2)</script> \u202egnp.exe\u202c\n` +
  `${ESC}]0;title of the window\u0007${ESC}[33mwarning${ESC}[0m: lr is high\n` +
  `a long line ${"x".repeat(5_000)} ends\n`;

const TRACEBACK = `Traceback (most recent call last):
  File "/home/ada/train.py", line 212, in <module>
    main()
  File "/home/ada/train.py", line 187, in main
    loss = step(batch)
           ^^^^^^^^^^^
  File "/home/ada/train.py", line 96, in step
    raise FloatingPointError(f"loss is {loss.item()} at step {n}")
FloatingPointError: loss is nan at step 41999
`;

/** The log of 5 GB: lines, a hole, lines, and the error at the end. @param {string} dir @param {string} id */
export function sparseLog(dir, id) {
  const file = create(logPath(dir, id, 0, 0));
  const first = Buffer.from(`${PECULIAR}${steps(0, 2_000, 0)}`);
  const last = Buffer.from(`\n${steps(40_000, 42_000, 0)}${ESC}[31m${TRACEBACK}${ESC}[0m`);
  const at = first.length + HOLE_BYTES;
  writeSync(file, first, 0, first.length, 0);
  ftruncateSync(file, at + last.length);
  writeSync(file, last, 0, last.length, at);
  closeSync(file);
}

/** A log of two hundred lines and what is peculiar. @param {string} dir @param {string} id @param {number} rank @param {number} [attempt] */
export function smallLog(dir, id, rank, attempt = 0) {
  const file = create(logPath(dir, id, attempt, rank));
  writeSync(file, `${steps(0, 200, rank)}${PECULIAR}${rank === 0 ? TRACEBACK : ""}`);
  closeSync(file);
}

/** @param {string} path */
function create(path) {
  mkdirSync(dirname(path), { recursive: true });
  return openSync(path, "w");
}
