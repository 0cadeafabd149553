"""What the Python client costs a training loop: `log` of a run on its own, before heads that fail.

For each state of the head a process of its own makes 100,000 calls of `log` and says how long they
took and by how much its memory grew. It asserts nothing: figures are read by people, and stand in
README.md.

    cargo build --release && python3 benches/client.py [--calls 100000] [--metrics 1 10]

Options: --trainhead PATH (default target/release/trainhead), --python PATH (default this one).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 300.0

LOGS = """
import json, os, resource, sys, time
import trainhead

calls, keys = int(sys.argv[1]), int(sys.argv[2])
run = trainhead.init("bench", head=sys.argv[3])
metrics = {f"metric/{i}": i * 0.37 for i in range(keys)}
took = [0.0] * calls
clock = time.perf_counter
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun = clock()
for step in range(calls):
    at = clock()
    run.log(metrics, step=step)
    took[step] = clock() - at
whole = clock() - begun
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
took.sort()
at = clock()
run.finish(float(sys.argv[4]))
print(json.dumps({
    "p50_us": took[calls // 2] * 1e6,
    "p99_us": took[calls * 99 // 100] * 1e6,
    "p999_us": took[calls * 999 // 1000] * 1e6,
    "max_ms": took[-1] * 1e3,
    "calls_per_s": calls / whole,
    "grown_mib": grown / 1024,
    "finish_s": clock() - at,
}))
"""


class Fails(BaseHTTPRequestHandler):
    """A head that answers everything with one status, or never."""

    protocol_version = "HTTP/1.1"
    status = 500
    never = threading.Event()

    def do_POST(self) -> None:
        """Answer as this head does."""
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.status == 0:
            self.never.wait()
        self.send_response(self.status)
        self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def failing(status: int) -> str:
    """Serve a head that fails, and return its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Fails", (Fails,), {"status": status}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def absent() -> str:
    """Return an address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def measure(python: str, url: str, calls: int, keys: int, finish_s: float, work: Path) -> Any:
    """Return what one process says."""
    arguments = [str(calls), str(keys), url, str(finish_s)]
    done = subprocess.run(
        [python, "-c", LOGS, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "TRAINHEAD_DATA_DIR": str(work / "client"),
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    shutil.rmtree(work / "client", ignore_errors=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trainhead", default=ROOT / "target" / "release" / "trainhead")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, nargs="*", default=[1, 10])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        command = [str(options.trainhead), "serve", "--port", "0", "--json"]
        head = subprocess.Popen(
            [*command, "--data-dir", str(work / "head")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert head.stdout is not None
        heads = {
            "takes all": json.loads(head.stdout.readline())["url"],
            "absent": absent(),
            "500": failing(500),
            "429": failing(429),
            "never answers": failing(0),
        }
        print("| head | metrics | p50 µs | p99 µs | p99.9 µs | most ms | calls/s | grown MiB |")
        print("|---|---|---|---|---|---|---|---|")
        try:
            for keys in options.metrics:
                for name, url in heads.items():
                    finish_s = 120 if name == "takes all" else 0
                    said = measure(options.python, url, options.calls, keys, finish_s, work)
                    print(
                        f"| {name} | {keys} | {said['p50_us']:.1f} | {said['p99_us']:.1f}"
                        f" | {said['p999_us']:.0f} | {said['max_ms']:.1f}"
                        f" | {said['calls_per_s']:.0f} | {said['grown_mib']:.1f} |",
                        flush=True,
                    )
        finally:
            head.terminate()
            head.wait()


if __name__ == "__main__":
    main()
