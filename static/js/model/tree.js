// Settings as rows: nested objects become `a/b` keys, as metrics do. Pure; values are only
// written out as text, never interpreted.

/** @param {Record<string, unknown>} tree @returns {[string, string][]} */
export function flatten(tree) {
  /** @type {[string, string][]} */
  const rows = [];
  /** @param {unknown} value @param {string} path */
  const walk = (value, path) => {
    const nested = typeof value === "object" && value !== null && !Array.isArray(value);
    const entries = nested ? Object.entries(value) : [];
    if (entries.length === 0) rows.push([path, path === "command" ? command(value) : written(value)]);
    else for (const [k, v] of entries) walk(v, path ? `${path}/${k}` : k);
  };
  for (const [k, v] of Object.entries(tree)) walk(v, k);
  return rows;
}

/** One value as its row would show it; empty if there is none. @param {Record<string, unknown>} tree @param {string} path */
export function settingAt(tree, path) {
  return flatten(tree).find(([key]) => key === path)?.[1] ?? "";
}

/** @param {unknown} value */
const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** A program and its arguments as one would type them. @param {unknown} value */
function command(value) {
  if (!Array.isArray(value) || !value.every((v) => typeof v === "string")) return written(value);
  return value.map((v) => (/^[\w@%+=:,./-]+$/.test(v) ? v : `'${v.replaceAll("'", "'\\''")}'`)).join(" ");
}
