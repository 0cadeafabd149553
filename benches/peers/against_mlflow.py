"""MLflow's tracking server on SQLite beside the head: the same work, in turn, on one machine.

It installs MLflow from PyPI (some 850 MB) into a virtual environment: the one that
``TRAINHEAD_BENCH_VENV`` names and that is kept, or a temporary one. Both servers are loaded by this
program: keep-alive connections, one thread, bodies of which each is another one. That thread is
what limits the head, so that the ratios are the least that can be said; benches/head says more.
Median of the rounds (least and greatest), sides in turn, another one first in each round; "foreign"
is how many cores others used in the worst window, and a round is repeated, at most twice, if that
is more than 0.4. It asserts nothing: figures are read by people.

    cargo build --release && python3 benches/peers/against_mlflow.py [--rounds 3] [--seconds 3]

Options: --trainhead PATH (default target/release/trainhead), --mlflow SPEC (what pip installs,
default mlflow), --workers N (of MLflow's server, default its own), --clients N... (default 1 4 16),
--points N (of the series that is charted, default 100000).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import selectors
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_S = 120.0
WARM_UP_S = 0.5
FOREIGN = 0.4
TRIES = 3
TICKS = os.sysconf("SC_CLK_TCK")
KEYS = [f"train/metric_{i}" for i in range(10)]
STEPS = 100
# What a training that measures in float32 reports.
CHANCE = random.Random(17)
POOL = [repr(float.fromhex(f"0x1.{CHANCE.getrandbits(23) << 1:06x}p-2")) for _ in range(65_536)]


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


class Head(Server):
    """Our own."""

    def __init__(self, program: str, place: Path) -> None:
        data = place / "head"
        data.mkdir()
        command = [program, "serve", "--data-dir", str(data)]
        super().__init__("head", command, data / "trainhead.db", "/api/train/runs?page_size=1")
        self.tokens: dict[str, str] = {}

    def registrations(self) -> Iterator[bytes]:
        """Give requests of new runs."""
        for i in itertools.count():
            yield self.request("POST", "/api/train/runs", json.dumps(self.registration(f"run-{i}")))

    def registration(self, name: str) -> dict[str, object]:
        """Give what a new run is registered with."""
        return {
            "name": name,
            "controller": {"actor_id": "bench", "lease_ttl_ms": 3_600_000},
            "settings": {"lr": 0.1},
            "tags": {"team": "vision", "git": "0b55076", "purpose": "baseline"},
        }

    def new_run(self) -> str:
        """Register a run with an attempt; its id."""
        answer = self.post("/api/train/runs", self.registration("reports"))
        run, token = str(answer["run"]["id"]), str(answer["controller_token"])
        self.post(f"/api/train/runs/{run}/attempts", {"attempt_id": "a0", "num_workers": 1}, token)
        self.tokens[run] = token
        return run

    def reports(self, run: str, keys: list[str], steps: int) -> Iterator[bytes]:
        """Give requests of so many steps each."""
        begun = int(time.time() * 1000) - 100 * 24 * 3_600_000
        path, token = f"/api/train/runs/{run}/reports", self.tokens[run]
        for seq in itertools.count(1):
            first = (seq - 1) * steps
            numbers = range(first, first + steps)
            step = ",".join(map(str, numbers))
            times = ",".join([str(begun + n * 50) for n in numbers])
            columns = ",".join([f'"{key}":[{values(steps)}]' for key in keys])
            body = (
                f'{{"writer":"bench","seq":{seq},"columns":{{"step":[{step}],"time_ms":[{times}],'
                f'"metrics":{{{columns}}}}}}}'
            )
            yield self.request("POST", path, body, token)

    def end(self, run: str) -> None:
        """End a run."""
        path = f"/api/train/runs/{run}/end"
        self.post(path, {"run_status": "FINISHED"}, self.tokens[run])

    def chart(self, run: str, key: str) -> bytes:
        """Give a request of a series, thinned out to 1,000 points."""
        return self.request(
            "GET", f"/api/train/runs/{run}/metrics/series?key={key}&max_points=1000"
        )

    def page(self) -> bytes:
        """Give a request of 100 runs."""
        return self.request("GET", "/api/train/runs?page_size=100")


class Mlflow(Server):
    """MLflow's tracking server."""

    def __init__(self, venv: Path, place: Path, workers: int | None) -> None:
        data = place / "mlflow"
        data.mkdir()
        command = [str(venv / "bin/mlflow"), "server", "--host", "127.0.0.1"]
        command += ["--backend-store-uri", f"sqlite:///{data}/mlflow.db"]
        command += ["--default-artifact-root", str(data / "artifacts")]
        if workers:
            command += ["--workers", str(workers)]
        super().__init__("MLflow", command, data / "mlflow.db", "/health")

    def registrations(self) -> Iterator[bytes]:
        """Give requests of new runs."""
        for i in itertools.count():
            body = json.dumps(self.registration(f"run-{i}"))
            yield self.request("POST", "/api/2.0/mlflow/runs/create", body)

    def registration(self, name: str) -> dict[str, object]:
        """Give what a new run is made with."""
        tags = {"team": "vision", "git": "0b55076", "purpose": "baseline"}
        return {
            "experiment_id": "0",
            "run_name": name,
            "start_time": int(time.time() * 1000),
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }

    def new_run(self) -> str:
        """Make a run; its id."""
        answer = self.post("/api/2.0/mlflow/runs/create", self.registration("reports"))
        return str(answer["run"]["info"]["run_id"])

    def reports(self, run: str, keys: list[str], steps: int) -> Iterator[bytes]:
        """Give requests of so many steps each."""
        begun = int(time.time() * 1000) - 100 * 24 * 3_600_000
        for at in itertools.count():
            metrics = [
                f'{{"key":"{key}","value":{values(1)},"timestamp":{begun + step * 50},'
                f'"step":{step}}}'
                for step in range(at * steps, at * steps + steps)
                for key in keys
            ]
            body = f'{{"run_id":"{run}","metrics":[{",".join(metrics)}]}}'
            yield self.request("POST", "/api/2.0/mlflow/runs/log-batch", body)

    def end(self, run: str) -> None:
        """End a run."""
        self.post("/api/2.0/mlflow/runs/update", {"run_id": run, "status": "FINISHED"})

    def chart(self, run: str, key: str) -> bytes:
        """Give the request by which its pages get a series, thinned out to 1,000 points."""
        path = "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval"
        return self.request("GET", f"{path}?run_ids={run}&metric_key={key}&max_results=1000")

    def page(self) -> bytes:
        """Give a request of 100 runs."""
        body = json.dumps({"experiment_ids": ["0"], "max_results": 100})
        return self.request("POST", "/api/2.0/mlflow/runs/search", body)


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


def main() -> None:
    """Measure what there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--trainhead", default=str(ROOT / "target/release/trainhead"))
    parser.add_argument("--mlflow", default="mlflow")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--points", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        kept = os.environ.get("TRAINHEAD_BENCH_VENV")
        venv = installed(Path(kept) if kept else Path(place, "venv"), options.mlflow)
        trainhead = str(Path(options.trainhead).resolve())
        head = Head(trainhead, Path(place))
        stack.callback(lambda: head.stop())
        mlflow = Mlflow(venv, Path(place), options.workers)
        stack.callback(lambda: mlflow.stop())
        print(f"{version(venv)}; {subprocess.check_output([trainhead, '--version'], text=True)}")
        print("| | head | MLflow | ratio | foreign |\n|---|---|---|---|---|")
        sides: list[Head | Mlflow] = [head, mlflow]
        line("start to first answer, s", [[head.start_s], [mlflow.start_s]], 3)
        line("memory with nothing to do, MiB", [[side.memory_mib()] for side in sides], 1)
        charts(sides, options)
        for clients in options.clients:
            compare(
                f"registrations, clients: {clients}",
                sides,
                [[side.registrations() for _ in range(clients)] for side in sides],
                options,
                1,
            )
        for clients in options.clients:
            compare(
                f"metrics, {len(KEYS) * STEPS} a request, clients: {clients}, points",
                sides,
                [
                    [side.reports(side.new_run(), KEYS, STEPS) for _ in range(clients)]
                    for side in sides
                ],
                options,
                len(KEYS) * STEPS,
            )
        pages = [[itertools.repeat(side.page())] for side in sides]
        compare("list of 100 runs, clients: 1", sides, pages, options, 1)
        line("memory after all this, MiB", [[side.memory_mib()] for side in sides], 1)


def charts(sides: list[Head | Mlflow], options: argparse.Namespace) -> None:
    """Compare the size of one long series on disk, and the time to chart it."""
    key = KEYS[0]
    grown, requests = [], []
    for side in sides:
        run = side.new_run()
        before = rested(side)
        reports = side.reports(run, [key], 1000)
        for _ in range(options.points // 1000):
            connection = Connection(side.port, reports)
            connection.send()
            connection.finish()
            if connection.status not in (200, 201):
                sys.exit(f"{side.name}: {connection.failure()}")
        side.end(run)
        grown.append([(rested(side) - before) / options.points])
        requests.append([itertools.repeat(side.chart(run, key))])
    line(f"bytes a point on disk, {options.points} points", grown, 2)
    compare(f"{options.points} points to 1,000, clients: 1", sides, requests, options, 1)


def rested(side: Head | Mlflow) -> int:
    """Give the size of a database when its server has nothing left to do.

    The head is ended for it and started again, so that nothing is in its log.
    """
    begun = since = time.monotonic()
    used = side.cpu_s()
    while time.monotonic() < min(since + 2, begun + DEADLINE_S):
        time.sleep(0.05)
        now = side.cpu_s()
        # MLflow's workers look around all the time.
        if now > used + 0.02:
            since = time.monotonic()
        used = now
    if isinstance(side, Head):
        side.stop()
        size = side.used_bytes()
        side.start()
        return size
    return side.used_bytes()


def compare(
    what: str,
    sides: list[Head | Mlflow],
    clients: list[list[Iterator[bytes]]],
    options: argparse.Namespace,
    each: int,
) -> None:
    """Measure both sides in turn and print their lines."""
    rounds: list[list[Window]] = []
    for round_ in range(options.rounds):
        tries: list[list[Window]] = []
        while len(tries) < TRIES and (not tries or worst(tries[-1]) > FOREIGN):
            of_round = {}
            for i in range(len(sides)):
                at = (i + round_) % len(sides)
                of_round[at] = Window(sides[at], clients[at], options.seconds)
            tries.append([of_round[at] for at in range(len(sides))])
        rounds.append(min(tries, key=worst))
    windows = list(zip(*rounds))
    foreign = f"{max(map(worst, rounds)):.1f}"
    rates = [[window.per_second * each for window in of_side] for of_side in windows]
    line(f"{what}/s" if each > 1 else f"{what}, 1/s", rates, 0, foreign)
    for percent in (50, 99):
        shares = [[window.share_ms(percent) for window in of_side] for of_side in windows]
        line(f"the same, p{percent}, ms", shares, 2)
    line("the same, CPU a request, ms", [[w.cpu_ms for w in of_side] for of_side in windows], 3)
    for side, of_side in zip(sides, windows):
        failed = [failure for window in of_side for failure in window.failed]
        if failed:
            print(f"\n{side.name} refused {len(failed)} requests, such as: {failed[0]}\n")


def worst(windows: list[Window]) -> float:
    """Give how many cores others used at the most."""
    return max(window.foreign for window in windows)


def line(what: str, figures: list[list[float]], digits: int, foreign: str = "") -> None:
    """Print a line of the table; ratios are the greater by the less."""
    ratios = [a / b for a, b in zip(*figures) if a > 0 and b > 0]
    less = bool(ratios) and statistics.median(ratios) < 1
    if less:
        ratios = [1 / ratio for ratio in ratios]
    shown = f"{spread(ratios, 1)}{' less' if less else ''}" if ratios else ""
    cells = " | ".join(spread(of_side, digits) for of_side in figures)
    print(f"| {what} | {cells} | **{shown}** | {foreign} |", flush=True)


def spread(figures: list[float], digits: int) -> str:
    """Say the median, and the least and the greatest if there are several."""
    median = f"{statistics.median(figures):,.{digits}f}"
    if len(figures) == 1:
        return median
    return f"{median} ({min(figures):,.{digits}f}–{max(figures):,.{digits}f})"  # noqa: RUF001


def values(count: int) -> str:
    """Give so many values."""
    at = CHANCE.randrange(len(POOL) - count)
    return ",".join(POOL[at : at + count])


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


def installed(venv: Path, spec: str) -> Path:
    """Give an environment that has MLflow."""
    if not (venv / "bin/mlflow").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin/pip"), "install", "--quiet", spec], check=True)
    return venv


def version(venv: Path) -> str:
    """Say which MLflow it is."""
    return subprocess.check_output([str(venv / "bin/mlflow"), "--version"], text=True).strip()


if __name__ == "__main__":
    main()
