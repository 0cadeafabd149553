// The theme's colours for what is drawn on a canvas, where var() and light-dark() are not understood.

/** @type {HTMLElement | null} */
let probe = null;

/** A token of css/tokens.css as the theme that is shown has it, `rgb(0, 114, 178)`. @param {string} name `--accent` */
export function token(name) {
  if (!probe) {
    probe = document.createElement("i");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** @param {string} color as `token` gives it @param {number} alpha 0 to 1 */
export const faint = (color, alpha) => color.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);

/** The font of numbers on a canvas. */
export const canvasFont = () =>
  `11px ${getComputedStyle(document.documentElement).getPropertyValue("--sans").trim()}`;
