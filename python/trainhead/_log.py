"""The way of logged points: a bounded queue, and a thread that sends it to the controller.

The training loop only appends; it never waits for the controller and takes no exception from it.
There is no spool on disk here: what the controller has not taken when the process ends is lost,
counted and said.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from ._notes import note, note_once
from ._transport import TRANSPORT_ERRORS, Transport

# Points are kept as the JSON text that is sent, so the limit is in bytes and holds for points of
# any size. About 100,000 points of one key.
MAX_QUEUED_BYTES = 8 * 2**20

# Well below the controller's limit of 16 MiB for a body, and quick to encode and to read.
MAX_BATCH_BYTES = 2**20

# How long points wait to be sent together; also what a killed process loses.
INTERVAL_S = 0.1
# While the controller does not answer, the interval doubles up to this.
MAX_INTERVAL_S = 5.0
# Bound of one request to the controller.
REQUEST_TIMEOUT_S = 10.0
# Bound of sending the rest when the interpreter ends.
FLUSH_TIMEOUT_S = 10.0


class LogQueue:
    """Encoded points, oldest first, of `max_bytes` at most: beyond that the oldest go."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._points: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        # Reentrant, because a signal handler may log while its thread was just logging.
        self._lock = threading.RLock()

    def put(self, point: bytes) -> None:
        """Append a point."""
        with self._lock:
            self._points.append(point)
            self._bytes += len(point)
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._points.popleft())
                self._dropped += 1

    def take(self) -> tuple[deque[bytes], int]:
        """Return all points, and how many had to go since the last call.

        In constant time: the training loop may be waiting to append.
        """
        with self._lock:
            taken = self._points, self._dropped
            self._points, self._bytes, self._dropped = deque(), 0, 0
        return taken

    def __len__(self) -> int:
        return len(self._points)


class LogSender:
    """Sends points of one rank, from a daemon thread that the first point starts.

    Attributes:
        stop_requested: the controller has said that this worker shall stop.
    """

    def __init__(
        self, transport: Transport, rank: int, max_queued_bytes: int = MAX_QUEUED_BYTES
    ) -> None:
        self._transport = transport
        self._head = b'{"rank":%d,"points":[' % rank
        self._queue = LogQueue(max_queued_bytes)
        self._in_hand: deque[bytes] = deque()  # taken from the queue, not yet by the controller
        self._dropped = 0
        self._thread: threading.Thread | None = None
        self._thread_lock = threading.RLock()
        self._closing = threading.Event()
        self._deadline = 0.0
        self.stop_requested = False

    def put(self, point: bytes) -> None:
        """Queue a point, given as JSON text."""
        self._queue.put(point)
        if self._thread is None:
            self._start()

    def close(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Send what is left, for at most `timeout_s`, and say what could not be."""
        self._deadline = time.monotonic() + timeout_s
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        undelivered = len(self._queue) + len(self._in_hand)
        if undelivered:
            note(f"{undelivered} logged points were not delivered to the controller")
        if self._dropped:
            note(f"{self._dropped} logged points were dropped in all")

    def _start(self) -> None:
        with self._thread_lock:
            if self._thread is not None:
                return
            # Set before it runs, for a signal handler that logs at just this moment.
            self._thread = threading.Thread(target=self._run, name="trainhead-log", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:
                # No more threads, or the interpreter is ending. The next point tries again.
                self._thread = None
                note_once("log-thread", f"logged points cannot be sent: {error}")

    def _run(self) -> None:
        interval_s = INTERVAL_S
        while not self._closing.wait(interval_s):
            interval_s = INTERVAL_S if self._send_all() else min(interval_s * 2, MAX_INTERVAL_S)
        while not self._send_all() and time.monotonic() < self._deadline:
            time.sleep(INTERVAL_S)

    def _send_all(self) -> bool:
        """Send until nothing is left; False if the controller did not take something."""
        while True:
            if not self._in_hand:
                self._in_hand, dropped = self._queue.take()
                self._count_dropped(dropped, "the controller takes them too slowly")
            if not self._in_hand:
                return True
            count, body = self._next_batch()
            if not self._send(count, body):
                return False
            for _ in range(count):
                self._in_hand.popleft()

    def _next_batch(self) -> tuple[int, bytes]:
        points: list[bytes] = []
        size_bytes = 0
        for point in self._in_hand:
            size_bytes += len(point) + 1
            if points and size_bytes > MAX_BATCH_BYTES:
                break
            points.append(point)
        return len(points), self._head + b",".join(points) + b"]}"

    def _send(self, count: int, body: bytes) -> bool:
        """Return whether the controller is done with this batch, for better or worse."""
        timeout_s = REQUEST_TIMEOUT_S
        if self._closing.is_set():
            timeout_s = min(timeout_s, max(self._deadline - time.monotonic(), INTERVAL_S))
        try:
            status, answer = self._transport.request("POST", "/log", body, timeout_s)
        except (ConnectionRefusedError, FileNotFoundError) as error:
            note_once("log-unreachable", f"the controller is gone, logged points wait ({error})")
            # Nobody listens: at the end of the process waiting longer brings nothing.
            self._deadline = 0.0
            return False
        except TRANSPORT_ERRORS as error:
            note_once("log-unreachable", f"the controller does not take logged points ({error!r})")
            return False
        if status == 503:  # it asks to be asked again
            return False
        self.stop_requested = self.stop_requested or answer.get("stop") is True
        if status != 200:
            detail = answer.get("detail", "no reason given")
            self._count_dropped(count, f"the controller refused them: {status}, {detail}")
        return True

    def _count_dropped(self, count: int, reason: str) -> None:
        if count:
            self._dropped += count
            note_once("log-dropped", f"{count} logged points were dropped: {reason}")
