// A page that does only what cannot be left out: one file that asks the head for the first runs and puts them
// into a plain table. What the real one needs beside it is what it costs to do more.
import { createServer } from "node:http";

const ROWS = 50;
const PAGE = `<!doctype html>
<title>Runs</title>
<input type="search" />
<table></table>
<script type="module">
  const { train_runs } = await (await fetch("api/train/runs?include=workers&include=evidence&page_size=${ROWS}")).json();
  const table = document.querySelector("table");
  for (const run of train_runs) {
    const row = table.insertRow();
    row.dataset.run = run.id;
    for (const text of [run.run_status, run.name, run.experiment, run.start_time_ms, run.duration_ms, run.num_attempts])
      row.insertCell().textContent = text;
  }
</script>
`;

/** Serves it, and what it asks of the head. @param {string} head @returns {Promise<{ url: string, close: () => void }>} */
export async function peer(head) {
  const server = createServer(async (request, response) => {
    const path = (request.url ?? "/").slice(1);
    if (!path.startsWith("api/")) {
      response.setHeader("content-type", "text/html").end(path === "" ? PAGE : "");
      return;
    }
    const answer = await fetch(head + path);
    response.setHeader("content-type", "application/json").end(Buffer.from(await answer.arrayBuffer()));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", () => done(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${port}/`, close: () => server.close() };
}
