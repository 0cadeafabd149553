// Options from the command line, medians, and tables in Markdown.

/**
 * `URL --name value …`; exits with a hint when there is no URL or an option is not known.
 * @template {Record<string, number | string>} T
 * @param {T} defaults @returns {T & { url: string }}
 */
export function options(defaults) {
  const [url, ...rest] = process.argv.slice(2);
  const usage = `usage: node ${process.argv[1]} URL ${Object.entries(defaults)
    .map(([name, value]) => `[--${name} ${value}]`)
    .join(" ")}`;
  /** @type {Record<string, number | string>} */
  const given = { ...defaults };
  let bad = !url || !/^https?:/.test(url);
  for (let i = 0; i < rest.length; i += 2) {
    const name = rest[i].replace(/^--/, "");
    if (!(name in defaults) || rest[i + 1] === undefined) bad = true;
    given[name] = typeof defaults[name] === "number" ? Number(rest[i + 1]) : rest[i + 1];
  }
  if (bad) {
    console.error(usage);
    process.exit(2);
  }
  return /** @type {any} */ ({ ...given, url: url.replace(/\/?$/, "/") });
}

/** The value below which a share of them lies. @param {number[]} values @param {number} share */
export function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** Median, least and greatest, as the other tables of benches/README.md have them. @param {number[]} values @param {number} [digits] */
export function spread(values, digits = 0) {
  const [mid, low, high] = [quantile(values, 0.5), Math.min(...values), Math.max(...values)];
  return `${mid.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`;
}

/** @param {number} bytes */
export const kB = (bytes) => (bytes / 1000).toFixed(1);

/** @param {string[]} heads @param {(string | number)[][]} rows */
export function table(heads, rows) {
  const line = (/** @type {(string | number)[]} */ cells) => `| ${cells.join(" | ")} |`;
  console.log([line(heads), line(heads.map(() => "---")), ...rows.map(line), ""].join("\n"));
}
