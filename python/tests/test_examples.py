"""The example that needs nothing to be installed, when a worker is killed in the middle."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from integ_support import Head, head, said

__all__ = ["head"]

pytestmark = pytest.mark.e2e

# In epoch 6: 45 batches and one test make 46 sums an epoch.
KILLED = f"""
import os, signal, sys
sys.path.insert(0, {str(REPOSITORY / "examples")!r})
import digits

add_up, calls = digits.Group.all_reduce, 0

def all_reduce(group, values):
    global calls
    calls += 1
    first = os.environ["TRAINHEAD_ATTEMPT"] == "0"
    if first and os.environ["RANK"] == "1" and calls == 5 * 46 + 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return add_up(group, values)

digits.Group.all_reduce = all_reduce
digits.main()
"""


def test_digits_goes_on_from_its_checkpoint_as_if_nothing_had_been(
    head: Head, tmp_path: Path
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    options: list[object] = ["--workers", 2, "--max-failures", 1]
    arguments: list[object] = ["--epochs", 7, "--checkpoint-every", 2]
    weights = []
    for name, source in (("killed", script), ("alone", REPOSITORY / "examples" / "digits.py")):
        out = tmp_path / f"{name}.json"
        done = head.launch(
            [*options, "--name", name], Path(sys.executable), source, *arguments, "--out", out
        )
        assert done.returncode == 0, said(done)
        if name == "killed":
            assert "rank 0: goes on after epoch 4" in done.stdout, said(done)
        weights.append(json.loads(out.read_text())["weights"])
    assert weights[0] == pytest.approx(weights[1], abs=1e-9)

    first, second = head.run("killed")["attempts"]
    assert (first["end_reason"], second["end_reason"]) == ("worker_failed", "completed")
    epochs = [value for _, value in head.points(head.run("killed"), "epoch")]
    assert epochs == [1, 2, 3, 4, 5, 6, 7]
