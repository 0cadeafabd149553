"""The example, as real processes with the environment that a launcher gives them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CONTEXT, DEADLINE_S, REPOSITORY, SessionServer

DIGITS = REPOSITORY / "examples" / "digits.py"
EPOCHS = 4

Process = subprocess.Popen[str]


@pytest.fixture
def without_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide numpy from the example if this Python has it."""
    hidden = tmp_path / "without_numpy"
    hidden.mkdir()
    (hidden / "numpy.py").write_text("raise ImportError('hidden by the test')\n")
    monkeypatch.setenv("PYTHONPATH", str(hidden))


def start(rank: int, world_size: int, port: int, *arguments: object) -> Process:
    return subprocess.Popen(
        [sys.executable, str(DIGITS), *map(str, arguments)],
        env={
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def train(world_size: int, *arguments: object) -> list[str]:
    """Train with that many ranks and return what each of them printed."""
    port = free_port()
    ranks = [start(rank, world_size, port, *arguments) for rank in range(world_size)]
    printed = []
    for process in ranks:
        stdout, stderr = process.communicate(timeout=DEADLINE_S * 4)
        assert process.returncode == 0, stderr
        printed.append(stdout)
    return printed


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def accuracy_in(output: str) -> float:
    return float(re.findall(r"test ([\d.]+)%", output)[-1])


def read_weights(path: Path) -> list[float]:
    weights: list[float] = json.loads(path.read_text())["weights"]
    return weights


@pytest.mark.usefixtures("outside", "without_numpy")
def test_any_number_of_ranks_trains_the_same_network(tmp_path: Path) -> None:
    alone = tmp_path / "1.json"
    train(1, "--epochs", EPOCHS, "--out", alone)
    for world_size in (2, 3):
        out = tmp_path / f"{world_size}.json"
        printed = train(world_size, "--epochs", EPOCHS, "--out", out)
        assert accuracy_in(printed[0]) > 90
        checksums = {re.findall(r"weights (\w{8}),", output)[0] for output in printed}
        assert len(checksums) == 1
        assert read_weights(out) == pytest.approx(read_weights(alone), abs=1e-9)


@pytest.mark.usefixtures("outside")
def test_numpy_gives_the_same_results(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("numpy")
    (output,) = train(1, "--epochs", EPOCHS, "--out", tmp_path / "numpy.json")
    assert "NumpyNetwork" in output
    request.getfixturevalue("without_numpy")
    (output,) = train(1, "--epochs", EPOCHS, "--out", tmp_path / "plain.json")
    assert "NumpyNetwork" not in output
    assert read_weights(tmp_path / "numpy.json") == pytest.approx(
        read_weights(tmp_path / "plain.json"), abs=1e-9
    )


@pytest.mark.usefixtures("outside")
def test_a_peer_that_is_killed_is_named() -> None:
    port = free_port()
    ranks = [start(rank, 3, port, "--epochs", 10_000, "--out", os.devnull) for rank in range(3)]
    try:
        assert ranks[2].stdout is not None
        while not ranks[2].stdout.readline().startswith("epoch"):
            assert ranks[2].poll() is None, "rank 2 ended before its first epoch"
        ranks[2].kill()
        _, stderr = ranks[0].communicate(timeout=DEADLINE_S)
        assert ranks[0].returncode == 1
        assert "peer gone: rank 2" in stderr
        _, stderr = ranks[1].communicate(timeout=DEADLINE_S)
        assert ranks[1].returncode == 1
        assert "peer gone: rank 0" in stderr
    finally:
        for process in ranks:
            process.kill()
            process.communicate()


def test_it_reports_epochs_and_logs_batches(server: SessionServer, tmp_path: Path) -> None:
    storage = tmp_path / "storage" / "run"
    context = {**CONTEXT, "rank": 0, "world_size": 1, "storage_path": str(storage)}
    server.answer("/context", 200, context)
    train(1, "--epochs", 2)
    assert [sent["step"] for sent in server.reports] == [45, 90]
    assert set(server.reports[0]["metrics"]) == {
        "epoch",
        "train/loss",
        "train/accuracy",
        "test/loss",
        "test/accuracy",
    }
    assert [point["step"] for point in server.points] == list(range(1, 91))
    assert {key for point in server.points for key in point["metrics"]} == {"batch/loss"}
    assert len(read_weights(storage / "digits.json")) == 64 * 32 + 32 + 32 * 10 + 10


def test_it_stops_when_asked_to(server: SessionServer, tmp_path: Path) -> None:
    server.answer("/context", 200, {**CONTEXT, "rank": 0, "world_size": 1})
    server.stop = True
    (output,) = train(1, "--epochs", 10_000, "--out", tmp_path / "never.json")
    assert output.count("epoch") == 1
    assert not (tmp_path / "never.json").exists()
