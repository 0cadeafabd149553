"""Heartbeats of a controller: they renew its lease, and bring word of a stop request.

Beside the delivery, so that both go on however much there is to deliver.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from ._head import HEAD_ERRORS, FindHead, HeadClient
from ._host import now_ms
from ._metrics import encode_json

# Heartbeats within a lease.
BEATS = 6
# A beat is short: the next one says the same.
BEAT_TIMEOUT_S = 5.0


class StopRequest(NamedTuple):
    """Somebody wants the run to stop."""

    reason: str | None
    grace_period_s: float | None


class Pulse:
    """Beats from a daemon thread, from the registration of the run on.

    Attributes:
        stop: what the head said about stopping, once somebody has asked for it.
    """

    def __init__(self, find: FindHead, run_id: str, lease_s: float) -> None:
        self._find = find
        self._run_id = run_id
        self._every_s = lease_s / BEATS
        self._token: str | None = None
        self._changed = threading.Event()
        self._closed = False
        self.stop: StopRequest | None = None

    def start(self) -> None:
        """Start the thread. Fails with RuntimeError if there can be no more threads."""
        threading.Thread(target=self._run, name="trainhead-pulse", daemon=True).start()

    def registered(self, token: str) -> None:
        """Beat with this token from now on."""
        self._token = token
        self._changed.set()

    def close(self) -> None:
        """Beat no more."""
        self._closed = True
        self._changed.set()

    def _run(self) -> None:
        client = HeadClient(self._find)
        self._changed.wait()
        while not self._closed:
            self._changed.clear()
            self._beat(client)
            self._changed.wait(0 if self._closed else self._every_s)
        client.close()

    def _beat(self, client: HeadClient) -> None:
        beat = {"run_id": self._run_id, "controller_token": self._token, "time_ms": now_ms()}
        body = encode_json({"runs": [beat]}).encode()
        try:
            answer = client.post("/api/train/heartbeats", body, timeout_s=BEAT_TIMEOUT_S)
            (said,) = answer.body.get("runs", ())
            if said["stop_requested"] and self.stop is None:
                grace_ms = said.get("grace_period_ms")
                grace_s = None if grace_ms is None else float(grace_ms) / 1000
                self.stop = StopRequest(said.get("stop_reason"), grace_s)
        except (*HEAD_ERRORS, KeyError, TypeError):
            pass  # the delivery says what is the matter; the next beat may do better
