"""What moving a checkpoint costs, beside `cp -r` and beside the vendor's own client of S3.

A real run hands over one checkpoint a round, with a report that returns when the bytes are moved; the time of
that report is the figure. Sides in turn, another one first in each round; median of the rounds with least and
greatest. What waits to be written to the disk is written before each window, and what a window made is
removed after it. The greatest resident memory of the controller (which is its own head here) is shown too.

    cargo build --release && python3 benches/checkpoints.py [--rounds 3] [--mib 2048] [--files 200]

Options: --trainhead PATH (default target/release/trainhead), --s3 COMMAND (a server that is started with
`{port}` in its place, for example "moto_server -H 127.0.0.1 -p {port}" or "s3s-fs --host 127.0.0.1
--port {port} --access-key bench --secret-key benchbench DIR"; without it S3 is left out), --aws PATH (default:
whatever ``aws`` is in PATH), --place DIR (a directory on the disk that is to be measured).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

DEADLINE_S = 600.0
KEYS = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "benchbench",
    "AWS_DEFAULT_REGION": "us-east-1",
}
WORKER = """
import pathlib, sys, time, trainhead
begun = time.monotonic()
trainhead.report({}, step=1, checkpoint=trainhead.Checkpoint.from_directory(sys.argv[1]))
pathlib.Path(sys.argv[2]).write_text(str(time.monotonic() - begun))
"""

Figures = dict[str, list[float]]
Side = tuple[str, Callable[[Path], float]]


class Bench:
    """The files that are moved, and the ways to move them."""

    def __init__(self, options: argparse.Namespace, place: Path) -> None:
        self.options = options
        self.place = place
        self.source = place / "source"
        self.root = Path(__file__).resolve().parent.parent
        self.peak_kib: dict[str, int] = {}
        make_files(self.source, options.mib, options.files)
        (place / "worker.py").write_text(WORKER)

    def cp(self, out: Path) -> float:
        """Return the seconds that `cp -r` takes."""
        return timed(["cp", "-r", str(self.source), str(out / "copy")], dict(os.environ))

    def aws(self, endpoint: str, bucket: str) -> float:
        """Return the seconds that the vendor's client takes, its own start within."""
        to = f"s3://{bucket}/copy"
        command = [self.options.aws, "s3", "cp", "--recursive", "--quiet", str(self.source), to]
        return timed(command, dict(os.environ, **KEYS, AWS_ENDPOINT_URL=endpoint))

    def run(self, name: str, out: Path, storage: str | None, endpoint: str | None) -> float:
        """Return the seconds that the report of a real run takes."""
        environment = dict(os.environ, PYTHONPATH=str(self.root / "python"))
        if endpoint is not None:
            environment.update(KEYS, AWS_ENDPOINT_URL=endpoint)
        options = ["--port", "0", "--data-dir", str(out / "data"), "--tail", "none"]
        if storage is not None:
            options += ["--storage", storage]
        result = out / "seconds"
        worker = [sys.executable, str(self.place / "worker.py"), str(self.source), str(result)]
        command = [self.options.trainhead, "run", "-q", *options, "--", *worker]
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL) as process:
            while process.poll() is None:
                self.peak_kib[name] = max(self.peak_kib.get(name, 0), peak(process.pid))
                time.sleep(0.02)
        if process.returncode != 0:
            raise RuntimeError(f"the run ended with {process.returncode}")
        return float(result.read_text())


def main() -> None:
    """Measure what was asked for."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--trainhead", default=str(root / "target/release/trainhead"))
    parser.add_argument("--s3")
    parser.add_argument("--aws", default=shutil.which("aws"))
    parser.add_argument("--place")
    options = parser.parse_args()
    for name in [name for name in os.environ if name.startswith(("TRAINHEAD_", "AWS_"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(dir=options.place) as place:
        bench = Bench(options, Path(place))
        what = f"{options.mib} MiB in {options.files} files"
        sides: list[Side] = [
            ("cp -r", bench.cp),
            ("trainhead", lambda out: bench.run("directory", out, None, None)),
        ]
        show(f"{what} to a directory, s", measured(bench, sides), options.mib)
        if options.s3 is not None:
            with server(options.s3) as endpoint:
                show(f"{what} to S3, s", measured(bench, s3_sides(bench, endpoint)), options.mib)
        for name, kib in bench.peak_kib.items():
            print(f"\ngreatest resident memory, {name}: {kib / 1024:.1f} MiB")


def s3_sides(bench: Bench, endpoint: str) -> list[Side]:
    """Return the two ways to an S3 server, each to a bucket that is empty before."""
    environment = dict(os.environ, **KEYS, AWS_ENDPOINT_URL=endpoint)

    def fresh(bucket: str) -> str:
        for command in (["rb", "--force"], ["mb"]):
            call = [bench.options.aws, "s3", *command, f"s3://{bucket}"]
            subprocess.run(call, env=environment, capture_output=True, check=command == ["mb"])
        return bucket

    def by_aws(_out: Path) -> float:
        fresh("ours")
        return bench.aws(endpoint, fresh("theirs"))

    def by_us(out: Path) -> float:
        fresh("theirs")
        return bench.run("S3", out, f"s3://{fresh('ours')}/prefix", endpoint)

    return [("aws s3 cp", by_aws), ("trainhead", by_us)]


def measured(bench: Bench, sides: list[Side]) -> Figures:
    """Measure each side once a round, another one first in each."""
    figures: Figures = {name: [] for name, _ in sides}
    for number in range(bench.options.rounds):
        for name, side in sides[number % len(sides) :] + sides[: number % len(sides)]:
            with tempfile.TemporaryDirectory(dir=bench.place) as out:
                read(bench.source)
                os.sync()
                figures[name].append(side(Path(out)))
    return figures


def make_files(directory: Path, mib: int, files: int) -> None:
    """Make files of equal size whose bytes are all different."""
    directory.mkdir()
    size = mib * 1024 * 1024 // files
    for number in range(files):
        below = directory / f"part_{number % 8}"
        below.mkdir(exist_ok=True)
        (below / f"{number:04}.bin").write_bytes(random.Random(number).randbytes(size))


def read(directory: Path) -> None:
    """Read all files once, so that each side finds them in memory."""
    for path in directory.rglob("*.bin"):
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass


def timed(command: list[str], environment: dict[str, str]) -> float:
    """Return the seconds that a command takes."""
    begun = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def peak(pid: int) -> int:
    """Return the greatest resident memory of a process so far, KiB."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


@contextlib.contextmanager
def server(command: str) -> Iterator[str]:
    """Start an S3 server, and end it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [word.replace("{port}", str(port)) for word in shlex.split(command)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, stdout=quiet, stderr=quiet) as process:
        try:
            deadline = time.monotonic() + DEADLINE_S
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{words[0]} does not serve")
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def show(title: str, figures: Figures, mib: int) -> None:
    """Print the figures of each side, and its throughput as a ratio to the first one's."""
    print(f"\n{title}")
    base = statistics.median(next(iter(figures.values())))
    for name, values in figures.items():
        median = statistics.median(values)
        extent = f"{median:7.2f} ({min(values):.2f} - {max(values):.2f})"
        speed = f"{mib / median:7.0f} MiB/s  {base / median:5.2f} of {next(iter(figures))}"
        print(f"  {name:<10} {extent}  {speed}", flush=True)


if __name__ == "__main__":
    main()
