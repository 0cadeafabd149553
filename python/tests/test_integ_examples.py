"""The examples that need libraries, as their pages say to start them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY
from integ_support import TRAINING_TIMEOUT_S, Head, head, interpreter, said

__all__ = ["head"]

pytestmark = pytest.mark.integration

EXAMPLES = REPOSITORY / "examples"


def test_ddp_goes_on_from_its_checkpoint_when_a_rank_is_killed(head: Head) -> None:
    options: list[object] = ["--workers", 2, "--max-failures", 1, "--name", "ddp"]
    done = head.launch(
        options, interpreter("torch"), EXAMPLES / "ddp.py", "--epochs", 6, "--fail-at", 4
    )
    assert done.returncode == 0, said(done)
    run = head.run("ddp")
    assert run["run_status"] == "FINISHED"
    first, second = run["attempts"]
    assert (first["end_reason"], second["end_reason"]) == ("worker_failed", "completed")
    assert first["workers"][1]["exit"]["signal"] == "SIGKILL"
    # Epochs 1 to 3 are the first attempt's, and none of them was trained again.
    accuracy = head.points(run, "test/accuracy")
    assert [epoch for epoch, _ in accuracy] == [1, 2, 3, 4, 5, 6]
    assert accuracy[-1][1] > 0.9
    assert "begins with epoch 4" in done.stdout


def test_ddp_runs_under_torchrun_too(head: Head) -> None:
    done = subprocess.run(
        [
            *(interpreter("torch"), "-m", "torch.distributed.run", "--standalone"),
            *("-r", "1", "-t", "1", "--nproc_per_node", "2"),
            *(EXAMPLES / "ddp.py", "--epochs", "3"),
        ],
        env=head.environment(),
        cwd=head.data_dir.parent,
        capture_output=True,
        text=True,
        timeout=TRAINING_TIMEOUT_S,
    )
    assert done.returncode == 0, said(done)
    assert "epoch 3/3" in done.stdout
    assert head.runs() == []


def test_two_classifiers_are_two_runs(head: Head) -> None:
    done = head.train(interpreter("ml"), EXAMPLES / "trees.py", "--epochs", 5, "--rounds", 5)
    assert done.returncode == 0, said(done)
    linear, trees = head.run("digits-linear"), head.run("digits-trees")
    assert linear["run_status"] == trees["run_status"] == "FINISHED"
    assert linear["tags"]["data"] == trees["tags"]["data"] == "digits"
    assert len(head.points(linear, "test/accuracy")) == 5
    assert len(head.points(trees, "validation_0/merror")) == 5


def test_ray_s_script_appears_with_its_two_attempts(head: Head, tmp_path: Path) -> None:
    done = head.train(
        interpreter("ray"),
        *(EXAMPLES / "ray_train.py", "--rounds", 6, "--fail-at", 4, "--storage", tmp_path / "s"),
        RAY_TRAIN_CALLBACKS="trainhead.ray.TrainHeadCallback",
    )
    assert done.returncode == 0, said(done)
    run = head.run("ray-digits")
    assert run["run_status"] == "FINISHED"
    assert [a["end_reason"] for a in run["attempts"]] == ["worker_failed", "completed"]
    assert "failure in round 4 that was asked for" in run["attempts"][0]["status_detail"]
    assert {"ray", "xgboost"} <= set(run["framework_versions"])
    errors = head.points(run, "test-merror")
    assert len(errors) >= 6
    assert errors[-1][1] < 0.3
