// The HTTP API as a launcher uses it: registering runs and being the controller of one. It starts no
// head and knows nothing of the browser.

const REASONS = { FINISHED: "completed", ERRORED: "worker_failed", ABORTED: "stopped" };

/** @typedef {{ node_id: string, node_ip: string, resources: Record<string, number>, gpu_ids: string[] }} Node */
/** @typedef {{ node_id: string, gpu_ids: string[] }} Place where one worker runs */
/** @typedef {{ step: number[], time_ms?: number[], metrics: Record<string, (number | string)[]> }} Columns */

/** A head at a URL. */
export class Api {
  url = "";

  /** @param {string} [url] known later if the head is still to be started */
  constructor(url) {
    if (url) this.isAt(url);
  }

  /** @param {string} url */
  isAt(url) {
    this.url = url.replace(/\/?$/, "/");
  }

  /** @param {string} method @param {string} path @param {unknown} [body] @param {string} [token] */
  async call(method, path, body, token) {
    const response = await fetch(new URL(path, this.url), {
      method,
      headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  /** @param {Record<string, unknown>} [change] @param {number} [lease_ttl_ms] */
  async register(change = {}, lease_ttl_ms = 600_000) {
    const body = { name: "mnist", controller: { actor_id: crypto.randomUUID(), lease_ttl_ms }, ...change };
    const { run, controller_token } = await this.call("POST", "api/train/runs", body);
    return new Controller(this, run.id, controller_token);
  }
}

/** The controller of one run, as the API sees it. */
export class Controller {
  attempt = -1;
  attempt_id = "";
  seq = 0;
  registered_ms = Date.now();

  /** @param {Api} head @param {string} id @param {string} token */
  constructor(head, id, token) {
    this.head = head;
    this.id = id;
    this.token = token;
  }

  /** @param {string} path @param {unknown} body */
  #post(path, body) {
    return this.head.call("POST", `api/train/runs/${encodeURIComponent(this.id)}/${path}`, body, this.token);
  }

  /** @param {string} state @param {string | null} [status_detail] */
  state(state, status_detail = null) {
    return this.#post("state", { state, status_detail });
  }

  /** From registration to a running attempt. @param {number} [workers] @param {Node[]} [nodes] */
  async run(workers = 2, nodes = []) {
    await this.state("SCHEDULING");
    await this.beginAttempt(workers, nodes);
    await this.state("RUNNING");
  }

  /**
   * With `nodes` each worker gets a GPU of one of them, as far as the head has any left.
   * @param {number} workers @param {Node[]} [nodes]
   */
  async beginAttempt(workers, nodes = []) {
    const { reservation } = await this.placeAttempt(workers, nodes);
    await this.startWorkers(workers, reservation);
  }

  /** Asks for workers, which do not run yet. @param {number} num_workers @param {Node[]} [nodes] @returns {Promise<{ reservation: Place[] }>} */
  async placeAttempt(num_workers, nodes = []) {
    this.attempt += 1;
    this.attempt_id = crypto.randomUUID();
    const body = { attempt_id: this.attempt_id, num_workers };
    if (nodes.length > 0) {
      const node_ids = nodes.map((n) => n.node_id);
      Object.assign(body, { resources_per_worker: { CPU: 4, GPU: 1 }, nodes, node_ids });
    }
    return (await this.#post("attempts", body)).attempt;
  }

  /** @param {number} workers @param {Place[]} places */
  async startWorkers(workers, places = []) {
    /** @type {Map<string, number>} */
    const onNode = new Map();
    const one = (/** @type {number} */ rank) => {
      const { node_id, gpu_ids } = places[rank] ?? { node_id: "node-a", gpu_ids: [] };
      const local_rank = onNode.get(node_id) ?? 0;
      onNode.set(node_id, local_rank + 1);
      return {
        actor_id: crypto.randomUUID(),
        world_rank: rank,
        local_rank,
        node_rank: [...onNode.keys()].indexOf(node_id),
        node_id,
        node_ip: "127.0.0.1",
        pid: 4711 + rank,
        gpu_ids,
      };
    };
    await this.#post(`attempts/${this.attempt_id}/running`, {
      workers: Array.from({ length: workers }, (_, i) => one(i)),
    });
  }

  /** A worker of the attempt has ended. @param {number} world_rank @param {{ code?: number, signal?: string, cause?: string }} how */
  workerEnded(world_rank, { code, signal, cause }) {
    const exit = { code: code ?? null, signal: signal ?? null, cause: cause ?? null, time_ms: Date.now() };
    return this.#post(`attempts/${this.attempt_id}/workers`, {
      workers: [{ world_rank, status: "DEAD", exit }],
    });
  }

  /** @param {"FINISHED" | "ERRORED" | "ABORTED"} status @param {string} end_reason @param {string | null} [status_detail] */
  endAttempt(status, end_reason, status_detail = null) {
    return this.#post(`attempts/${this.attempt_id}/end`, { status, end_reason, status_detail });
  }

  /** @param {{ step: number, metrics: Record<string, number | string> }[]} reports @param {number} [rank] */
  report(reports, rank = 0) {
    const timed = reports.map((r) => ({ ...r, time_ms: Date.now() }));
    return this.#report(rank, { reports: timed });
  }

  /** Many reports at once, as columns. @param {Columns} columns @param {number} [rank] */
  columns(columns, rank = 0) {
    return this.#report(rank, { columns });
  }

  /** @param {number} rank @param {Record<string, unknown>} what */
  #report(rank, what) {
    this.seq += 1;
    return this.#post("reports", {
      writer: `writer-${rank}`,
      seq: this.seq,
      attempt: this.attempt,
      rank,
      ...what,
    });
  }

  /** @param {number} number @param {string} state @param {number} accuracy @param {Record<string, unknown>} [change] */
  checkpoint(number, state, accuracy, change = {}) {
    const path = `api/train/runs/${encodeURIComponent(this.id)}/checkpoints/${number}`;
    const body = {
      state,
      step: number * 10,
      attempt: 0,
      uri: `/checkpoints/checkpoint_${String(number).padStart(6, "0")}`,
      num_files: 4,
      size_bytes: 3 * 2 ** 20,
      metrics: { accuracy },
      committed_at_ms: this.registered_ms,
      ...change,
    };
    return this.head.call("PUT", path, body, this.token);
  }

  /** @param {Record<string, unknown>} change name, notes or tags, as a person would */
  annotate(change) {
    return this.head.call("PATCH", `api/train/runs/${encodeURIComponent(this.id)}`, change);
  }

  /** @param {"FINISHED" | "ERRORED" | "ABORTED"} run_status @param {string | null} [status_detail] */
  async end(run_status, status_detail = null) {
    if (this.attempt >= 0) {
      await this.endAttempt(run_status, REASONS[run_status]);
    }
    await this.state("SHUTTING_DOWN");
    await this.close({ run_status, status_detail });
  }

  /** The run's last word; the head ends the attempt with it, if one lives. @param {Record<string, unknown>} body */
  close(body) {
    return this.#post("end", body);
  }
}
