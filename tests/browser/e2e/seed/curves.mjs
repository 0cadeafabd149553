// Learning curves that look like real ones, the same at each call with the same seed. Pure.

/** Numbers from 0 to 1, always the same ones for a seed (mulberry32). @param {number} seed */
export function chance(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @typedef {ReturnType<typeof chance>} Chance */

/** About normal, mean 0 and deviation 1. @param {Chance} next */
export const noise = (next) => next() + next() + next() + next() - 2;

/** Four digits are what a report carries, and keep bodies small. @param {number} x */
const short = (x) => Number(x.toPrecision(5));

/**
 * The curves of one training at the given steps.
 * @param {number[]} steps
 * @param {{ total: number, lr: number, batch: number, seed: number }} how a learning rate near 0.003 does best
 */
export function training(steps, { total, lr, batch, seed }) {
  const next = chance(seed);
  const off = Math.abs(Math.log10(lr / 0.003));
  const floor = 0.08 + 0.25 * off + 0.05 * next();
  const speed = (4 + 4 * next()) / (1 + off);
  const start = 2.2 + next();
  /** @type {Record<string, number[]>} */
  const out = {
    "train/loss": [],
    "train/accuracy": [],
    "val/loss": [],
    "val/accuracy": [],
    "optim/lr": [],
    "optim/grad_norm": [],
    "optim/update_ratio": [],
    "perf/samples_per_s": [],
  };
  for (const step of steps) {
    const t = step / total;
    const fall = Math.exp(-speed * t);
    const loss = floor + (start - floor) * fall + 0.06 * (0.3 + fall) * noise(next);
    const val = floor * 1.25 + (start - floor) * fall + 0.15 * Math.max(0, t - 0.7) + 0.03 * noise(next);
    const accuracy = (1 - floor * 0.8) * (1 - fall) + 0.1 * fall;
    const warm = Math.min(1, t / 0.05);
    out["train/loss"].push(short(Math.max(0.01, loss)));
    out["train/accuracy"].push(short(clamp(accuracy + 0.02 * noise(next))));
    out["val/loss"].push(short(Math.max(0.02, val)));
    out["val/accuracy"].push(short(clamp(accuracy - 0.03 + 0.008 * noise(next))));
    out["optim/lr"].push(short(lr * warm * 0.5 * (1 + Math.cos(Math.PI * t))));
    // Spikes, as of a bad batch.
    const spike = next() < 0.015 ? 8 + 30 * next() : 1;
    out["optim/grad_norm"].push(short((0.4 + 2 * fall) * spike * (1 + 0.2 * Math.abs(noise(next)))));
    // Exactly zero now and then, and negative: what a log scale cannot show.
    out["optim/update_ratio"].push(next() < 0.1 ? 0 : short(1e-3 * (fall + 0.4 * noise(next))));
    out["perf/samples_per_s"].push(short(batch * (14 + 0.5 * noise(next))));
  }
  return out;
}

/** @param {number} x */
const clamp = (x) => Math.min(0.9999, Math.max(0, x));

/** `count` steps from `from` on. @param {number} count @param {number} stride @param {number} [from] */
export const strides = (count, stride, from = 0) =>
  Array.from({ length: count }, (_, i) => from + i * stride);
