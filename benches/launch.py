"""What launching costs, beside torchrun (if it is installed) and beside a bare fork and exec.

Each figure is a ratio of windows that stand next to each other in one round: sides in turn,
another one first in each round; median of the rounds with least and greatest. It asserts nothing:
figures are read by people, and stand in README.md.

    cargo build --release && python3 benches/launch.py [--rounds 5] [--workers 64]

Options: --trainhead PATH (default target/release/trainhead), --torchrun PATH (default: whatever
``torchrun`` is in PATH; left out if there is none), --only SECTION (start, group, crash).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

DEADLINE_S = 60.0
# A worker that says when it began and when it was asked to stop. `wait` is ended by the signal.
WORKER = """trap 'date +%s%N >"$OUT/term.$RANK"; kill $!; exit 0' TERM
date +%s%N >"$OUT/.start.$RANK"; mv "$OUT/.start.$RANK" "$OUT/start.$RANK"
sleep 1000 & echo $$ >"$OUT/pid.$RANK"; wait"""

Figures = dict[str, list[float]]


class Side:
    """One way to start workers."""

    def __init__(self, name: str, command: Callable[[int, Path], list[str]]) -> None:
        self.name = name
        self.command = command

    def start(self, workers: int, out: Path, program: list[str]) -> subprocess.Popen[bytes]:
        """Start so many workers that write below `out`."""
        environment = dict(os.environ, OUT=str(out))
        return subprocess.Popen(
            self.command(workers, out) + program,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def main() -> None:
    """Measure what was asked for."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--trainhead", default=str(root / "target/release/trainhead"))
    parser.add_argument("--torchrun", default=shutil.which("torchrun"))
    parser.add_argument("--only", choices=["start", "group", "crash"])
    options = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("TRAINHEAD_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as place, head(options.trainhead, Path(place)) as url:
        sides = the_sides(options.trainhead, options.torchrun, url)
        if options.only in (None, "start"):
            starts(sides, options.rounds)
        if options.only in (None, "group"):
            groups(sides, options.rounds, options.workers, url)
        if options.only in (None, "crash"):
            crashes(sides[1:], options.rounds, options.workers, url)


@contextlib.contextmanager
def head(trainhead: str, place: Path) -> Iterator[str]:
    """A head that runs are recorded by."""
    command = [trainhead, "serve", "--port", "0", "--data-dir", str(place / "head"), "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serve:
        assert serve.stdout is not None
        try:
            yield serve.stdout.readline().strip().removeprefix("TrainHead is at ")
        finally:
            serve.terminate()


def the_sides(trainhead: str, torchrun: str | None, url: str) -> list[Side]:
    """Return the ways to start workers, the barest first."""

    def bare(workers: int, _out: Path) -> list[str]:
        # A program that does nothing but fork, exec and wait.
        fork = (
            "import os, sys\n"
            "n, program = int(sys.argv[1]), sys.argv[2:]\n"
            "for rank in range(n):\n"
            "    os.environ['RANK'] = str(rank)\n"
            "    os.posix_spawnp(program[0], program, os.environ)\n"
            "for _ in range(n): os.wait()\n"
        )
        return [sys.executable, "-I", "-S", "-c", fork, str(workers)]

    def with_head(workers: int, out: Path) -> list[str]:
        data = ["--head", url, "--data-dir", str(out / "data")]
        return [trainhead, "run", "-q", *data, "--tail", "none", "--workers", str(workers), "--"]

    def alone(workers: int, out: Path) -> list[str]:
        data = ["--port", "0", "--data-dir", str(out / "data")]
        return [trainhead, "run", "-q", *data, "--tail", "none", "--workers", str(workers), "--"]

    sides = [
        Side("fork and exec", bare),
        Side("with a head", with_head),
        Side("its own head", alone),
    ]
    if torchrun is not None:

        def by_torch(workers: int, _out: Path) -> list[str]:
            elastic = ["--standalone", "--nnodes=1", f"--nproc_per_node={workers}", "--no_python"]
            # Debian's 1.13 fails without these on Python 3.11.
            return [torchrun, *elastic, "--redirects=1", "--tee=1", "--monitor_interval=0.1"]

        sides.append(Side("torchrun", by_torch))
    return sides


def worker(out: Path) -> list[str]:
    """Return the program of a worker."""
    # A file: torchrun takes $$ in arguments for a $.
    script = out / "worker.sh"
    script.write_text(WORKER)
    return ["sh", str(script)]


def starts(sides: list[Side], rounds: int) -> None:
    """From the launcher's start to the worker's first instruction, and to the launcher's end."""
    first: Figures = {}
    whole: Figures = {}
    for side, out in windows(sides, rounds):
        began_ns = time.time_ns()
        process = side.start(1, out, ["sh", "-c", 'date +%s%N >"$OUT/start.0"'])
        process.wait(DEADLINE_S)
        whole.setdefault(side.name, []).append((time.time_ns() - began_ns) / 1e6)
        first.setdefault(side.name, []).append((read_ns(out / "start.0") - began_ns) / 1e6)
    show("one worker: to its first instruction, ms", first)
    show("one worker that ends at once: the whole, ms", whole)


def groups(sides: list[Side], rounds: int, workers: int, url: str) -> None:
    """From the start of the launcher until the last worker runs; and from PENDING to RUNNING."""
    all_run: Figures = {}
    placed: Figures = {}
    for side, out in windows(sides, rounds):
        began_ns = time.time_ns()
        process = side.start(workers, out, worker(out))
        with ended(process):
            wait_for(lambda out=out: len(list(out.glob("start.*"))) == workers)
            last_ns = max(read_ns(path) for path in out.glob("start.*"))
            all_run.setdefault(side.name, []).append((last_ns - began_ns) / 1e6)
            if side.name == "with a head":
                events = attempt_events(url)
                pending, running = (events[state] for state in ("PENDING", "RUNNING"))
                placed.setdefault(side.name, []).append(running - pending)
    show(f"{workers} workers: until the last one runs, ms", all_run)
    show(f"{workers} workers: the attempt from PENDING to RUNNING in the record, ms", placed)


def crashes(sides: list[Side], rounds: int, workers: int, url: str) -> None:
    """From SIGKILL of one worker until another one is asked to stop; and in the record."""
    asked: Figures = {}
    recorded: Figures = {}
    for side, out in windows(sides, rounds):
        process = side.start(workers, out, worker(out))
        with ended(process):
            wait_for(lambda out=out: len(list(out.glob("pid.*"))) == workers)
            victim = int((out / f"pid.{workers // 2}").read_text())
            killed_ns = time.time_ns()
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda out=out: any(path.stat().st_size > 0 for path in out.glob("term.*")))
            process.wait(DEADLINE_S)
            first_ns = min(read_ns(path) for path in out.glob("term.*") if path.stat().st_size > 0)
            asked.setdefault(side.name, []).append((first_ns - killed_ns) / 1e6)
            if side.name == "with a head":
                failure = newest_run(url)["first_failure"]
                recorded.setdefault(side.name, []).append(failure["time_ms"] - killed_ns / 1e6)
    show(f"{workers} workers, one is killed: until another is asked to stop, ms", asked)
    show(f"{workers} workers, one is killed: first failure in the record after, ms", recorded)


def windows(sides: list[Side], rounds: int) -> Iterator[tuple[Side, Path]]:
    """Yield each side and a directory for it, another side first in each round."""
    for number in range(rounds):
        for side in sides[number % len(sides) :] + sides[: number % len(sides)]:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as out:
                yield side, Path(out)


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends the process and what it started."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def newest_run(url: str) -> dict[str, object]:
    """Return the run that the head took last."""
    with urllib.request.urlopen(f"{url}/api/train/runs?page_size=1") as answer:
        run_id = json.load(answer)["train_runs"][0]["id"]
    with urllib.request.urlopen(f"{url}/api/train/runs/{run_id}") as answer:
        return json.load(answer)


def attempt_events(url: str) -> dict[str, int]:
    """Return when the newest run's attempt came to each status, UNIX ms."""
    run_id = newest_run(url)["id"]

    def read() -> dict[str, int]:
        with urllib.request.urlopen(f"{url}/api/train/runs/{run_id}/events") as answer:
            events = json.load(answer)["events"]
        return {e["to"]: e["time_ms"] for e in events if e["kind"] == "attempt"}

    wait_for(lambda: "RUNNING" in read())
    return read()


def read_ns(path: Path) -> int:
    """Return the time that a worker wrote."""
    return int(path.read_text())


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("a launcher does not do what it should")
        time.sleep(0.002)


def show(title: str, figures: Figures) -> None:
    """Print the figures of each side, as ratios to the first one."""
    print(f"\n{title}")
    if not figures:
        return
    base = statistics.median(next(iter(figures.values())))
    for name, values in figures.items():
        median = statistics.median(values)
        ratio = f"  {median / base:6.2f} x" if len(figures) > 1 else ""
        print(
            f"  {name:<14} {median:9.1f} ({min(values):.1f} - {max(values):.1f}){ratio}", flush=True
        )


if __name__ == "__main__":
    main()
