"""A session server over a real unix socket, whose behaviour each test chooses."""

from __future__ import annotations

import itertools
import json
import os
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Callable

import pytest

from trainhead import _notes, _session

PYTHON_DIR = Path(__file__).resolve().parent.parent
REPOSITORY = PYTHON_DIR.parent

# Long enough for a loaded machine; no test waits that long when it passes.
DEADLINE_S = 30.0

CONTEXT: dict[str, object] = {
    "run_id": "0197-run",
    "run_name": "mnist",
    "experiment": None,
    "trial": None,
    "world_size": 2,
    "rank": 1,
    "local_rank": 1,
    "local_world_size": 2,
    "node_rank": 0,
    "attempt": 3,
    "restart_count": 2,
    "storage_path": "/storage/default/0197-run",
    "grace_period_ms": 30_000,
    "config": {"lr": 0.1},
    "checkpoint": None,
    "stop": False,
    "a_field_of_a_later_release": 1,
}


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition that nothing announces, such as the end of a thread."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.005)


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    body: Any
    connection: int


class SessionServer:
    """The controller's side of the session, recorded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stop = False
        self.preemption: object = None
        self.requests: list[Request] = []
        self.changed = threading.Condition()
        self._answers: dict[str, tuple[int, bytes]] = {}
        self._open_gate = threading.Event()
        self._open_gate.set()
        self._hang_ups = 0
        self._report_index = itertools.count()
        self._connections: set[_Handler] = set()
        self.connections_opened = 0
        self._listener: _Listener | None = None
        self.listen()

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [r.body for r in self.requests if r.target == "/report"]

    @property
    def points(self) -> list[dict[str, Any]]:
        logs = [r.body for r in self.requests if r.target == "/log"]
        return [point for body in logs for point in body["points"]]

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that a request or a connection brings about."""
        with self.changed:
            assert self.changed.wait_for(condition, DEADLINE_S), f"waited in vain until {what}"

    def answer(self, path: str, status: int, body: object) -> None:
        """Answer requests to this path with this from now on; a str goes as it is."""
        text = body if isinstance(body, str) else json.dumps(body)
        self._answers[path] = status, text.encode()

    def answer_as_usual(self, path: str) -> None:
        del self._answers[path]

    def hold(self) -> None:
        """Take requests, but answer none until `release`."""
        self._open_gate.clear()

    def release(self) -> None:
        self._open_gate.set()

    def hang_up_on_next(self) -> None:
        """Close the connection of the next request without an answer."""
        self._hang_ups += 1

    def close_connections(self) -> None:
        """Close what is connected, as a server does with idle connections."""
        with self.changed:
            for handler in self._connections:
                handler.shutdown()

    def open_connections(self) -> int:
        return len(self._connections)

    def listen(self) -> None:
        self.path.unlink(missing_ok=True)
        self._listener = _Listener(str(self.path), _Handler)
        self._listener.session = self
        threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def die(self) -> None:
        """Listen no more and close all connections, as the end of the process would."""
        if self._listener is not None:
            self._listener.shutdown()
            self._listener.server_close()
            self._listener = None
        self.release()
        self.close_connections()
        self.wait_until(lambda: not self._connections, "all connections are closed")

    def handle(self, request: Request) -> tuple[int, bytes] | None:
        with self.changed:
            if self._hang_ups:
                self._hang_ups -= 1
                return None
            self.requests.append(request)
            self.changed.notify_all()
        self._open_gate.wait(DEADLINE_S)
        path = request.target.partition("?")[0]
        if path in self._answers:
            return self._answers[path]
        return 200, json.dumps(self._usual_answer(path, request.body)).encode()

    def _usual_answer(self, path: str, body: Any) -> dict[str, object]:
        if path == "/context":
            return CONTEXT
        if path == "/log":
            return {"accepted": len(body["points"]), "stop": self.stop}
        if path == "/finish":
            return {}
        assert path == "/report"
        return {
            "stop": self.stop,
            "preemption": self.preemption,
            "checkpoint": None,
            "report_index": next(self._report_index),
        }

    def connected(self, handler: _Handler) -> int:
        with self.changed:
            self._connections.add(handler)
            self.connections_opened += 1
            self.changed.notify_all()
            return self.connections_opened

    def disconnected(self, handler: _Handler) -> None:
        with self.changed:
            self._connections.discard(handler)
            self.changed.notify_all()


class _Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
    session: SessionServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave out the traceback: clients that go away are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def handle(self) -> None:
        self._number = self.server.session.connected(self)
        try:
            super().handle()
        finally:
            self.server.session.disconnected(self)

    def shutdown(self) -> None:
        self.connection.shutdown(2)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        body = json.loads(content) if content else None
        answer = self.server.session.handle(
            Request(self.command, self.path, body, self._number),
        )
        if answer is None:
            self.close_connection = True
            return
        status, text = answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: pytest shows what failed."""


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No controller, as with plain ``python3 train.py``."""
    for name in list(os.environ):
        if name.startswith(("TRAINHEAD_", "TORCHELASTIC_")) and name != "TRAINHEAD_BIN":
            monkeypatch.delenv(name)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"):
        monkeypatch.delenv(name, raising=False)
    # What a test spools is not for the data directory of whoever runs the tests.
    monkeypatch.setenv("TRAINHEAD_DATA_DIR", str(tmp_path / "data"))
    _start_anew()
    yield
    _start_anew()


@pytest.fixture
def server(outside: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionServer]:
    """A controller, and this process as its rank 1."""
    # Not tmp_path: a unix socket's path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="th-") as directory:
        server = SessionServer(Path(directory) / "session.sock")
        monkeypatch.setenv("TRAINHEAD_SESSION", f"unix:{server.path}")
        monkeypatch.setenv("RANK", "1")
        yield server
        _start_anew()
        server.die()


def _start_anew() -> None:
    """Be as a process that has not called the package yet."""
    if _session._session is not None:
        _session._session._sender.close(timeout_s=1.0)
        _session._session._transport.close()
    _session._abandon_session()
    _notes._noted.clear()


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run Python source in a process of its own, with the session of this one."""

    def run(source: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "train.py"
        script.write_text(source)
        return subprocess.run(
            [sys.executable, "-W", "error", str(script)],
            env={**os.environ, "PYTHONPATH": str(PYTHON_DIR)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S * 2,
        )

    return run
