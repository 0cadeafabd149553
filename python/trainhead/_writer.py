"""From the queue to the spool, and from the spool to whoever delivers.

A thread brings what is queued to the disk ten times a second. When the queue is full before, the
caller does, so that memory is bounded and nothing is dropped. Where the disk takes nothing, some
of it is kept in memory instead.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from pathlib import Path
from typing import Any

from ._metrics import encode_json
from ._notes import note_once
from ._queue import Item, Point, Queue, Word, batches
from ._spool import MAX_BYTES, Spool, SpoolInUseError

# How long points wait in memory; also what a killed process loses.
INTERVAL_S = 0.1
# Beyond so many values in the queue the caller helps, and beyond the other it waits for the disk.
FULL_VALUES = 20_000
OVERFULL_VALUES = 4 * FULL_VALUES
DISK_TIMEOUT_S = 0.5
# What is kept in memory where the disk takes nothing.
RESCUE_BYTES = 16 * 2**20


class Writer:
    """One writer's lines on their way: `put` from any thread, `next` and `done` from one."""

    def __init__(self, directory: Path, actor_id: str, about: dict[str, Any]) -> None:
        self._queue = Queue()
        self._spool = Spool(directory)
        self._actor_id = actor_id
        self._about = about
        self._seq = 0
        # Not reentrant on purpose: a signal handler must not write in the middle of a line. Held
        # while the spool is written, so `put` never waits for it.
        self._writing = threading.Lock()
        self._rescued: deque[bytes] = deque()
        self._rescued_bytes = 0  # ever; by who writes
        self._delivered_bytes = 0  # of them; by who delivers
        self._from_rescue = False
        self._spooled = threading.Event()  # there may be something for `next`
        self._closing = threading.Event()
        self._shut = False  # takes nothing any more
        self._disk_hangs = False
        self.max_bytes = MAX_BYTES
        self.dropped = 0
        self._create()
        self._thread = threading.Thread(target=self._run, name="trainhead-spool", daemon=True)
        # No more threads: then callers bring it to the disk.
        with contextlib.suppress(RuntimeError):
            self._thread.start()

    def put(self, item: Item) -> None:
        """Take an item. Returns within microseconds, or milliseconds when the queue is full."""
        if self._shut:
            return
        values = self._queue.values
        if values >= OVERFULL_VALUES and isinstance(item, Point):
            # The disk hangs. That is waited for once.
            if self._disk_hangs or not self._write_some(DISK_TIMEOUT_S):
                self._disk_hangs = True
                self._drop(1, "the disk takes them too slowly")
                return
            self._disk_hangs = False
        self._queue.put(item)
        if values >= FULL_VALUES:
            self._write_some(0)

    def next(self) -> bytes | None:
        """Return the oldest line that is not delivered; the same again until `done`."""
        line = None
        # A spool that cannot be read is of no use; what is in memory may still go.
        with contextlib.suppress(OSError, ValueError):
            line = self._spool.read()
        self._from_rescue = line is None
        if line is None and self._rescued:
            line = self._rescued[0]
        return line

    def done(self) -> None:
        """The line that `next` returned is delivered."""
        if self._from_rescue:
            self._delivered_bytes += len(self._rescued.popleft())
        else:
            self._spool.advance()

    def wait(self) -> None:
        """Wait until there may be something for `next`."""
        self._spooled.wait()
        self._spooled.clear()

    def describe(self, about: dict[str, Any]) -> None:
        """Replace ``spool.json``."""
        self._about = about
        with contextlib.suppress(OSError):
            if self._spool.directory.is_dir():
                self._spool.describe(about)

    def close(self, timeout_s: float) -> None:
        """Bring to disk what is queued, and take nothing more."""
        self._shut = True
        self._closing.set()
        while len(self._queue) and self._write_some(timeout_s):
            pass

    def wake(self) -> None:
        """Have `wait` return."""
        self._spooled.set()

    def leave(self, delivered: bool) -> None:
        """Let go of the spool, and remove it if all of it is delivered. For who delivers."""
        with contextlib.suppress(OSError):
            if delivered:
                self._spool.remove()
            else:
                self._spool.close()

    def refuse(self) -> None:
        """Nobody will ever take it."""
        self._shut = True
        while self._queue.take():
            pass
        self._rescued.clear()

    def abandon(self) -> None:
        """In a forked child: the spool is the parent's, and its locks may be held for ever."""
        self._shut = True
        self._queue = Queue()
        self._writing = threading.Lock()
        self._spool.abandon()

    def _create(self) -> None:
        try:
            self._spool.create(self._about)
        except (OSError, SpoolInUseError) as error:
            note_once("spool", f"what waits for the head is kept in memory only ({error})")

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL_S):
            while len(self._queue) and self._write_some(INTERVAL_S):
                pass

    def _write_some(self, timeout_s: float) -> bool:
        """Write the oldest of the queue; False if somebody else is at it."""
        if not self._writing.acquire(timeout_s > 0, timeout_s if timeout_s > 0 else -1):
            return False
        try:
            self._write_all(self._queue.take())
        finally:
            self._writing.release()
        self._spooled.set()
        return True

    def _write_all(self, items: list[Item]) -> None:
        points = [item for item in items if isinstance(item, Point)]
        for batch in batches(points):
            count = len(batch.get("reports") or batch["columns"]["step"])
            whole = {"writer": self._actor_id, "seq": self._seq + 1, **batch}
            if self._write(b'{"report":' + encode_json(whole).encode() + b"}", count):
                # Only now: a head takes no number that is far ahead of what it has.
                self._seq += 1
        for item in items:
            if isinstance(item, Word):
                self._write(item.line, 0)

    def _write(self, line: bytes, points: int) -> bool:
        if points and self._spool.size_bytes + len(line) > self.max_bytes:
            self._drop(points, f"{self._spool.directory} is full")
            return False
        # What is in memory is newer than what is on disk, so as long as there is some it all
        # goes there.
        if not self._rescued:
            try:
                self._spool.append(line)
                return True
            except OSError as error:
                note_once("spool", f"what waits for the head is kept in memory only ({error})")
        waiting_bytes = self._rescued_bytes - self._delivered_bytes
        if points and waiting_bytes + len(line) > RESCUE_BYTES:
            self._drop(points, "there is no place for them on disk")
            return False
        self._rescued_bytes += len(line)
        self._rescued.append(line)
        return True

    def _drop(self, points: int, why: str) -> None:
        self.dropped += points
        note_once("dropped", f"metrics are dropped while the head is away: {why}")
