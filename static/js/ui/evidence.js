// The three facts that a run's status rests on, side by side and never mixed: the process, the
// contact, the progress. Each says what is known and how.
/** @import { VNode } from "preact" */
/** @import { ContactEvidence, ProcessEvidence } from "../types.js" */
/** @import { RunState } from "../state/run.js" */

import { ago, duration, exact, integer, interval, length, NOTHING, stepRate } from "../model/format.js";
import { isLive } from "../model/status.js";
import { now } from "../state/clock.js";
import { html } from "./html.js";

const SKEW_WORTH_SAYING_MS = 5000;

/** @param {{ run: RunState }} props */
export function Evidence({ run }) {
  const { process, contact } = run.evidence;
  return html`<dl class="evidence">
    <${Process} process=${process} live=${isLive(run)} />
    <${Contact} contact=${contact} live=${isLive(run)} />
    <${Progress} run=${run} />
  </dl>`;
}

/** @param {{ name: string, fact: VNode | string, how: VNode | string, title?: string, tone?: string }} props */
function Fact({ name, fact, how, title = "", tone = "" }) {
  return html`<div class=${`fact ${tone}`} title=${title}>
    <dt>${name}</dt>
    <dd class="fact-what">${fact}</dd>
    <dd class="fact-how">${how}</dd>
  </div>`;
}

/** @param {{ process: ProcessEvidence, live: boolean }} props */
function Process({ process, live }) {
  const where = [process.pid !== null && `pid ${process.pid}`, process.host && `on ${process.host}`]
    .filter(Boolean)
    .join(" ");
  const seen = process.observed_at_ms;
  const how = process.observed_by
    ? `seen by ${process.observed_by} ${ago(seen, now.value)}`
    : live
      ? "nobody watches this process"
      : "not watched since the run ended";
  // Of a run that has ended, "unknown" would be no news: what is known is which process it was.
  const state = !live && process.state === "unknown" && where ? "" : process.state;
  const fact = [state, where].filter(Boolean).join(", ");
  return html`<${Fact} name="Process" fact=${fact} how=${how} title=${exact(seen)} />`;
}

/** @param {{ contact: ContactEvidence, live: boolean }} props */
function Contact({ contact, live }) {
  const left = contact.lease_expires_ms === null ? null : contact.lease_expires_ms - now.value;
  const lease = `lease ${length(contact.lease_ttl_ms)}`;
  const how = !live
    ? "last heard of its controller"
    : left === null
      ? lease
      : left > 0
        ? `${lease}, ${duration(left)} left`
        : `${lease}, run out`;
  const skew = contact.clock_skew_ms ?? 0;
  const off =
    Math.abs(skew) > SKEW_WORTH_SAYING_MS ? `; its clock is off by ${duration(Math.abs(skew))}` : "";
  const late = live && left !== null && left <= 0;
  return html`<${Fact}
    name="Contact"
    fact=${ago(contact.last_contact_ms || null, now.value)}
    how=${how + off}
    title=${exact(contact.last_contact_ms)}
    tone=${late ? "is-late" : ""}
  />`;
}

/** @param {{ run: RunState }} props */
function Progress({ run }) {
  const p = run.evidence.progress;
  const usual = p.median_step_interval_ms;
  const speed = stepRate(run.rate) || (usual ? `a step took ${interval(usual)}` : "");
  const how = p.last_report_ms === null ? "no report yet" : `reported ${ago(p.last_report_ms, now.value)}`;
  return html`<${Fact}
    name="Progress"
    fact=${p.last_step === null ? NOTHING : `step ${integer(p.last_step)}`}
    how=${[p.stalled && "stalled", how, speed].filter(Boolean).join(", ")}
    title=${exact(p.last_report_ms)}
    tone=${p.stalled ? "is-late" : ""}
  />`;
}
