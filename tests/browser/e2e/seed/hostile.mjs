// Runs whose words are chosen to do harm, or to break a layout.
/** @import { Api } from "../controller.mjs" */

const IMG = "<img src=x onerror=alert(1)>";
const RLO = "\u202e";

/** Markup, direction overrides and paths wherever a word can stand. @param {Api} head */
async function hostile(head) {
  const run = await head.register({
    name: `${IMG} ${RLO}gpj.exe ../../etc/passwd "quoted" 🏋️`,
    experiment: `<i>e</i> ${RLO}tnemirepxe`,
    start_time_ms: Date.now() - 2 * 3_600_000,
    job_id: `job"><script>alert(3)</script>`,
    settings: JSON.parse(
      String.raw`{"__proto__": {"polluted": true}, "constructor": "x", "<b>key</b>": "<svg onload=alert(4)>", "deep": {"../x": [1, "\u202ecba", {"a\"b": null}]}, "empty": {}, "url": "javascript:alert(5)"}`,
    ),
    datasets: [{ name: IMG, dataset_name: `${RLO}atad`, dataset_uuid: "../../x" }],
    framework_versions: { "<b>torch</b>": `"><script>alert(6)</script>` },
    tags: {
      "<b>k</b>": `"><script>alert(2)</script>`,
      "../x": "..",
      [`${RLO}gat`]: "x",
      "🏷️": "emoji",
      __proto__x: "y",
    },
  });
  await run.run(2);
  const keys = [
    'say "hi"/loss',
    "../x",
    `${IMG}/loss`,
    "__proto__",
    "constructor",
    "a//b",
    `${RLO}/ssol`,
    "emoji/🙂",
    "k".repeat(512),
    "a&b=c#d?e%2F",
  ];
  const values = [5, 4, 3, 2, 1];
  await run.columns({
    step: values.map((_, i) => i),
    // Of entries, for `__proto__` to be a key like others.
    metrics: Object.fromEntries(keys.map((key, i) => [key, values.map((v) => v + i)])),
  });
  await run.annotate({
    notes: `# ${IMG}\n\n<script>alert(7)</script>\n\n[a link](javascript:alert(8)) [another](data:text/html,x) [fine](https://example.org)\n\n![an image](https://example.org/track.png)\n\n**bold _both_** \`<b>code</b>\` ${RLO}desrever\n\n| a | b |\n|---|---|\n| <td> | x |\n\n${"- deep ".repeat(40)}`,
  });
  await run.end("ERRORED", `${IMG} ${RLO}rorre \u2028 \u0007`);
  return run;
}

/** As long as names may be, without a place to break them. @param {Api} head */
async function longName(head) {
  const run = await head.register({
    name: "W".repeat(256),
    experiment: "M".repeat(256),
    start_time_ms: Date.now() - 3 * 3_600_000,
    tags: {
      ["t".repeat(128)]: "v".repeat(2_000),
      ...Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`tag${i}`, `value ${i}`])),
    },
    settings: { ["s".repeat(200)]: "S".repeat(2_000) },
  });
  await run.run(2);
  await run.report([{ step: 2 ** 50, metrics: { ["m".repeat(300)]: 1.23456789e300, tiny: -1e-300 } }]);
  await run.checkpoint(0, "COMMITTED", 0.5, { uri: `/x/${"U".repeat(200)}`, status_detail: "D".repeat(256) });
  await run.annotate({ notes: `${"n".repeat(300)}\n\n\`\`\`\n${"N".repeat(300)}\n\`\`\`\n` });
  await run.end("ERRORED", "E".repeat(300));
  return run;
}

export const HOSTILE = { hostile, longName };
