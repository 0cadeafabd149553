// A small curve: few points, no axes. Pure: thinning as it grows, and its shape as an SVG path.

/** @typedef {{ step: number[], value: number[] }} Spark */

const MOST_POINTS = 80;

/** What is not finite has no place on it. @param {number[]} steps @param {number[]} values @returns {Spark} */
export function sparkOf(steps, values) {
  const at = steps.map((_, i) => i).filter((i) => Number.isFinite(values[i]));
  return { step: at.map((i) => steps[i]), value: at.map((i) => values[i]) };
}

/** A step that goes back (a restart) takes the place of what was reached before. @param {Spark} spark @param {number} step_now @param {number} value_now @returns {Spark} */
export function extendSpark({ step, value }, step_now, value_now) {
  let keep = step.length;
  while (keep > 0 && step[keep - 1] >= step_now) keep -= 1;
  const next = { step: step.slice(0, keep), value: value.slice(0, keep) };
  if (!Number.isFinite(value_now)) return next;
  next.step.push(step_now);
  next.value.push(value_now);
  if (next.step.length <= MOST_POINTS) return next;
  const last = next.step.length - 1;
  const stays = (/** @type {number} */ i) => i % 2 === 0 || i === last;
  return { step: next.step.filter((_, i) => stays(i)), value: next.value.filter((_, i) => stays(i)) };
}

/** @param {Spark} spark @param {number} width @param {number} height */
export function sparkPath({ step, value }, width, height) {
  if (step.length < 2) return "";
  const [x0, x1] = [step[0], step[step.length - 1]];
  const [low, high] = [Math.min(...value), Math.max(...value)];
  const x = (/** @type {number} */ s) => (((s - x0) / (x1 - x0 || 1)) * width).toFixed(1);
  const y = (/** @type {number} */ v) =>
    (high === low ? height / 2 : height - ((v - low) / (high - low)) * height).toFixed(1);
  return step.map((s, i) => `${i === 0 ? "M" : "L"}${x(s)} ${y(value[i])}`).join("");
}
