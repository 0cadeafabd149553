"""The head of TrainHead as seen over HTTP: where it is, one request and its answer.

What a request means, and whether to send it again, is for the callers.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable
from urllib.parse import quote, urlsplit

CONNECT_TIMEOUT_S = 5.0
# Of one wait for an answer.
ANSWER_TIMEOUT_S = 10.0
# A head that says "later" is not waited for longer than this before it is asked again.
MAX_RETRY_AFTER_S = 60.0
_MAX_ANSWER_BYTES = 16 * 2**20

# What a request may fail with when the head is away, hangs or is no head.
HEAD_ERRORS = (OSError, ValueError, http.client.HTTPException)

FindHead = Callable[[], "str | None"]


def head_finder(head: str | None, data_dir: Path) -> FindHead:
    """Return what finds the head's address: asked again each time, for a head may move.

    It is `head`, else ``TRAINHEAD_URL``, else that of the head which serves the data directory.
    """
    named = named_head(head)
    return (lambda: named) if named else (lambda: _serving(data_dir))


def named_head(head: str | None) -> str | None:
    """Return the address that somebody named, in the argument or the environment."""
    named = (head or os.environ.get("TRAINHEAD_URL") or "").strip().rstrip("/")
    return named if not named or "://" in named else f"http://{named}"


def _serving(data_dir: Path) -> str | None:
    try:
        url = json.loads((data_dir / "head.json").read_text())["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url.rstrip("/") if isinstance(url, str) else None


@dataclass(frozen=True)
class Answer:
    """What the head said.

    Attributes:
        status: the HTTP status.
        body: the JSON object; empty if there is none.
        retry_after_s: how long it asks to be left alone, if it does.
    """

    status: int
    body: dict[str, Any] = field(default_factory=dict)
    retry_after_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it was taken."""
        return 200 <= self.status < 300

    @property
    def later(self) -> bool:
        """Whether the same request may be taken at another time."""
        return self.status in (408, 425, 429) or self.status >= 500 or self._waits

    @property
    def _waits(self) -> bool:
        return self.retry_after_s is not None and not self.ok

    @property
    def problem(self) -> str:
        """The head's word for what is wrong; empty if this is no answer of a head."""
        kind = self.body.get("type")
        prefix = "/problems/"
        return kind[len(prefix) :] if isinstance(kind, str) and kind.startswith(prefix) else ""

    @property
    def said(self) -> str:
        """What is wrong, for people."""
        detail = self.body.get("detail")
        return f"{self.status}, {detail}" if isinstance(detail, str) else str(self.status)


class HeadClient:
    """Requests to the head over one kept connection. For one thread at a time."""

    def __init__(self, find: FindHead) -> None:
        self._find = find
        self._url: str | None = None
        self._connection: http.client.HTTPConnection | None = None

    @property
    def url(self) -> str | None:
        """Where the head is, or was when it was looked for last."""
        return self._url or self._find()

    def post(
        self,
        path: str,
        body: bytes,
        token: str | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Answer:
        """Return the head's answer. Fails with one of `HEAD_ERRORS`."""
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        kept = self._connection is not None
        try:
            return self._exchange(path, body, headers, timeout_s)
        except (ConnectionError, http.client.BadStatusLine):
            # A kept connection may have been closed at the other end since its last use. That
            # shows only now, and says nothing about the head: once more on a new one.
            if not kept:
                raise
            return self._exchange(path, body, headers, timeout_s)

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._url = self._connection, None, None
        if connection is not None:
            connection.close()

    def _exchange(
        self, path: str, body: bytes, headers: dict[str, str], timeout_s: float
    ) -> Answer:
        try:
            connection, prefix = self._connected(timeout_s)
            connection.request("POST", prefix + path, body, headers)
            answer = connection.getresponse()
            content = answer.read(_MAX_ANSWER_BYTES)
            if answer.will_close:
                self.close()
        except BaseException:
            # An answer may still be on its way; nobody else must read it as theirs. And the head
            # may be elsewhere by now.
            self.close()
            raise
        return Answer(answer.status, _object(content), _seconds(answer.getheader("Retry-After")))

    def _connected(self, timeout_s: float) -> tuple[http.client.HTTPConnection, str]:
        if self._connection is None:
            url = self._find()
            if url is None:
                raise ConnectionRefusedError("no head is to be found")
            self._connection = _connect(url, min(CONNECT_TIMEOUT_S, timeout_s))
            self._url = url
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_s)
        return self._connection, urlsplit(self._url or "").path.rstrip("/")


def _connect(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no address of a head")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=timeout_s)
    connection.connect()
    # Small messages are not to wait for each other.
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _seconds(retry_after: str | None) -> float | None:
    try:
        return None if retry_after is None else min(max(float(retry_after), 0), MAX_RETRY_AFTER_S)
    except ValueError:
        return None  # a date; the usual pause does


def run_path(run_id: str, rest: str = "") -> str:
    """Return the path of a run on the head."""
    return f"/api/train/runs/{quote(run_id, safe='')}{rest}"
