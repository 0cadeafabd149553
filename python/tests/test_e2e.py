"""The package against the real controller: `trainhead run` with real workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import DEADLINE_S, PYTHON_DIR, REPOSITORY

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("outside")]


@pytest.fixture(scope="session")
def binary() -> Path:
    path = Path(os.environ.get("TRAINHEAD_BIN") or REPOSITORY / "target" / "debug" / "trainhead")
    if not os.access(path, os.X_OK):
        pytest.fail(f"no trainhead at {path}: build it (cargo build) or set TRAINHEAD_BIN")
    return path


def trainhead(binary: Path, data_dir: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    first, *rest = map(str, arguments)
    return subprocess.run(
        [str(binary), first, "--data-dir", str(data_dir), *rest],
        env={**os.environ, "PYTHONPATH": str(PYTHON_DIR)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 4,
    )


def run(
    binary: Path, data_dir: Path, name: str, *command: object
) -> subprocess.CompletedProcess[str]:
    """Run with two workers."""
    options = ("--port", 0, "--workers", 2, "--name", name)
    return trainhead(binary, data_dir, "run", *options, "--", sys.executable, *command)


def show(binary: Path, data_dir: Path, name: str) -> Any:
    done = trainhead(binary, data_dir, "show", name, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_reports_logs_and_context_of_two_workers(binary: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        """
import dataclasses, json, pathlib, sys
import trainhead

context = trainhead.get_context()
for step in range(20):
    trainhead.log({"batch": {"loss": 1 / (step + 1)}}, step=step)
    trainhead.report({"loss": 2 / (step + 1), "odd": float("nan")}, step=step)
path = pathlib.Path(sys.argv[1]) / f"context_{context.rank}.json"
path.write_text(json.dumps(dataclasses.asdict(context)))
"""
    )
    data_dir = tmp_path / "data"
    done = run(binary, data_dir, "two-workers", script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "trainhead:" not in done.stdout, "rank 0 had to note something"

    shown = show(binary, data_dir, "two-workers")
    assert shown["run_status"] == "FINISHED"
    assert [worker["exit"]["code"] for worker in shown["workers"]] == [0, 0]
    assert shown["last_metrics"]["loss"] == pytest.approx(0.1)
    assert shown["last_metrics"]["odd"] == "NaN"
    assert shown["last_metrics"]["batch/loss"] == pytest.approx(0.05)
    assert shown["evidence"]["progress"]["last_step"] == 19

    for rank in range(2):
        context = json.loads((tmp_path / f"context_{rank}.json").read_text())
        assert (context["rank"], context["world_size"]) == (rank, 2)
        assert (context["local_rank"], context["local_world_size"]) == (rank, 2)
        assert (context["attempt"], context["restart_count"]) == (0, 0)
        assert (context["run_id"], context["run_name"]) == (shown["id"], "two-workers")
        assert context["storage_path"]


def test_a_restart_goes_on_from_the_checkpoint(binary: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        """
import json, pathlib, sys, tempfile, time
import trainhead

context = trainhead.get_context()
checkpoint = trainhead.get_checkpoint()
start, weights = 0, []
if checkpoint:
    with checkpoint.as_directory() as directory:
        (mine,) = pathlib.Path(directory).rglob(f"weights_{context.rank}.json")
        weights = json.loads(mine.read_text())
    start = checkpoint.step + 1
    assert checkpoint.metrics["loss"] == 1 / start
    assert context.checkpoint.number == checkpoint.number
assert weights == list(range(start))
for step in range(start, 6):
    weights.append(step)
    with tempfile.TemporaryDirectory() as directory:
        (pathlib.Path(directory) / f"weights_{context.rank}.json").write_text(json.dumps(weights))
        trainhead.report(
            {"loss": 1 / (step + 1)},
            step=step,
            checkpoint=trainhead.Checkpoint.from_directory(directory),
        )
    if step == 3 and context.attempt == 0 and context.rank == 0:
        deadline = time.monotonic() + 60  # The other rank may be slower, and dies with this one.
        kept = trainhead.get_all_reported_checkpoints
        while not any(c.step >= 2 for c in kept("committed", timeout_s=0.05)):
            assert time.monotonic() < deadline
        sys.exit(9)
if context.rank == 0:
    kept = trainhead.get_all_reported_checkpoints("committed", timeout_s=20)
    print("START", start)
    print("KEPT", json.dumps([(c.step, c.attempt, c.state, c.latest) for c in kept]))
"""
    )
    options = ("--port", 0, "--workers", 2, "--name", "restarted", "--max-failures", 1)
    data_dir = tmp_path / "data"
    done = trainhead(binary, data_dir, "run", *options, "--", sys.executable, script)
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line[:1] in "SK")
    assert int(said["START"]) in (3, 4)
    kept = json.loads(said["KEPT"])
    assert kept[-1] == [5, 1, kept[-1][2], True]
    assert {state for _, _, state, _ in kept} <= {"COMMITTED", "VALIDATED", "DELETED"}
    assert show(binary, data_dir, "restarted")["run_status"] == "FINISHED"


def test_what_was_reported_before_a_failure_is_kept(binary: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        """
import os, signal, sys
import trainhead

reported = sys.argv[1]  # a named pipe: opening it waits for the other side
if trainhead.get_context().rank == 0:
    trainhead.report({"loss": 0.5}, step=3)
    os.close(os.open(reported, os.O_WRONLY))
    signal.pause()  # until rank 1's failure ends this one
os.close(os.open(reported, os.O_RDONLY))
sys.exit(7)
"""
    )
    data_dir = tmp_path / "data"
    pipe = tmp_path / "reported"
    os.mkfifo(pipe)
    done = run(binary, data_dir, "failing", script, pipe)
    assert done.returncode == 7, done.stderr
    shown = show(binary, data_dir, "failing")
    assert shown["run_status"] == "ERRORED"
    assert shown["first_failure"]["rank"] == 1
    assert shown["first_failure"]["exit_code"] == 7
    assert shown["last_metrics"]["loss"] == 0.5


def test_the_digits_example_trains_with_two_workers(binary: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    digits = REPOSITORY / "examples" / "digits.py"
    out = tmp_path / "digits.json"
    done = run(binary, data_dir, "digits", digits, "--epochs", 4, "--out", out)
    assert done.returncode == 0, done.stderr
    shown = show(binary, data_dir, "digits")
    assert shown["run_status"] == "FINISHED"
    assert shown["last_metrics"]["test/accuracy"] > 0.9
    assert out.exists()
