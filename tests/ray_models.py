"""Ray's two views of a real head, read with Ray's own models: `tests/run.sh ray`.

No Ray cluster is started; of the package only the models that Ray's dashboard answers with are
used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from pydantic import BaseModel
from ray.train._internal.state import schema as v1
from ray.train.v2._internal.state import schema as v2

REPOSITORY = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("TRAINHEAD_BIN") or REPOSITORY / "target" / "debug" / "trainhead")
DEADLINE_S = 60.0

VIEWS: dict[str, type[BaseModel]] = {
    "/api/train/v2/runs": v1.TrainRunsResponse,
    "/api/train/v2/runs/v1": v2.TrainRunsResponse,
}


class Head:
    """`trainhead serve` on a directory of its own."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        command = [BINARY, "serve", "--json", "--port", "0", "--data-dir", data_dir]
        self.log = data_dir / "head.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]

    def stop(self) -> None:
        """End it as an operator would."""
        self.process.terminate()
        self.process.wait(DEADLINE_S)

    def get(self, path: str) -> bytes:
        """Read a body as it is."""
        with urllib.request.urlopen(self.url + path, timeout=DEADLINE_S) as answer:
            body: bytes = answer.read()
            return body

    def post(self, path: str, body: object, token: str = "") -> Any:
        """Say something, with the token of a controller."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def run(self, name: str, source: str, *options: str) -> subprocess.Popen[bytes]:
        """Start `trainhead run` with two workers of this Python source."""
        command = [BINARY, "run", "--data-dir", self.data_dir, "--name", name, "--workers", "2"]
        return subprocess.Popen(
            [*command, *options, "--", sys.executable, "-c", source],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def shown(self, name: str) -> Any:
        """Find the run of this name as TrainHead itself lists it; None if there is none yet."""
        runs = json.loads(self.get("/api/train/runs"))["train_runs"]
        return next((run for run in runs if run["name"] == name), None)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look again until it is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


def read(head: Head, path: str, model: type[BaseModel]) -> dict[str, str]:
    """Read a view with Ray's model; the status of each run by its name."""
    body = head.get(path)
    # Strict: a number is a number. Ray's model writes the same text again, with every key in its
    # place; what Ray does not know would be missing there.
    answer = model.model_validate_json(body, strict=True)
    ours, theirs = (
        json.loads(text, object_pairs_hook=list) for text in (body, answer.model_dump_json())
    )
    for one, other in zip(ours[0][1], theirs[0][1]):
        assert one == other, f"{path}\n ours  {json.dumps(one)}\n Ray's {json.dumps(other)}"
    assert ours == theirs
    runs = json.loads(body)["train_runs"]
    return {run["name"]: run.get("run_status") or run["status"] for run in runs}


def produce(head: Head) -> None:
    """Make a run of every kind."""
    finished = head.run("finished", "pass", "--tag", "team:nlp")
    assert finished.wait(DEADLINE_S) == 0
    errored = head.run("errored", "raise SystemExit(7)", "--max-failures", "1")
    assert errored.wait(DEADLINE_S) == 7
    killed = head.run("killed", "import signal; signal.pause()")
    wait_until(
        lambda: (head.shown("killed") or {}).get("workers"), "the workers of a run were there"
    )
    killed.kill()
    killed.wait(DEADLINE_S)

    settings = {"lr": 1e-3, "deep": {"a": {"b": {"c": 1}}}, "list": [1, None, "x", {"y": {}}]}
    registered = head.post(
        "/api/train/runs",
        {
            "name": "live",
            "job_id": "slurm-17",
            "controller": {"actor_id": "controller", "lease_ttl_ms": 3_600_000},
            "settings": settings,
            "datasets": [{"name": "train", "dataset_uuid": "u", "dataset_name": None}],
            "framework_versions": {"torch": "2.6.0"},
            "tags": {"key": "value"},
        },
    )
    run = f"/api/train/runs/{registered['run']['id']}"
    token = registered["controller_token"]
    for attempt, size in (("a0", 2), ("a1", 1)):
        workers = [
            {
                "actor_id": f"{attempt}-{rank}",
                "world_rank": rank,
                "node_id": "node",
                "node_ip": "10.0.0.1",
                "gpu_ids": ["0", "GPU-5f2c"],
                "resources": {"CPU": 4, "GPU": 1, "note": "not a number"},
            }
            for rank in range(size)
        ]
        head.post(f"{run}/attempts", {"attempt_id": attempt, "num_workers": size}, token)
        head.post(f"{run}/attempts/{attempt}/running", {"workers": workers}, token)
        if attempt == "a0":
            end = {"status": "FINISHED", "end_reason": "resized"}
            head.post(f"{run}/attempts/{attempt}/end", end, token)
    head.post("/api/train/runs", {"name": "pending", "controller": {"actor_id": "nobody"}})


def look_at_lists(head: Head) -> None:
    """Read all runs and a page, in both views."""
    ended = {"killed": "ABORTED", "errored": "ERRORED", "finished": "FINISHED"}
    for (path, model), pending in zip(VIEWS.items(), ("RUNNING", "INITIALIZING")):
        statuses = read(head, path, model)
        assert statuses == {"pending": pending, "live": "RUNNING", **ended}, statuses
        page: Any = model.model_validate_json(head.get(f"{path}?page_size=2"))
        assert [run.name for run in page.train_runs] == ["pending", "live"]
        print(f"Ray {ray.__version__} reads {path}: {statuses}")


def look_at_runs(head: Head) -> None:
    """Read what Ray itself would say otherwise."""
    answer: Any = v2.TrainRunsResponse.model_validate_json(head.get("/api/train/v2/runs/v1"))
    runs = {run.name: run for run in answer.train_runs}
    attempts = {name: [a.status.value for a in run.attempts] for name, run in runs.items()}
    assert attempts["live"] == ["ABORTED", "RUNNING"], attempts
    assert attempts["errored"] == ["ERRORED", "ERRORED"], attempts
    jobs = {name: run.job_details.status.value for name, run in runs.items()}
    assert jobs["killed"] == jobs["errored"] == "FAILED", jobs
    killed = runs["killed"]
    assert killed.end_time_ns is not None
    assert [w.status.value for w in killed.attempts[0].workers] == ["DEAD", "DEAD"]


def main() -> None:
    """Look at the empty list, then at runs of every kind."""
    with tempfile.TemporaryDirectory(prefix="trainhead-ray-") as directory:
        head = Head(Path(directory))
        try:
            for path, model in VIEWS.items():
                assert read(head, path, model) == {}
            produce(head)
            look_at_lists(head)
            look_at_runs(head)
        except BaseException:
            print(head.log.read_text(), file=sys.stderr)
            raise
        finally:
            head.stop()
    # Empty list, full list and page of each view, and the runs.
    print(f"{3 * len(VIEWS) + 1} passed")


if __name__ == "__main__":
    main()
