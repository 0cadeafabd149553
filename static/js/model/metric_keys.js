// Metric keys: grouping by prefix, searching, and the few that a row of the list has room for.
// Pure; it knows nothing of values.

/** @param {string} key */
const prefixOf = (key) => (key.includes("/") ? key.slice(0, key.indexOf("/")) : "");

/** Every word of the query must occur somewhere in the key. @param {string[]} keys @param {string} query */
export function search(keys, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return keys.filter((k) => words.every((w) => k.toLowerCase().includes(w)));
}

/** Keys without a prefix come first. @param {string[]} keys @returns {{ prefix: string, keys: string[] }[]} */
export function group(keys) {
  /** @type {Map<string, string[]>} */
  const groups = new Map();
  for (const key of [...keys].sort()) {
    const list = groups.get(prefixOf(key));
    if (list) list.push(key);
    else groups.set(prefixOf(key), [key]);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([prefix, list]) => ({ prefix, keys: list }));
}

// What most people look at first. Only an order: a run without such keys shows its first ones.
const WANTED = [/loss/i, /acc|reward|return|score|f1|bleu|ppl|perplexity/i];

/** Of several, the smoother one: not that of a single batch. */
const OFTEN = /^[^/]*$|^(train|val|valid|validation|eval|test)\//i;

/** @param {string[]} keys @param {number} room */
export function choose(keys, room) {
  const sorted = [...keys].sort();
  const firsts = WANTED.map(
    (want) => sorted.find((k) => want.test(k) && OFTEN.test(k)) ?? sorted.find((k) => want.test(k)),
  ).filter((k) => k !== undefined);
  return [...new Set([...firsts, ...sorted])].slice(0, room);
}

/** Of so many keys of a run the head has the last value at hand (LAST_VALUES of src/model/progress.rs). */
export const KEYS_AT_HAND = 64;

/** May there be more keys than these? @param {Record<string, unknown> | undefined} last_metrics */
export const areCut = (last_metrics) => Object.keys(last_metrics ?? {}).length >= KEYS_AT_HAND;
