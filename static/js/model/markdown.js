// Notes as a tree of the few elements that notes need, from the tokens that marked makes of them. Pure:
// raw HTML stays text, links lead only where a browser may go without harm, pictures are named and not
// shown. What draws the tree is in ui/markdown.js.
/** @import { Token, Tokens } from "marked" */

import { plain } from "./text.js";

/** @typedef {{ tag: string, props: Record<string, string | number | boolean>, children: Node[] }} Element */
/** @typedef {Element | string} Node */

/** @param {string} tag @param {Node[]} children @param {Record<string, string | number | boolean>} [props] @returns {Element} */
const element = (tag, children, props = {}) => ({ tag, props, children });

const SAFE = /^(https?:\/\/|mailto:)/i;

/** The address of a link, if it is one to go to; null: it stays text. @param {string} href */
export function safeHref(href) {
  const address = decoded(href).trim();
  if (!SAFE.test(address) || /[\x00-\x20\x7f]/.test(address)) return null;
  return URL.canParse(address) ? address : null;
}

/** @type {Record<string, string>} */
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** Entities are read as the characters that they stand for; what comes of it is text. @param {string} text */
export function decoded(text) {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w{2,5}));/gi, (all, decimal, hex, name) => {
    if (name) return ENTITIES[name] ?? all;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : all;
  });
}

/** @param {string} text */
const shown = (text) => plain(decoded(text));

/** Emphasis is matched in a time that grows with the square of its marks in one block. */
const MOST_MARKS = 500;
/** So are long runs of what may be blanks at the end of a line, or the beginning of an address. */
const LONG_RUN = /[ \t]{500}|[\w.+-]{1000}/;
/** Elements in each other: what draws them calls itself. */
const MOST_NESTED = 50;

/**
 * The tree of a text. What would take too long, or is nested too deeply to be drawn, is shown as it was written.
 * @param {string} text @param {(text: string) => Token[]} lexer @returns {Node[]}
 */
export function treeOf(text, lexer) {
  const asWritten = [element("pre", [plain(text)], { tabindex: 0 })];
  const marks = text.split(/\n[ \t]*\n/).map((block) => block.match(/[*_~]+/g)?.length ?? 0);
  if (LONG_RUN.test(text) || marks.some((n) => n > MOST_MARKS)) return asWritten;
  try {
    const tree = nodes(lexer(text));
    return depthOf(tree) > MOST_NESTED ? asWritten : tree;
  } catch {
    // It calls itself for what is nested, until there is no more room.
    return asWritten;
  }
}

/** @param {Node[]} tree @returns {number} */
const depthOf = (tree) =>
  tree.reduce((most, n) => (typeof n === "string" ? most : Math.max(most, 1 + depthOf(n.children))), 0);

/** @param {Token[] | undefined} tokens @returns {Node[]} */
export const nodes = (tokens) => (tokens ?? []).flatMap(node);

/** @param {Token} token @returns {Node[]} */
function node(token) {
  const t = /** @type {any} */ (token);
  switch (token.type) {
    case "space":
    case "def":
      return [];
    case "heading":
      // The page has its own first and second ones.
      return [element(`h${Math.min(6, t.depth + 2)}`, nodes(t.tokens))];
    case "paragraph":
      return [element("p", nodes(t.tokens))];
    case "blockquote":
      return [element("blockquote", nodes(t.tokens))];
    case "list":
      return [list(/** @type {Tokens.List} */ (token))];
    case "code":
      return [element("pre", [element("code", [plain(t.text)])], { tabindex: 0 })];
    case "hr":
      return [element("hr", [])];
    case "table":
      return [table(/** @type {Tokens.Table} */ (token))];
    case "strong":
    case "em":
    case "del":
      return [element(token.type, nodes(t.tokens))];
    case "codespan":
      return [element("code", [plain(t.text)])];
    case "br":
      return [element("br", [])];
    case "checkbox":
      return [
        element("input", [], {
          type: "checkbox",
          checked: Boolean(t.checked),
          disabled: true,
          "aria-label": t.checked ? "done" : "to do",
        }),
      ];
    case "link":
      return link(t.href, nodes(t.tokens));
    case "image":
      return link(t.href, [shown(t.text || t.href)]);
    case "text":
    case "escape":
      return t.tokens ? nodes(t.tokens) : [shown(t.text)];
    default:
      // Raw HTML, and what nobody has thought of.
      return [plain(token.raw)];
  }
}

/** @param {string} href @param {Node[]} children @returns {Node[]} */
function link(href, children) {
  const address = safeHref(href);
  if (address === null) return [...children, ` (${plain(href)})`];
  return [
    element("a", children, {
      href: address,
      rel: "noopener noreferrer",
      target: "_blank",
      title: plain(address),
    }),
  ];
}

/** @param {Tokens.List} token */
function list({ ordered, start, items }) {
  const made = items.map((item) => element("li", nodes(item.tokens)));
  return ordered ? element("ol", made, { start: Number(start) || 1 }) : element("ul", made);
}

/** @param {Tokens.Table} token */
function table({ header, rows }) {
  /** @param {"th" | "td"} tag */
  const row = (tag) => (/** @type {Tokens.TableCell[]} */ cells) =>
    element(
      "tr",
      cells.map((c) => element(tag, nodes(c.tokens), c.align === "right" ? { class: "num" } : {})),
    );
  const body = element("tbody", rows.map(row("td")));
  return element("div", [element("table", [element("thead", [row("th")(header)]), body])], {
    class: "scroll-x",
  });
}
