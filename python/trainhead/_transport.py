"""HTTP/1.1 over the controller's unix socket, with connections that are kept.

Knows requests and answers; what they mean, and what to do when there is no answer, is for its
callers. Speaks the little of HTTP that the session protocol needs (JSON bodies with a length)
instead of using http.client, whose parsing of headers takes longer than all the rest of a report.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any, BinaryIO

# What a request may fail with when the controller is gone or slow (OSError), or talks nonsense.
TRANSPORT_ERRORS = (OSError, ValueError)

_MAX_LINE_BYTES = 65_536


class Transport:
    """Requests to one controller, from any thread.

    A request takes an idle connection or opens one. So there is no lock: two threads never wait
    for each other, and neither does a signal handler that reports while its thread was just
    reporting.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: list[socket.socket] = []
        self._connections: set[socket.socket] = set()  # idle or in use
        self._closed = False

    def request(
        self, method: str, target: str, body: bytes, timeout_s: float | None
    ) -> tuple[int, dict[str, Any]]:
        """Return the answer: its status and, empty if there is none, its JSON object.

        `timeout_s` bounds each wait, None not at all. Fails with one of `TRANSPORT_ERRORS`.
        """
        message = (
            f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._exchange(self._connect(timeout_s), message)
        connection.settimeout(timeout_s)
        try:
            return self._exchange(connection, message)
        except ConnectionError:
            # A kept connection may have been closed at the other end since its last use. That
            # shows only now, and says nothing about the controller: once more on a new one.
            return self._exchange(self._connect(timeout_s), message)

    def close(self) -> None:
        """Close the idle connections, and those in use when they are done with."""
        self._closed = True
        while self._idle:
            self._drop(self._idle.pop())

    def abandon(self) -> None:
        """In a forked child: let go of the parent's connections, so that they end with the parent.

        Only the file descriptors are closed. To close the objects could wait forever: for the lock
        of a buffer that another thread of the parent was just reading into.
        """
        for connection in self._connections:
            os.close(connection.detach())

    def _connect(self, timeout_s: float | None) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout_s)
            connection.connect(self._path)
        except BaseException:
            connection.close()
            raise
        self._connections.add(connection)
        return connection

    def _exchange(self, connection: socket.socket, message: bytes) -> tuple[int, dict[str, Any]]:
        try:
            connection.sendall(message)
            with connection.makefile("rb") as stream:
                status, keep, content = _read_answer(stream)
        except BaseException:
            # An answer may still be on its way; nobody else must read it as theirs.
            self._drop(connection)
            raise
        if keep and not self._closed:
            self._idle.append(connection)
        else:
            self._drop(connection)
        return status, _parse_object(status, content)

    def _drop(self, connection: socket.socket) -> None:
        self._connections.discard(connection)
        connection.close()


def _read_answer(stream: BinaryIO) -> tuple[int, bool, bytes]:
    """Return status, whether the connection stays open, and body."""
    line = stream.readline(_MAX_LINE_BYTES)
    if not line:
        raise ConnectionResetError("the connection was closed before an answer")
    version, _, rest = line.partition(b" ")
    if version != b"HTTP/1.1":
        raise ValueError(f"the answer is no HTTP/1.1: {line[:40]!r}")
    status = int(rest[:3])
    keep = True
    length_bytes = -1
    while True:
        line = stream.readline(_MAX_LINE_BYTES)
        if line == b"\r\n":
            break
        name, colon, value = line.partition(b":")
        if not colon:
            raise ValueError(f"the answer has a broken head: {line[:40]!r}")
        name = name.lower()
        if name == b"content-length":
            length_bytes = int(value)
        elif name == b"connection":
            keep = value.strip().lower() != b"close"
    if length_bytes < 0:
        raise ValueError("the answer has no length")
    content = stream.read(length_bytes)
    if len(content) < length_bytes:
        raise ValueError("the answer ended early")
    return status, keep, content


def _parse_object(status: int, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    if status == 200:
        raise ValueError("the answer is no JSON object")
    return {}  # an error says enough by its status
