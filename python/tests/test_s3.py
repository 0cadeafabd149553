"""Checkpoints in an object store: real workers, the real binary, and a server that speaks S3."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DEADLINE_S, PYTHON_DIR, wait_until
from heads import binary

pytestmark = pytest.mark.e2e

BUCKET = "models"

# Attempt 0 fails behind its second checkpoint; the next one goes on from it. A big one is handed
# over only where the test says so.
SCRIPT = """
import os, pathlib, sys, tempfile
import trainhead

root = pathlib.Path(__file__).parent
context = trainhead.get_context()

def hand(step, size):
    with tempfile.TemporaryDirectory() as d:
        weights = os.urandom(1024) * (size // 1024)
        (pathlib.Path(d) / f"rank_{context.rank}.bin").write_bytes(weights)
        (pathlib.Path(d) / f"step_{context.rank}").write_text(str(step))
        made = trainhead.Checkpoint.from_directory(d)
        trainhead.report({"step": step}, step=step, checkpoint=made)

if (root / "big").exists() and context.attempt == 0:
    (root / f"handing_{context.rank}").touch()
    hand(1, 96 << 20)
    (root / "too-quick").touch()
    sys.exit(5)
checkpoint = trainhead.get_checkpoint()
start = 0
if checkpoint:
    with checkpoint.as_directory() as directory:
        found = [pathlib.Path(directory, f"step_{rank}").read_text() for rank in range(2)]
    (root / f"from_{context.rank}").write_text(f"{checkpoint.step} {found}")
    start = checkpoint.step + 1
for step in range(start, 3):
    hand(step, 9 << 20)
    if step == 1 and context.attempt == 0:
        sys.exit(9)
"""


class S3:
    """moto's server: objects are in its memory."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-c", "from moto.server import main; main()"]
        self._process = subprocess.Popen(
            [*command, "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers, "the server of S3 answers")
        self._ask("PUT", f"/{BUCKET}")

    def _ask(self, method: str, path: str) -> bytes:
        # Whose signature it is, moto does not care; without any it takes nobody's word.
        headers = {"authorization": "AWS test:test"}
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            content: bytes = answer.read()
        return content

    def _answers(self) -> bool:
        try:
            self._ask("GET", "/")
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def names(self) -> list[str]:
        found = ET.fromstring(self._ask("GET", f"/{BUCKET}?list-type=2"))
        return [key.text or "" for key in found.iter() if key.tag.endswith("}Key")]

    def manifests(self) -> list[Any]:
        names = [key for key in self.names() if key.endswith("/MANIFEST.json")]
        return [json.loads(self._ask("GET", f"/{BUCKET}/{name}")) for name in names]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(PYTHON_DIR),
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def close(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)


@pytest.fixture
def s3() -> Iterator[S3]:
    server = S3()
    yield server
    server.close()


class Runs:
    """`trainhead run` of the script, with its checkpoints in the bucket."""

    def __init__(self, s3: S3, place: Path) -> None:
        self.s3 = s3
        self.place = place
        (place / "train.py").write_text(SCRIPT)

    def start(self, command: str, *options: str) -> subprocess.Popen[str]:
        data_dir = str(self.place / "data")
        return subprocess.Popen(
            [str(binary()), command, "--data-dir", data_dir, *options],
            env=self.s3.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def begin(self, *options: str, storage: str = f"s3://{BUCKET}/runs") -> subprocess.Popen[str]:
        script = str(self.place / "train.py")
        worker = ("--", sys.executable, script)
        named = ("--port", "0", "--name", "s", "--workers", "2", "--storage", storage)
        return self.start("run", *named, *options, *worker)

    def done(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        said, _ = process.communicate(timeout=4 * DEADLINE_S)
        return process.returncode, said


def test_a_restart_goes_on_from_the_object_store(s3: S3, tmp_path: Path) -> None:
    runs = Runs(s3, tmp_path)
    code, said = runs.done(runs.begin("--max-failures", "1", "--keep-checkpoints", "1"))
    assert code == 0, said
    found = {(tmp_path / f"from_{rank}").read_text() for rank in range(2)}
    assert len(found) == 1
    step = int(found.pop().split(" ")[0])
    assert step in (0, 1)
    (manifest,) = s3.manifests()
    assert (manifest["step"], manifest["attempt"]) == (2, 1)
    assert sorted(file["path"] for file in manifest["files"]) == [
        "rank_0.bin",
        "rank_1.bin",
        "step_0",
        "step_1",
    ]
    code, said = runs.done(runs.start("checkpoints", "verify", "s"))
    assert (code, "step 2: whole" in said) == (0, True), said
    code, said = runs.done(runs.start("checkpoints", "get", "s", "latest", str(tmp_path / "copy")))
    assert code == 0, said
    assert (tmp_path / "copy" / "step_1").read_text() == "2"


def test_a_killed_controller_leaves_no_checkpoint_in_the_object_store(
    s3: S3, tmp_path: Path
) -> None:
    runs = Runs(s3, tmp_path)
    (tmp_path / "big").touch()
    killed = runs.begin()
    wait_until((tmp_path / "handing_0").exists, "rank 0 hands its shard over")
    wait_until(
        lambda: any("/checkpoint_" in key for key in s3.names()) or killed.poll() is not None,
        "something is on its way",
    )
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=DEADLINE_S)
    assert not (tmp_path / "too-quick").exists()
    assert s3.manifests() == []
    code, said = runs.done(runs.start("run", "--port", "0", "--resume", "s"))
    assert code == 0, said
    assert not (tmp_path / "from_0").exists(), "there was nothing to go on from"
    assert [manifest["attempt"] for manifest in s3.manifests()] == [1, 1, 1]
    whole = {key.rsplit("/", 1)[0] for key in s3.names() if key.endswith("/MANIFEST.json")}
    assert {key.rsplit("/", 1)[0] for key in s3.names() if "/checkpoint_" in key} == whole


def test_a_storage_that_cannot_be_used_is_said_at_once(s3: S3, tmp_path: Path) -> None:
    runs = Runs(s3, tmp_path)
    code, said = runs.done(runs.begin(storage="ftp://nowhere"))
    assert code != 0
    assert "ftp://nowhere" in said
