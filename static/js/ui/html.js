// The `html` tag that all components draw with. Values become text or properties, never markup:
// nothing in the dashboard turns a string into elements.
/** @import { VNode } from "preact" */

import htm from "htm";
import { h } from "preact";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => VNode} */
export const html = /** @type {any} */ (htm.bind(anew));

/**
 * What is the same at each drawing is made anew all the same (htm's way to say so is this number): a node that
 * is kept keeps the tree that it first stood in, and that all trees since.
 * @this {any[]} @param {Parameters<typeof h>} args
 */
function anew(...args) {
  this[0] = 3;
  return h(...args);
}
