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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from load import DEADLINE_S, Connection, Server, Window

ROOT = Path(__file__).resolve().parent.parent.parent
FOREIGN = 0.4
TRIES = 3
KEYS = [f"train/metric_{i}" for i in range(10)]
STEPS = 100
# What a training that measures in float32 reports.
CHANCE = random.Random(17)
POOL = [repr(float.fromhex(f"0x1.{CHANCE.getrandbits(23) << 1:06x}p-2")) for _ in range(65_536)]


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
        pages: list[list[Iterator[bytes]]] = [[itertools.repeat(side.page())] for side in sides]
        compare("list of 100 runs, clients: 1", sides, pages, options, 1)
        line("memory after all this, MiB", [[side.memory_mib()] for side in sides], 1)


def charts(sides: list[Head | Mlflow], options: argparse.Namespace) -> None:
    """Compare the size of one long series on disk, and the time to chart it."""
    key = KEYS[0]
    grown: list[list[float]] = []
    requests: list[list[Iterator[bytes]]] = []
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
