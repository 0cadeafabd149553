// Markdown as elements. What is allowed is decided in model/markdown.js; here its tree is only drawn, and
// no text ever becomes markup.
/** @import { VNode } from "preact" */
/** @import { Node } from "../model/markdown.js" */

import { marked } from "marked";
import { h } from "preact";
import { useMemo } from "preact/hooks";
import { treeOf } from "../model/markdown.js";
import { html } from "./html.js";

/** @param {string} text */
const lexer = (text) => marked.lexer(text, { gfm: true, breaks: true });

/** @param {{ text: string }} props */
export function Markdown({ text }) {
  const tree = useMemo(() => treeOf(text, lexer), [text]);
  return html`<div class="markdown" dir="auto">${tree.map(drawn)}</div>`;
}

/** @param {Node} node @returns {VNode<any> | string} */
const drawn = (node) =>
  typeof node === "string" ? node : h(node.tag, node.props, ...node.children.map(drawn));
