"""What all integrations share, under a framework that is five lines long: no library is needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from integ_support import Head, head, said

__all__ = ["head"]

pytestmark = pytest.mark.e2e

PLAIN = Path(sys.executable)

FRAMEWORK = """
import sys, time
import trainhead
from trainhead._recorder import Recorder

def train(steps=3, fails_at=None, recorder=None):
    recorder = recorder or Recorder("none", name="plain", tags={"team": "a"})
    recorder.begin({"steps": steps, "what": object()})
    for step in range(steps):
        if step == fails_at:
            raise ValueError("step 2 is one too many")
        recorder.log({"loss": 1 / (step + 1), "note": "text", "nan": float("nan")}, step=step)
    recorder.end()
    return recorder
"""


def run_script(head: Head, tmp_path: Path, source: str) -> Any:
    path = tmp_path / "train.py"
    path.write_text(FRAMEWORK + source)
    return head.train(PLAIN, path)


def test_what_cannot_be_stored_is_left_out_and_named(head: Head, tmp_path: Path) -> None:
    done = run_script(head, tmp_path, "train()")
    assert done.returncode == 0, said(done)
    run = head.run("plain")
    assert run["run_status"] == "FINISHED"
    assert run["tags"] == {"framework": "none", "team": "a"}
    assert run["settings"]["steps"] == 3
    assert head.points(run, "loss") == [(0, 1.0), (1, 0.5), (2, 1 / 3)]
    assert head.keys(run) == {"loss", "nan"}
    assert done.stderr.count("metric 'note' must be a number") == 1


@pytest.mark.parametrize(
    ("source", "code", "status", "detail"),
    [
        ("train(fails_at=2)", 1, "ERRORED", "ValueError: step 2 is one too many"),
        (
            "try: train(fails_at=2)\nexcept ValueError: pass",
            0,
            "ERRORED",
            "did not come to its end",
        ),
        ("Recorder('none', 'plain').begin(); sys.exit(3)", 3, "ERRORED", "exited with code 3"),
        ("train().end(ValueError('too late to be true'))", 0, "FINISHED", None),
    ],
)
def test_a_training_ends_as_it_did_whatever_the_program_does(
    source: str, code: int, status: str, detail: str | None, head: Head, tmp_path: Path
) -> None:
    done = run_script(head, tmp_path, source)
    assert done.returncode == code, said(done)
    run = head.run("plain")
    assert run["run_status"] == status
    assert detail is None or detail in run["status_detail"]


def test_another_training_is_another_run(head: Head, tmp_path: Path) -> None:
    source = """
recorder = train()
try:
    train(2, fails_at=1, recorder=recorder)
except ValueError:
    train(1, recorder=recorder)
"""
    done = run_script(head, tmp_path, source)
    assert done.returncode == 0, said(done)
    statuses = sorted(run["run_status"] for run in head.runs())
    assert statuses == ["ERRORED", "FINISHED", "FINISHED"]


def test_a_stop_that_is_asked_for_is_seen(head: Head, tmp_path: Path) -> None:
    source = """
import urllib.request
recorder = Recorder("none", name="plain")
recorder.begin()
run = trainhead.active_run()
url = f"{run.url.partition('/runs/')[0]}/api/train/runs/{run.id}/stop"
kind = {"Content-Type": "application/json"}
urllib.request.urlopen(urllib.request.Request(url, b'{"reason": "enough"}', kind)).close()
deadline = time.monotonic() + 60
while not recorder.stop_requested and time.monotonic() < deadline:
    recorder.log({"loss": 1})
    time.sleep(0.05)
recorder.end()
"""
    done = run_script(head, tmp_path, source)
    assert done.returncode == 0, said(done)
    run = head.run("plain")
    assert (run["run_status"], run["ended_by"]) == ("ABORTED", "user")
    assert "enough" in run["status_detail"]


def test_without_a_head_a_training_only_notes_it(head: Head, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(FRAMEWORK + "train(); print('trained')")
    done = head.train(PLAIN, path, TRAINHEAD_URL="http://127.0.0.1:9")
    assert done.returncode == 0, said(done)
    assert "trained" in done.stdout
    assert "trainhead sync" in done.stderr


def test_ranks_that_log_nothing_do_not_hang(head: Head, tmp_path: Path) -> None:
    """Rank 1 hears its framework's callbacks as rank 0 does, and that is a sign of life."""
    path = tmp_path / "train.py"
    path.write_text(
        FRAMEWORK
        + """
recorder = Recorder("none")
recorder.begin()
for step in range(50):
    recorder.log({"loss": 1}, step=step)
    time.sleep(0.1)
recorder.end()
"""
    )
    options: list[object] = ["--workers", 2, "--name", "two", "--hang-timeout", 3, "--tail", "0"]
    done = head.launch(options, PLAIN, path)
    assert done.returncode == 0, said(done)
    run = head.run("two")
    assert run["run_status"] == "FINISHED"
    assert len(head.points(run, "loss")) == 50
