"""What waits for the head, on disk: a directory with ``spool.json`` and numbered segments.

The same format is written by the controller of `trainhead run` and read by `trainhead sync`. A line
is one JSON object with the key ``say``, ``begin`` or ``report``. Whoever writes or delivers it has
the file ``lock`` locked. Nothing is synced to the disk: the spool outlives the head's absence and
the end of this process, not that of the machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FORMAT_VERSION = 1
SEGMENT_BYTES = 4 * 2**20
MAX_BYTES = 2**30

_ABOUT = "spool.json"
_NEXT_ABOUT = "spool.json.new"
_LOCK = "lock"
# What the lock's file says while somebody delivers who is not the writer.
_DELIVERS = b"deliver"
_SEGMENT = "{:012d}.jsonl"


class SpoolInUseError(Exception):
    """Another process is working on this spool.

    Attributes:
        delivering: it delivers what a third one has left, and will soon be done.
    """

    def __init__(self, directory: Path, delivering: bool) -> None:
        super().__init__(str(directory))
        self.delivering = delivering


class Spool:
    """One directory of segments: lines are appended at the end, and read and removed at the front.

    One thread may append while another one reads. As long as it is open, the directory is locked
    against other processes.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock_fd = -1
        self._added_bytes = 0  # by who appends
        self._removed_bytes = 0  # by who reads
        self._last = 0  # number of the segment that lines are appended to
        self._last_bytes = 0
        self._out: int = -1
        self._first = 1  # number of the segment that is read
        self._in: Any = None
        self._line_bytes = 0  # of the line that was read last

    @property
    def size_bytes(self) -> int:
        """How much is on disk."""
        return self._added_bytes - self._removed_bytes

    def create(self, about: dict[str, Any]) -> None:
        """Make the directory, for its owner alone: ``spool.json`` has the run's token."""
        missing = [path for path in (self.directory, *self.directory.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
        self._lock(b"")
        self.describe(about)

    def open(self) -> dict[str, Any]:
        """Take a directory that another process left, and return what ``spool.json`` says.

        Raises:
            SpoolInUseError: that process is still at work.
            FileNotFoundError: it was delivered meanwhile.
            OSError, ValueError: it is no spool.
        """
        (self.directory / _ABOUT).stat()  # before a lock is put where no spool is
        self._lock(_DELIVERS)
        about = json.loads((self.directory / _ABOUT).read_bytes())
        if not isinstance(about, dict) or about.get("version") != FORMAT_VERSION:
            raise ValueError(f"{self.directory} has not the format of this release")
        numbers = self._numbers()
        self._first, self._last = (numbers[0], numbers[-1]) if numbers else (1, 0)
        self._added_bytes = sum(self._path(number).stat().st_size for number in numbers)
        return about

    def describe(self, about: dict[str, Any]) -> None:
        """Replace ``spool.json``."""
        temporary = self.directory / _NEXT_ABOUT
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"version": FORMAT_VERSION, **about}, file)
        temporary.replace(self.directory / _ABOUT)

    def append(self, line: bytes) -> None:
        """Add a line, without its end."""
        if self._out < 0 or self._last_bytes >= SEGMENT_BYTES:
            self._next_segment()
        data = line + b"\n"
        written = os.write(self._out, data)
        if written < len(data):
            # A part of a line would spoil the next one.
            os.ftruncate(self._out, self._last_bytes)
            raise OSError(28, "No space left on device")
        self._last_bytes += written
        self._added_bytes += written

    def read(self) -> bytes | None:
        """Return the oldest line, without its end; None if there is none.

        The same one again until `advance`. A last line that was cut off is none.
        """
        while True:
            if self._in is None and not self._open_first():
                return None
            # Looked at before reading: lines may be added, and the next segment begun, meanwhile.
            whole = self._first < self._last
            at = self._in.tell()
            line: bytes = self._in.readline()
            self._in.seek(at)
            if line.endswith(b"\n"):
                self._line_bytes = len(line)
                return line[:-1]
            if not whole:
                return None
            self._remove_first()

    def lines(self) -> Iterator[bytes]:
        """Go through all lines, as they are on disk."""
        for number in self._numbers():
            with self._path(number).open("rb") as segment:
                for line in segment:
                    if line.endswith(b"\n"):
                        yield line[:-1]

    def advance(self) -> None:
        """Be done with the line that `read` returned."""
        if self._in is not None:
            self._in.seek(self._line_bytes, os.SEEK_CUR)
            self._line_bytes = 0

    def close(self) -> None:
        """Leave the rest where it is, for whoever delivers it."""
        if self._in is not None:
            self._in.close()
            self._in = None
        self._out = _closed(self._out)
        self._lock_fd = _closed(self._lock_fd)

    def abandon(self) -> None:
        """In a forked child: let go of the parent's lock, so that it ends with the parent.

        Nothing else is closed: that could wait for the lock of a buffer that another thread of the
        parent was just reading into.
        """
        self._lock_fd = _closed(self._lock_fd)

    def remove(self) -> None:
        """Remove the directory: all of it is delivered."""
        for number in self._numbers():
            self._path(number).unlink(missing_ok=True)
        # The lock last: until then nobody else is at work here.
        for name in (_NEXT_ABOUT, _ABOUT, _LOCK):
            (self.directory / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.directory.rmdir()
        self.close()

    def _lock(self, word: bytes) -> None:
        path = self.directory / _LOCK
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                said = os.pread(lock, len(_DELIVERS), 0)
                raise SpoolInUseError(self.directory, said == _DELIVERS) from None
            except OSError:
                pass  # a file system without locks: delivering twice is harmless
            # Whoever held it may have removed it all meanwhile.
            if not os.path.samestat(os.fstat(lock), path.stat()):
                raise FileNotFoundError(f"{self.directory} was delivered meanwhile")
            os.ftruncate(lock, 0)
            os.pwrite(lock, word, 0)
        except BaseException:
            os.close(lock)
            raise
        self._lock_fd = lock

    def _next_segment(self) -> None:
        self._out = _closed(self._out)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._out = os.open(self._path(self._last + 1), flags, 0o600)
        # Only now: whoever reads takes a segment before the last one for whole.
        self._last_bytes = os.fstat(self._out).st_size
        self._last += 1

    def _open_first(self) -> bool:
        while self._first <= self._last:
            try:
                self._in = self._path(self._first).open("rb")
                return True
            except FileNotFoundError:
                self._first += 1
        return False

    def _remove_first(self) -> None:
        self._in.seek(0, os.SEEK_END)
        self._removed_bytes += self._in.tell()
        self._in.close()
        self._in = None
        self._path(self._first).unlink(missing_ok=True)
        self._first += 1

    def _numbers(self) -> list[int]:
        return sorted(
            int(path.stem) for path in self.directory.glob("*.jsonl") if path.stem.isdigit()
        )

    def _path(self, number: int) -> Path:
        return self.directory / _SEGMENT.format(number)


def _closed(descriptor: int) -> int:
    if descriptor >= 0:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    return -1
