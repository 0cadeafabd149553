"""Heads for tests: the real one, which can be killed and comes back, and faults before it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from conftest import DEADLINE_S, PYTHON_DIR, REPOSITORY, wait_until


def binary() -> Path:
    """The binary of TrainHead, which tests of the whole need."""
    path = Path(os.environ.get("TRAINHEAD_BIN") or REPOSITORY / "target" / "debug" / "trainhead")
    assert os.access(path, os.X_OK), f"no trainhead at {path}: build it, or set TRAINHEAD_BIN"
    return path


class RealHead:
    """`trainhead serve` over one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> RealHead:
        command = [str(binary()), "serve", "--port", "0", "--json", "--data-dir"]
        self._process = subprocess.Popen(
            [*command, str(self.data_dir)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = json.loads(self._process.stdout.readline())["url"]
        return self

    def end(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(DEADLINE_S)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def post(self, path: str, body: object, token: str | None = None) -> Any:
        headers = {"content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def run(self, name: str) -> Any:
        """The newest run of this name."""
        runs = self.get(f"/api/train/runs?q={quote(name)}&include=workers,attempts,evidence")
        return next(run for run in runs["train_runs"] if run["name"] == name)

    def events(self, run_id: str) -> list[Any]:
        events = self.get(f"/api/train/runs/{run_id}/events")["events"]
        assert isinstance(events, list)
        return events

    def points(self, run_id: str, key: str) -> tuple[list[int], list[Any]]:
        """Steps and values of rank 0, all of them."""
        path = f"/api/train/runs/{run_id}/metrics/series?key={key}&max_points=1000000"
        (series,) = self.get(path)["series"]
        assert series["count"] == len(series["step"])
        return series["step"], series["value"]


class Programs:
    """Python programs that a test starts; none outlives it."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, script: Path, *arguments: object, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(script), *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(PYTHON_DIR), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@contextmanager
def faults(head: RealHead) -> Iterator[Faults]:
    """A place before a head where a test can have things go wrong."""
    proxy = Faults(head)
    try:
        yield proxy
    finally:
        proxy.close()


class Faults:
    """Passes requests on to a head, or does what `mode` says with them.

    Modes: ``pass``; ``500``; ``429``, with a Retry-After; ``hang``, until the mode changes;
    ``lose``: passes it on, and breaks off in place of an answer.
    """

    def __init__(self, head: RealHead) -> None:
        self.head = head
        self.mode = "pass"
        self.seen: list[tuple[str, str]] = []  # mode and path
        self.changed = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.faults = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def switch(self, mode: str) -> None:
        with self.changed:
            self.mode = mode
            self.changed.notify_all()

    def wait_seen(self, mode: str, count: int = 1) -> None:
        def enough() -> bool:
            return sum(1 for seen, _ in self.seen if seen == mode) >= count

        wait_until(enough, f"{count} requests met {mode}")

    def close(self) -> None:
        self.switch("pass")
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    faults: Faults

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave out the traceback: clients that go away are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        faults = self.server.faults
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        with faults.changed:
            mode = faults.mode
            faults.seen.append((mode, self.path))
            if mode == "hang":
                faults.changed.wait_for(lambda: faults.mode != "hang", DEADLINE_S * 4)
                self.close_connection = True
                return
        if mode == "500":
            self._say(500, b"<h1>Oops</h1>", {})
        elif mode == "429":
            self._say(429, b"{}", {"Retry-After": "1"})
        else:
            status, content = self._pass_on(body)
            if mode == "lose":
                self.close_connection = True
            else:
                self._say(status, content, {"Content-Type": "application/json"})

    def _pass_on(self, body: bytes) -> tuple[int, bytes]:
        host = self.server.faults.head.url.partition("://")[2]
        connection = http.client.HTTPConnection(host, timeout=DEADLINE_S)
        headers = {"Content-Type": "application/json"}
        if self.headers["Authorization"]:
            headers["Authorization"] = self.headers["Authorization"]
        try:
            connection.request("POST", self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError:
            return 502, b"{}"
        finally:
            connection.close()

    def _say(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: pytest shows what failed."""


def wait_for_file(path: Path) -> None:
    wait_until(path.exists, f"{path.name} is there")


def wait_for_status(head: RealHead, name: str, status: str) -> Any:
    """Wait until a run has this status; the run."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            run = head.run(name)
            if run["run_status"] == status:
                return run
        except (StopIteration, urllib.error.URLError):
            run = None
        assert time.monotonic() < deadline, f"run {name} is not {status}: {run}"
        time.sleep(0.05)
