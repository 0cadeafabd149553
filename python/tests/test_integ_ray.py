"""Ray Train, the real one, watched by `trainhead.ray` from scripts that know nothing of it.

One Ray for all of it: to start one takes longer than to train.
"""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integ_support import TRAINING_TIMEOUT_S, Head, interpreter, said, the_head, wait_until

pytestmark = pytest.mark.integration

# Each run's end is taken as it comes: the next one begins all the same.
SCRIPT = """
import os, pathlib, signal, sys, time
import ray, ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

here = pathlib.Path(sys.argv[1])

def train(config):
    rank = ray.train.get_context().get_world_rank()
    for step in range(config["steps"]):
        marker = pathlib.Path(config["marker"])
        if config["fails"] and rank == 1 and step == 2 and not marker.exists():
            marker.touch()
            if config["fails"] == "hard":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("rank 1 does not like step 2")
        ray.train.report({"loss": 1 / (step + 1), "rank": rank, "note": "not a number"})
        if config["steps"] > 100:
            time.sleep(0.2)

def fit(name, steps=3, fails=False, max_failures=0):
    config = {"steps": steps, "fails": fails, "marker": str(here / name), "api_key": "hunter2"}
    trainer = DataParallelTrainer(
        train,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name=name,
            storage_path=str(here / "storage"),
            failure_config=FailureConfig(max_failures=max_failures),
        ),
    )
    try:
        trainer.fit()
        print("RAY SAYS", name, "finished", flush=True)
    except BaseException as error:
        print("RAY SAYS", name, type(error).__name__, flush=True)

ray.init(num_cpus=4, include_dashboard=False)
fit("well")
fit("once", fails=True, max_failures=1)
fit("fails", fails="hard")
fit("killed", steps=100_000)
fit("aborted", steps=100_000)
"""


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    yield from the_head(tmp_path_factory.mktemp("ray"))


@pytest.fixture(scope="module")
def ray_says(head: Head) -> dict[str, str]:
    """All runs of the script, and how Ray said that they ended."""
    directory = head.data_dir.parent
    script = directory / "train.py"
    script.write_text(SCRIPT)
    log = directory / "ray.log"
    with log.open("wb") as output:
        driver = subprocess.Popen(
            [interpreter("ray"), script, directory],
            env={
                **head.environment(),
                "RAY_TRAIN_CALLBACKS": "trainhead.ray.TrainHeadCallback",
                "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:

        def reports(name: str) -> bool:
            assert driver.poll() is None, log.read_text()[-8000:]
            found = [run for run in head.runs() if run["name"] == name]
            return bool(found) and (found[0]["evidence"]["progress"]["last_step"] or 0) >= 2

        wait_until(lambda: reports("killed"), "the run that will be killed reports")
        os.kill(head.run("killed")["evidence"]["process"]["pid"], signal.SIGKILL)
        wait_until(lambda: reports("aborted"), "the run that will be aborted reports")
        abort(head, head.run("aborted"))
        driver.wait(TRAINING_TIMEOUT_S)
    finally:
        driver.terminate()
        driver.wait(60)
    lines = [line.split() for line in log.read_text().splitlines() if line.startswith("RAY SAYS")]
    assert len(lines) == 5, log.read_text()[-8000:]
    return {line[2]: line[3] for line in lines}


def abort(head: Head, run: Any) -> None:
    request = urllib.request.Request(
        f"{head.url}/api/train/runs/{run['id']}/stop",
        data=b'{"reason": "wrong data"}',
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()


def exits(attempt: Any) -> list[Any]:
    return [worker["exit"] for worker in attempt["workers"]]


def test_a_run_that_ends_well(head: Head, ray_says: dict[str, str]) -> None:
    run = head.run("well")
    assert ray_says["well"] == "finished"
    assert (run["run_status"], run["ended_by"]) == ("FINISHED", "controller")
    (attempt,) = run["attempts"]
    assert (attempt["status"], attempt["end_reason"]) == ("FINISHED", "completed")
    workers = attempt["workers"]
    assert [worker["world_rank"] for worker in workers] == [0, 1]
    assert len({worker["pid"] for worker in workers}) == 2
    assert all(worker["node_id"] and worker["node_ip"] for worker in workers)
    assert [exit["code"] for exit in exits(attempt)] == [0, 0]
    assert head.points(run, "loss") == [(0, 1.0), (1, 0.5), (2, 1 / 3)]
    assert head.points(run, "rank") == [(0, 0), (1, 0), (2, 0)]
    assert head.keys(run) == {"loss", "rank"}


def test_its_settings_are_those_of_the_script(head: Head, ray_says: dict[str, str]) -> None:
    run = head.run("once")
    assert run["experiment"] == "once"
    assert run["settings"]["train_loop_config"]["steps"] == 3
    assert run["settings"]["train_loop_config"]["api_key"] == "***"
    assert run["settings"]["scaling_config"]["num_workers"] == 2
    assert run["settings"]["run_config"]["failure_config"]["max_failures"] == 1
    assert "ray" in run["framework_versions"]


def test_a_run_whose_worker_fails_once_has_two_attempts(
    head: Head, ray_says: dict[str, str]
) -> None:
    run = head.run("once")
    assert ray_says["once"] == "finished"
    assert run["run_status"] == "FINISHED"
    first, second = run["attempts"]
    assert (first["status"], first["end_reason"]) == ("ERRORED", "worker_failed")
    assert first["status_detail"] == "rank 1 failed: ValueError: rank 1 does not like step 2"
    assert "rank 1 does not like step 2" in exits(first)[1]["cause"]
    assert (second["status"], second["end_reason"]) == ("FINISHED", "completed")
    assert {w["pid"] for w in first["workers"]}.isdisjoint(w["pid"] for w in second["workers"])
    assert run["num_failures"]["worker"] == 1


def test_a_run_whose_worker_is_killed_is_errored(head: Head, ray_says: dict[str, str]) -> None:
    run = head.run("fails")
    assert ray_says["fails"] == "WorkerGroupError"
    assert (run["run_status"], run["ended_by"]) == ("ERRORED", "controller")
    assert "The actor died" in run["status_detail"]
    failure = run["first_failure"]
    assert (failure["rank"], failure["attempt"]) == (1, 0)
    assert "The actor died" in failure["message"]
    assert failure["pid"] == run["attempts"][0]["workers"][1]["pid"]


def test_a_run_whose_controller_is_killed_is_aborted_by_trainhead(
    head: Head, ray_says: dict[str, str]
) -> None:
    run = head.run("killed")
    assert ray_says["killed"] != "finished"
    assert (run["run_status"], run["ended_by"]) == ("ABORTED", "reconciler")
    (attempt,) = run["attempts"]
    assert (attempt["status"], attempt["end_reason"]) == ("ABORTED", "controller_lost")
    assert {worker["status"] for worker in attempt["workers"]} == {"DEAD"}
    assert run["noticed_at_ms"] - run["end_time_ms"] < 10_000


def test_a_run_that_is_aborted_in_trainhead_is_aborted_in_ray(
    head: Head, ray_says: dict[str, str]
) -> None:
    run = head.run("aborted")
    assert ray_says["aborted"] != "finished"
    assert (run["run_status"], run["ended_by"]) == ("ABORTED", "user")
    assert run["status_detail"] == "aborted: wrong data"
    (attempt,) = run["attempts"]
    assert (attempt["status"], attempt["end_reason"]) == ("ABORTED", "stopped")


HOOKS = """
import inspect, time
from types import SimpleNamespace
from trainhead._ray_run import RayRun
from trainhead.ray import TrainHeadCallback

def call_all(callback):
    called = 0
    for name, hook in inspect.getmembers(callback, inspect.ismethod):
        if name in vars(TrainHeadCallback) and name.startswith(("after_", "before_")):
            hook(*(object() for _ in inspect.signature(hook).parameters))
            called += 1
    return called

callback = TrainHeadCallback()
print(call_all(callback), "hooks without a run")
run_config = SimpleNamespace(
    name="x", storage_path="/x", failure_config=None, checkpoint_config=None
)
context = SimpleNamespace(
    run_id="r", run_config=run_config, train_loop_config=None, scaling_config=None,
    backend_config=None,
)
callback._run = RayRun(context, actor_id="a", job_id="j", head="127.0.0.1:9", data_dir=None)
started = time.monotonic()
print(call_all(callback), "hooks with one")
assert time.monotonic() - started < 9
"""


def test_no_failure_of_ours_reaches_ray(tmp_path: Path, head: Head) -> None:
    """Whatever a later Ray hands over, and whatever becomes of our files."""
    script = tmp_path / "hooks.py"
    script.write_text(HOOKS)
    nowhere = tmp_path / "a-file"
    nowhere.touch()
    done = head.train(interpreter("ray"), script, TRAINHEAD_DATA_DIR=str(nowhere))
    assert done.returncode == 0, said(done)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["9", "9"]
