// Which groups of charts are open. Few charts all are; of very many only the first groups, so that a
// page with thousands of keys is there at once. What somebody opens or closes is said in the view. Pure.

/** @typedef {{ prefix: string, keys: string[] }} Group */

/** Charts that are open by themselves. */
export const OPEN_CHARTS = 60;
/** Slots of a group that come and go together: so many that rows of 2, 3 and 4 come out even. */
export const BLOCK = 24;

/**
 * From the top, groups are open until there are many charts; the first always is. `-train` in `said`
 * closes a group, `+train` opens it, whatever the rule says.
 * @param {Group[]} groups @param {string[]} said @returns {Set<string>}
 */
export function openGroups(groups, said) {
  let shown = 0;
  return new Set(
    groups
      .filter(({ prefix, keys }, i) => {
        shown += keys.length;
        const byItself = i === 0 || shown <= OPEN_CHARTS;
        return said.includes(`+${prefix}`) || (byItself && !said.includes(`-${prefix}`));
      })
      .map((g) => g.prefix),
  );
}

/** What to say after a click on a group's title. @param {string[]} said @param {string} prefix @param {boolean} open it is now */
export const toggled = (said, prefix, open) => [
  ...said.filter((s) => s.slice(1) !== prefix),
  `${open ? "-" : "+"}${prefix}`,
];

/** @template T @param {T[]} all @param {number} [size] @returns {T[][]} */
export function blocks(all, size = BLOCK) {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size));
}
