// The score of each checkpoint over its step: dots, the best and the latest named, what is gone faint.
/** @import { Checkpoint } from "../file_types.js" */
/** @import { Dot, Score } from "../model/scores.js" */

import { integer, number } from "../model/format.js";
import { plotOf } from "../model/scores.js";
import { html } from "./html.js";

const WIDTH = 640;
const HEIGHT = 160;
/** Where names of dots are still within the plot. */
const EDGE = 60;

/** @param {{ checkpoints: Checkpoint[], score: Score }} props */
export function ScorePlot({ checkpoints, score }) {
  const plot = plotOf(checkpoints, score.key);
  if (!plot)
    return html`<p class="quiet tab-note">No checkpoint has a <bdi>${score.key}</bdi> that can be drawn.</p>`;
  const best = plot.dots.find((d) => d.checkpoint.best);
  const missing = plot.missing > 0 ? `, ${integer(plot.missing)} without it are not drawn` : "";
  const what = score.given
    ? `the score that retention goes by: the ${score.order === "max" ? "highest" : "lowest"} is best`
    : "what all of them carry";
  const label = `${score.key} of ${integer(plot.dots.length)} checkpoints over steps ${integer(plot.from)} to ${integer(plot.to)}${best ? `; best ${number(best.value)} at step ${integer(best.checkpoint.step)}` : ""}`;
  return html`<figure class="scores">
    <figcaption><b><bdi>${score.key}</bdi></b> <span class="quiet">${what}${missing}</span></figcaption>
    <div class="scores-box">
      <span class="scores-high quiet num">${number(plot.high)}</span>
      <span class="scores-low quiet num">${plot.high > plot.low ? number(plot.low) : ""}</span>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${label}>
        <path d=${line(plot.dots)} />
      </svg>
      ${plot.dots.map((dot) => html`<${Mark} key=${dot.checkpoint.number} dot=${dot} />`)}
    </div>
    <div class="scores-steps quiet num"><span>step ${integer(plot.from)}</span><span>${plot.to > plot.from ? integer(plot.to) : ""}</span></div>
  </figure>`;
}

/** What is gone is no part of the line. @param {Dot[]} dots */
function line(dots) {
  const there = dots.filter((d) => d.checkpoint.fate !== "GONE");
  return there
    .map((d, i) => `${i === 0 ? "M" : "L"}${(d.x * WIDTH).toFixed(1)} ${((1 - d.y) * HEIGHT).toFixed(1)}`)
    .join("");
}

/** An element of its own, so that it stays round however wide the plot is. @param {{ dot: Dot }} props */
function Mark({ dot: { checkpoint: c, value, x, y } }) {
  const names = [c.best && "best", c.latest && "latest"].filter(Boolean).join(", ");
  const kinds = [
    c.fate === "GONE" && "is-gone",
    c.best && "is-best",
    c.latest && "is-latest",
    x * WIDTH > WIDTH - EDGE && "is-right",
    y > 0.8 && "is-high",
  ];
  const title = `checkpoint ${c.number}, step ${integer(c.step)}: ${number(value)}${names ? `, ${names}` : ""}${c.fate === "GONE" ? ", gone" : ""}`;
  return html`<i class=${["score", ...kinds].filter(Boolean).join(" ")} style=${{ left: `${x * 100}%`, bottom: `${y * 100}%` }} title=${title}>${names && html`<span>${names}</span>`}</i>`;
}
