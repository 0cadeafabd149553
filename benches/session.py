"""What a report costs from Python, in a run of the real program.

It asserts nothing: figures are read by people, and stand in README.md. `benches/session.rs` does
the same from Rust.

    cargo build --release && python3 benches/session.py [--trainhead PATH] [--reports 100000]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
METRICS = {f"train/metric_{i}": 0.125 * i for i in range(10)}
ROUND_TRIPS = 5_000
BATCH = 1_000


def work(reports: int) -> None:
    """Be the worker: measure, and leave the figures behind."""
    import trainhead
    from trainhead._transport import Transport

    for step in range(100):
        trainhead.report(METRICS, step=step)
    trips = []
    for step in range(ROUND_TRIPS):
        begun = time.perf_counter_ns()
        trainhead.report(METRICS, step=step)
        trips.append((time.perf_counter_ns() - begun) / 1000)
    trips.sort()

    calls = []
    for step in range(reports):
        begun = time.perf_counter_ns()
        trainhead.log(METRICS, step=step)
        calls.append((time.perf_counter_ns() - begun) / 1000)
    calls.sort()

    transport = Transport(os.environ["TRAINHEAD_SESSION"].partition(":")[2])
    bodies = []
    for first in range(0, reports, BATCH):
        points = [{"step": step, "metrics": METRICS} for step in range(first, first + BATCH)]
        bodies.append(json.dumps({"rank": 0, "points": points}).encode())
    begun = time.perf_counter()
    for body in bodies:
        status, _ = transport.request("POST", "/log", body, 60.0)
        assert status == 200, status
    took_s = time.perf_counter() - begun
    figures = {
        "report, median us": statistics.median(trips),
        "report, p99 us": trips[len(trips) * 99 // 100],
        "log, median us": statistics.median(calls),
        "log, p99 us": calls[len(calls) * 99 // 100],
        "batches of log, reports/s": len(bodies) * BATCH / took_s,
    }
    Path(os.environ["OUT"]).write_text(json.dumps(figures))


def main() -> None:
    """Start a run whose worker measures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainhead", default=str(ROOT / "target/release/trainhead"))
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.reports)
    with tempfile.TemporaryDirectory(prefix="th-") as directory:
        out = Path(directory) / "out"
        command = [
            options.trainhead,
            "run",
            "--port",
            "0",
            "--data-dir",
            directory,
            "--",
            sys.executable,
            __file__,
        ]
        command += ["--worker", "--reports", str(options.reports)]
        environment = dict(os.environ, OUT=str(out), PYTHONPATH=str(ROOT / "python"))
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        for name, value in json.loads(out.read_text()).items():
            print(f"{name}: {value:,.1f}")
    return None


if __name__ == "__main__":
    main()
