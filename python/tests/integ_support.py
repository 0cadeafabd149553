"""For the tests of integrations: a real head, and trainings by the libraries' own interpreters.

The libraries are large, so each lot has a virtual environment of its own, which `tests/run.sh
integrations` makes; the tests themselves run without any of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable
from urllib.parse import quote

import pytest
from conftest import PYTHON_DIR, REPOSITORY

# A library is imported from a cold disk, on a machine that compiles something else meanwhile.
TRAINING_TIMEOUT_S = 300.0


def interpreter(name: str) -> Path:
    """The Python of one of the environments: ml, torch or ray."""
    path = REPOSITORY / "target" / f"{name}-venv" / "bin" / "python"
    if not path.exists():
        pytest.skip(f"no {path}: `tests/run.sh integrations` makes it")
    return path


class Head:
    """A real head, asked over its API."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.binary = Path(
            os.environ.get("TRAINHEAD_BIN") or REPOSITORY / "target" / "debug" / "trainhead"
        )
        data_dir.mkdir(parents=True)
        self._log = (data_dir.parent / "head.log").open("wb")
        self._process = subprocess.Popen(
            [str(self.binary), "serve", "--data-dir", str(data_dir), "--port", "0"],
            stdout=self._log,
            stderr=self._log,
        )
        self.url = ""
        wait_until(self._answers, "the head answers")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(TRAINING_TIMEOUT_S)
        self._log.close()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.load(answer)

    def runs(self) -> list[Any]:
        found: list[Any] = self.get("/api/train/runs?include=workers,attempts,evidence")[
            "train_runs"
        ]
        return found

    def run(self, name: str) -> Any:
        """The one run of this name."""
        (run,) = [run for run in self.runs() if run["name"] == name]
        return run

    def points(self, run: Any, key: str) -> list[tuple[int, float]]:
        """The steps and values of one metric."""
        series = self.get(f"/api/train/runs/{run['id']}/metrics/series?key={quote(key, safe='')}")
        (one,) = series["series"]
        return list(zip(one["step"], one["value"]))

    def keys(self, run: Any) -> set[str]:
        found = self.get(f"/api/train/runs/{run['id']}/metrics")["metrics"]
        return {metric["key"] for metric in found}

    def environment(self) -> dict[str, str]:
        """That of a script which is to find this head, and nothing of the tester's own."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TRAINHEAD_", "RAY_", "TORCHELASTIC_"))
        }
        return {
            **kept,
            "PYTHONPATH": str(PYTHON_DIR),
            "TRAINHEAD_DATA_DIR": str(self.data_dir),
            "HOME": str(self.data_dir.parent),
        }

    def train(
        self, python: Path, script: Path, *arguments: object, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script as people do, without a launcher."""
        return self._call([python, script, *arguments], more)

    def launch(
        self, options: list[object], python: Path, script: Path, *arguments: object
    ) -> subprocess.CompletedProcess[str]:
        """Run it by `trainhead run`."""
        command = [self.binary, "run", *options, "--", python, script, *arguments]
        return self._call(command, {})

    def _call(
        self, command: list[object], more: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, command)),
            env={**self.environment(), **more},
            cwd=self.data_dir.parent,
            capture_output=True,
            text=True,
            timeout=TRAINING_TIMEOUT_S,
        )

    def _answers(self) -> bool:
        assert self._process.poll() is None, "the head ended at its start"
        try:
            self.url = json.loads((self.data_dir / "head.json").read_text())["url"]
            self.get("/healthz")
        except (OSError, ValueError, KeyError):
            return False
        return True


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TRAINING_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


def the_head(tmp_path: Path) -> Iterator[Head]:
    head = Head(tmp_path / "data")
    try:
        yield head
    finally:
        head.close()


# A fixture for `import`: conftest.py is for all tests, and these are few.
head = pytest.fixture(the_head, name="head")


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What to show when a training went wrong."""
    return f"exit code {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
