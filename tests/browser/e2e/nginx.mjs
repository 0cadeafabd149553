// Debian's nginx before a head, as in front of a real one: everything below a path goes to the head, with
// that path taken off. It writes below a temporary directory only, and notes what is asked for elsewhere.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "./browser.mjs";

const FETCHED = fileURLToPath(new URL("../../../target/nginx/usr/sbin/nginx", import.meta.url));
const PROGRAM = process.env.NGINX_PROGRAM ?? ["/usr/sbin/nginx", FETCHED].find((path) => existsSync(path));

/**
 * Nothing is set but what the path needs. The head itself says that its streams are not to be buffered, and
 * knows nothing of the name under which browsers come but what --allow-host says.
 * @param {string} dir @param {number} port @param {string} prefix @param {string} head
 */
const config = (dir, port, prefix, head) => `
daemon off;
# One process, which writes as whoever started it.
master_process off;
pid ${dir}/pid;
error_log ${dir}/error.log warn;
events {}
http {
  log_format line '$request_method $request_uri $status';
  client_body_temp_path ${dir}/body;
  proxy_temp_path ${dir}/proxy;
  fastcgi_temp_path ${dir}/fastcgi;
  uwsgi_temp_path ${dir}/uwsgi;
  scgi_temp_path ${dir}/scgi;
  server {
    listen 127.0.0.1:${port};
    access_log ${dir}/passed.log line;
    location ${prefix} {
      proxy_pass ${head};
      proxy_http_version 1.1;
    }
    location / {
      access_log ${dir}/astray.log line;
      return 404;
    }
  }
}
`;

export class Nginx {
  #dir = mkdtempSync(join(tmpdir(), "trainhead-nginx-"));
  /** @type {import("node:child_process").ChildProcess | null} */
  #child = null;
  url = "";

  /** @param {string} prefix with slashes @param {string} head its URL @param {string} host name that browsers use */
  async start(prefix, head, host) {
    if (!PROGRAM)
      throw new Error("there is no nginx: tests/run.sh fetches Debian's, or name one with NGINX_PROGRAM");
    const port = await freePort();
    const conf = join(this.#dir, "nginx.conf");
    writeFileSync(conf, config(this.#dir, port, prefix, head));
    const log = join(this.#dir, "error.log");
    const child = spawn(PROGRAM, ["-p", this.#dir, "-c", conf, "-e", log], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    this.#child = child;
    const answers = async () => {
      if (child.exitCode !== null) throw new Error(`nginx ended: ${readFileSync(log, "utf8")}`);
      return fetch(`http://127.0.0.1:${port}${prefix}healthz`).then(
        (r) => r.ok,
        () => false,
      );
    };
    await until(answers, "nginx to answer");
    this.url = `http://${host}:${port}${prefix}`;
  }

  /** What was asked for below the prefix, as lines of method, path and status. */
  passed() {
    return this.#lines("passed");
  }

  /** What was asked for elsewhere. */
  astray() {
    return this.#lines("astray");
  }

  /** What nginx found wrong. */
  errors() {
    return this.#lines("error");
  }

  /** @param {string} log */
  #lines(log) {
    const path = join(this.#dir, `${log}.log`);
    return existsSync(path) ? readFileSync(path, "utf8").split("\n").filter(Boolean) : [];
  }

  async close() {
    const child = this.#child;
    if (child && child.exitCode === null) {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    }
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (probe.address());
  probe.close();
  await once(probe, "close");
  return port;
}
