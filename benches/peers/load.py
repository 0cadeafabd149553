"""Servers in processes of their own, and what loads them: one thread that keeps connections."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEADLINE_S = 120.0
WARM_UP_S = 0.5
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A server in a process of its own, with what it has started."""

    def __init__(self, name: str, command: list[str], database: Path, ready: str) -> None:
        self.name = name
        self.database = database
        self.command = command
        self.ready = ready
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TRAINHEAD_")}
        environment.update(DO_NOT_TRACK="true", MLFLOW_DISABLE_TELEMETRY="true")
        begun = time.monotonic()
        with self.database.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, "--port", str(self.port)],
                env=environment,
                cwd=self.database.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while True:
            with contextlib.suppress(OSError):
                self.get(self.ready)
                break
            if self.process.poll() is not None or time.monotonic() > begun + DEADLINE_S:
                sys.exit(f"{self.name} does not start: {self.database.with_suffix('.log')}")
            time.sleep(0.01)
        self.start_s = time.monotonic() - begun

    def stop(self) -> None:
        """End it in order, and whatever of it is left."""
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(DEADLINE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def tree(self) -> list[Path]:
        """Its processes, below /proc."""
        found, ahead = [], [self.process.pid]
        while ahead:
            place = Path(f"/proc/{ahead.pop()}")
            with contextlib.suppress(OSError):
                for task in (place / "task").iterdir():
                    ahead += map(int, (task / "children").read_text().split())
                found.append(place)
        return found

    def cpu_s(self) -> float:
        """Processor time of its processes so far."""
        return sum(cpu_s(place) for place in self.tree())

    def memory_mib(self) -> float:
        """Memory of its processes; what some share counts once."""
        kib = 0
        for place in self.tree():
            with contextlib.suppress(OSError):
                lines = (place / "smaps_rollup").read_text().splitlines()
                kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return kib / 1024

    def used_bytes(self) -> int:
        """Size of its database without free pages."""
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            ((pages,),) = database.execute("pragma page_count")
            ((free,),) = database.execute("pragma freelist_count")
            ((size,),) = database.execute("pragma page_size")
        return int((pages - free) * size)

    def request(
        self,
        method: str,
        path: str,
        body: str = "",
        token: str = "",
        kind: str = "application/json",
    ) -> bytes:
        """Give the bytes of a request."""
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n"
        if token:
            head += f"authorization: Bearer {token}\r\n"
        if body:
            head += f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        return f"{head}\r\n{body}".encode()

    def get(self, path: str) -> bytes:
        """Give the good answer to a GET."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return bytes(answer.read())

    def post(self, path: str, body: object, token: str = "") -> Any:
        """Give the good answer to a POST."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            json.dumps(body).encode(),
            {"content-type": "application/json", "authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


class Window:
    """What a while of load has shown."""

    def __init__(self, server: Server, clients: list[Iterator[bytes]], seconds: float) -> None:
        self.latencies: list[float] = []
        self.failed: list[str] = []
        connections = [Connection(server.port, requests) for requests in clients]
        with selectors.DefaultSelector() as ready:
            for connection in connections:
                ready.register(connection.socket, selectors.EVENT_READ, connection)
                connection.send()
            begun = time.perf_counter() + WARM_UP_S
            end = begun + seconds
            before = None
            while True:
                events = ready.select(max(0.0, min(1.0, end - time.perf_counter())))
                now = time.perf_counter()
                if before is None and now >= begun:
                    before = (busy_s(), cpu_s(Path("/proc/self")), server.cpu_s())
                if now >= end:
                    break
                for key, _ in events:
                    connection = key.data
                    if not connection.read():
                        continue
                    if connection.status != 200 and connection.status != 201:
                        self.failed.append(connection.failure())
                    elif now >= begun:
                        self.latencies.append(now - connection.sent)
                    connection.send()
        after = (busy_s(), cpu_s(Path("/proc/self")), server.cpu_s())
        seconds = time.perf_counter() - begun
        busy, own, used = (b - a for a, b in zip(before or after, after))
        self.per_second = len(self.latencies) / seconds
        self.foreign = max(0.0, busy - own - used) / seconds
        self.cpu_ms = used * 1e3 / max(1, len(self.latencies))
        # What is on its way is let through, so that the next window does not find its rest.
        for connection in connections:
            connection.finish()

    def share_ms(self, percent: int) -> float:
        """Give the latency that so many percent do not exceed."""
        latencies = sorted(self.latencies) or [float("nan")]
        return latencies[min(len(latencies) - 1, len(latencies) * percent // 100)] * 1e3


class Connection:
    """A connection that sends one request after another."""

    def __init__(self, port: int, requests: Iterator[bytes]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.requests = requests
        self.status = 0
        self.buffer = bytearray()
        self.sent = 0.0

    def send(self) -> None:
        """Send the next request."""
        request = next(self.requests)
        self.buffer.clear()
        self.sent = time.perf_counter()
        self.socket.sendall(request)

    def read(self) -> bool:
        """Read what there is; whether the answer is whole."""
        piece = self.socket.recv(1 << 20)
        if not piece:
            sys.exit("a server closed a connection")
        self.buffer += piece
        head_end = self.buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return False
        self.status = int(self.buffer[9:12])
        head = bytes(self.buffer[:head_end]).lower()
        at = head.find(b"content-length:")
        if at < 0:
            return self.buffer.endswith(b"0\r\n\r\n")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0])
        return len(self.buffer) >= head_end + 4 + length

    def failure(self) -> str:
        """Say what was answered."""
        return f"{self.status} {bytes(self.buffer[-200:]).decode(errors='replace')}"

    def finish(self) -> None:
        """Wait for the last answer and close."""
        while not self.read():
            pass
        self.socket.close()


def busy_s() -> float:
    """Give how long all processors were busy."""
    user, nice, system, _, _, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split(None, 9)[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / TICKS


def cpu_s(process: Path) -> float:
    """Give how much processor time a process has used."""
    try:
        fields = (process / "stat").read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def free_port() -> int:
    """Give a port that nobody uses."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])
