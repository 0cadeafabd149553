// Who uses what of a node: resources, GPUs, runs; and what nobody said stays unknown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { amounts, gpusOf, ranksOf, resourcesOf, runsOn } from "../../../static/js/model/node_use.js";

/** @param {number} world_rank @param {string[]} gpu_ids @param {string} [run_id] */
const worker = (world_rank, gpu_ids, run_id = "r") => ({
  run_id,
  attempt: 2,
  world_rank,
  pid: world_rank === 3 ? null : 100 + world_rank,
  gpu_ids,
});
/** @param {number} index @param {number | null} utilization_percent */
const gpu = (index, utilization_percent) => ({
  index,
  name: "NVIDIA H100",
  utilization_percent,
  memory_used_bytes: 60e9,
  memory_total_bytes: 80e9,
});
/** @type {import("../../../static/js/types.js").Node} */
const NODE = {
  node_id: "gpu-box",
  node_ip: "10.0.0.7",
  is_head: true,
  capacity: { licence: 1, GPU: 3, CPU: 64 },
  reserved: { GPU: 3, CPU: 8 },
  free: { licence: 1, GPU: 0, CPU: 56 },
  gpu_ids: ["0", "1", "2"],
  reservations: [
    { run_id: "r", num_workers: 2, resources: { CPU: 8, GPU: 2 }, gpu_ids: ["0", "1"] },
    { run_id: "placed", num_workers: 1, resources: { GPU: 1 }, gpu_ids: ["10"] },
  ],
  workers: [worker(3, ["1"]), worker(0, ["0"])],
  devices: {
    cpu_count: 64,
    cpu_model: "x",
    cpu_percent: 12,
    memory_total_bytes: 1e12,
    memory_available_bytes: 5e11,
    gpus: [gpu(0, 97), gpu(2, null)],
  },
};

test("resources come CPU and GPU first, and what nobody said is not zero", () => {
  assert.deepEqual(
    resourcesOf(NODE).map((r) => [r.name, r.capacity, r.reserved, r.free]),
    [
      ["CPU", 64, 8, 56],
      ["GPU", 3, 3, 0],
      ["licence", 1, 0, 1],
    ],
  );
  assert.deepEqual(resourcesOf({ capacity: {}, reserved: { CPU: 1 }, free: {} }), [
    { name: "CPU", capacity: null, reserved: 1, free: null },
  ]);
  assert.equal(amounts({ GPU: 2, CPU: 0.5, licence: 0 }), "0.5 CPU, 2 GPU");
});

test("each GPU says who is on it with which ranks, what it is used, and which are free", () => {
  const cells = gpusOf(NODE);
  assert.deepEqual(
    cells.map((c) => [c.id, c.users, c.measured?.utilization_percent]),
    [
      ["0", [{ run_id: "r", ranks: "rank 0" }], 97],
      ["1", [{ run_id: "r", ranks: "rank 3" }], undefined],
      ["2", [], null],
      ["10", [{ run_id: "placed", ranks: "" }], undefined],
    ],
  );
});

test("workers are told by run, with ranks as ranges and pids by rank", () => {
  const [r, placed] = runsOn(NODE);
  assert.deepEqual(r, {
    run_id: "r",
    attempt: 2,
    workers: 2,
    ranks: "ranks 0, 3",
    pids: "rank 0: pid 100\nrank 3: pid unknown",
    reserved: "8 CPU, 2 GPU",
    gpus: "0, 1",
  });
  assert.deepEqual(
    [placed.attempt, placed.ranks, placed.gpus],
    [null, "room for 1 worker, none started", "10"],
  );
  assert.equal(ranksOf([2, 1, 0, 5, 5]), "ranks 0–2, 5");
  assert.equal(ranksOf([]), "");
});
