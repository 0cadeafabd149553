// The `html` tag that all components draw with. Values become text or properties, never markup:
// nothing in the dashboard turns a string into elements.
/** @import { VNode } from "preact" */

import htm from "htm";
import { h } from "preact";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => VNode} */
export const html = /** @type {any} */ (htm.bind(h));
