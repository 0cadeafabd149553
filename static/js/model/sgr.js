// The colours and weights of terminal output (ANSI "SGR") as CSS class names. Pure.
// 256 and true colours become the nearest of the sixteen, because only those are known to be
// legible in both themes.

/** @typedef {{ bold: boolean, dim: boolean, italic: boolean, underline: boolean, inverse: boolean, fg: number | null, bg: number | null }} Pen */

/** @returns {Pen} */
export const plain = () => ({
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  inverse: false,
  fg: null,
  bg: null,
});

// The usual values of the sixteen colours: only to find the nearest, not to draw.
const PALETTE = [
  [0, 0, 0],
  [205, 0, 0],
  [0, 205, 0],
  [205, 205, 0],
  [0, 0, 238],
  [205, 0, 205],
  [0, 205, 205],
  [229, 229, 229],
  [127, 127, 127],
  [255, 0, 0],
  [0, 255, 0],
  [255, 255, 0],
  [92, 92, 255],
  [255, 0, 255],
  [0, 255, 255],
  [255, 255, 255],
];

/** @param {number} r @param {number} g @param {number} b */
function nearestColor(r, g, b) {
  let best = 0;
  let least = Infinity;
  PALETTE.forEach(([pr, pg, pb], i) => {
    const distance = (r - pr) ** 2 + (g - pg) ** 2 + (b - pb) ** 2;
    if (distance < least) [best, least] = [i, distance];
  });
  return best;
}

/** @param {number} n */
function from256(n) {
  if (n < 16) return n;
  if (n >= 232) return nearestColor(8 + (n - 232) * 10, 8 + (n - 232) * 10, 8 + (n - 232) * 10);
  const level = (/** @type {number} */ i) => (i === 0 ? 0 : 55 + i * 40);
  const c = n - 16;
  return nearestColor(level(Math.floor(c / 36)), level(Math.floor(c / 6) % 6), level(c % 6));
}

/**
 * Reads one sequence's parameters and returns the pen after it.
 * @param {Pen} pen @param {string} params such as `1;31`
 * @returns {Pen}
 */
export function applySgr(pen, params) {
  const parts = params.split(";");
  const codes = parts.map(Number);
  let next = { ...pen };
  for (let i = 0; i < codes.length; i += 1) {
    if (parts[i].includes(":")) {
      next = withParts(next, parts[i].split(":").map(Number));
    } else if (EXTENDED.includes(codes[i])) {
      const { color, used } = extended(codes, i + 1);
      next = colored(next, codes[i], color);
      i += used;
    } else next = simple(next, codes[i]);
  }
  return next;
}

/** Foreground, background, and the colour of the underline, which is not shown. */
const EXTENDED = [38, 48, 58];

/** @param {Pen} pen @param {number} code @param {number | null} color @returns {Pen} */
function colored(pen, code, color) {
  if (code === 38) return { ...pen, fg: color };
  return code === 48 ? { ...pen, bg: color } : pen;
}

/** One code with its own parts: ITU T.416 has the place of a colour space before three colours. @param {Pen} pen @param {number[]} parts */
function withParts(pen, [code, ...parts]) {
  if (code === 4) return { ...pen, underline: parts[0] !== 0 };
  if (!EXTENDED.includes(code)) return pen;
  const rgb = parts[0] === 2 ? [2, ...parts.slice(parts.length > 4 ? 2 : 1)] : parts;
  return colored(pen, code, extended(rgb, 0).color);
}

/** @param {number[]} codes @param {number} at */
function extended(codes, at) {
  if (codes[at] === 5) return { color: from256(clampByte(codes[at + 1])), used: 2 };
  if (codes[at] === 2) {
    const [r, g, b] = [codes[at + 1], codes[at + 2], codes[at + 3]].map(clampByte);
    return { color: nearestColor(r, g, b), used: 4 };
  }
  return { color: null, used: 0 };
}

/** @param {number | undefined} n */
const clampByte = (n) => Math.min(255, Math.max(0, n || 0));

/** @param {Pen} pen @param {number} c @returns {Pen} */
function simple(pen, c) {
  if (c === 0) return plain();
  if (c === 1) return { ...pen, bold: true };
  if (c === 2) return { ...pen, dim: true };
  if (c === 3) return { ...pen, italic: true };
  if (c === 4) return { ...pen, underline: true };
  if (c === 7) return { ...pen, inverse: true };
  if (c === 22) return { ...pen, bold: false, dim: false };
  if (c === 23) return { ...pen, italic: false };
  if (c === 24) return { ...pen, underline: false };
  if (c === 27) return { ...pen, inverse: false };
  if (c >= 30 && c <= 37) return { ...pen, fg: c - 30 };
  if (c === 39) return { ...pen, fg: null };
  if (c >= 40 && c <= 47) return { ...pen, bg: c - 40 };
  if (c === 49) return { ...pen, bg: null };
  if (c >= 90 && c <= 97) return { ...pen, fg: c - 82 };
  if (c >= 100 && c <= 107) return { ...pen, bg: c - 92 };
  return pen;
}

/** @param {Pen} pen */
export function classOf(pen) {
  const names = [];
  if (pen.bold) names.push("t-bold");
  if (pen.dim) names.push("t-dim");
  if (pen.italic) names.push("t-italic");
  if (pen.underline) names.push("t-underline");
  if (pen.inverse) names.push("t-inverse");
  if (pen.fg !== null) names.push(`t-fg${pen.fg}`);
  if (pen.bg !== null) names.push(`t-bg${pen.bg}`);
  return names.join(" ");
}
