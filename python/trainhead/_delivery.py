"""Saying one line of a spool to the head, and what becomes of it.

Used while a run lives, and by `sync` afterwards.
"""

from __future__ import annotations

import json
from typing import Any, Callable

from ._head import ANSWER_TIMEOUT_S, HEAD_ERRORS, Answer, HeadClient, run_path
from ._metrics import encode_json
from ._notes import note_once

# A line that the head refuses with one of these may still be taken with another token.
_OTHER_TOKEN = ("run-not-found", "wrong-token")
# Another controller has the run, or it has ended: metrics are still taken, of who joins it.
_JOIN = ("run-exists", "run-ended", "stale-controller")

_REPORT = b'{"report":'


class NotNowError(Exception):
    """The head is away, or wants to be asked again.

    Attributes:
        retry_after_s: after this long, if it said so.
        nobody: whether nobody listens there at all.
    """

    def __init__(self, why: str, retry_after_s: float | None = None, nobody: bool = False) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s
        self.nobody = nobody


class NotRecordedError(Exception):
    """The head does not take this run, now and ever. The text says why."""


class Delivery:
    """Says what one run has to say: registers it first, then line by line.

    For one thread. `on_token` is called when the run's token is known, with the whole answer and
    whether the run was only joined.

    Attributes:
        token: with which the run is written to.
        joined: the run is another controller's, or has ended: only metrics are delivered.
        refused: how many lines the head refused for good.
    """

    def __init__(
        self,
        client: HeadClient,
        register: dict[str, Any],
        token: str | None = None,
        on_token: Callable[[str, dict[str, Any], bool], None] = lambda token, answer, joined: None,
    ) -> None:
        self._client = client
        self._register = register
        self._run_id = str(register["id"])
        self._on_token = on_token
        self.token = token
        self.joined = False
        self.refused = 0

    def register(self, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Register the run, unless its token is known.

        Raises:
            NotNowError: try again.
            NotRecordedError: there is no use in it.
        """
        if self.token is not None:
            return
        answer = self._ask("/api/train/runs", self._register, timeout_s)
        if answer.problem in _JOIN and self.join(timeout_s):
            return
        token = answer.body.get("controller_token")
        if answer.ok and isinstance(token, str):
            self.token = token
            self._on_token(token, answer.body, self.joined)
        elif answer.problem:
            raise NotRecordedError(answer.said)
        else:
            # No head answers so: its address may be another program's by now.
            raise NotNowError(f"what answers is no head ({answer.said})")

    def join(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        """Deliver metrics only from now on, which say nothing of whether the controller lives.

        Returns whether the head lets us.

        Raises:
            NotNowError: try again.
        """
        body = {**self._register, "join": True}
        body.pop("resume", None)
        answer = self._ask("/api/train/runs", body, timeout_s)
        token = answer.body.get("controller_token")
        if not answer.ok or not isinstance(token, str):
            return False
        self.joined = True
        self.token = token
        self._on_token(token, answer.body, self.joined)
        return True

    def deliver(self, line: bytes, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        """Say one line, and register the run if need be; return whether it was taken.

        False is final: the head refused it, or has no use for it.

        Raises:
            NotNowError: try again.
            NotRecordedError: there is no use in it.
        """
        try:
            path, body, metrics = _request(line)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self._refuse("a line", f"it cannot be read ({error!r})")
            return False
        renewed = False
        while True:
            self.register(timeout_s)
            if self.joined and not metrics:
                return False
            answer = self._post(run_path(self._run_id, path), body, timeout_s)
            if answer.ok:
                return True
            if renewed or not self._renew(answer.problem, metrics):
                break
            renewed = True
        self._refuse("metrics" if metrics else "a change", answer.said)
        return False

    def _renew(self, problem: str, metrics: bool) -> bool:
        """Let go of the token if another one may do better."""
        if problem in _OTHER_TOKEN:
            self.joined, self.token = False, None
            return True
        if problem in _JOIN and metrics and not self.joined:
            self.token = None
            return True
        return False

    def _ask(self, path: str, body: dict[str, Any], timeout_s: float) -> Answer:
        return self._post(path, encode_json(body).encode(), timeout_s, with_token=False)

    def _post(self, path: str, body: bytes, timeout_s: float, with_token: bool = True) -> Answer:
        token = self.token if with_token else None
        try:
            answer = self._client.post(path, body, token, timeout_s)
        except HEAD_ERRORS as error:
            nobody = isinstance(error, ConnectionRefusedError)
            raise NotNowError(str(error) or repr(error), nobody=nobody) from error
        if answer.later:
            raise NotNowError(answer.said, answer.retry_after_s)
        return answer

    def _refuse(self, what: str, why: str) -> None:
        self.refused += 1
        note_once(f"refused {what}", f"the head did not take {what}: {why}")


def is_report(line: bytes) -> bool:
    """Whether a line of a spool is metrics, which are most of it."""
    return line.startswith(_REPORT)


def _request(line: bytes) -> tuple[str, bytes, bool]:
    """Return path below the run, body, and whether it is metrics."""
    if is_report(line):
        # As it is: reading it would take longer than all the rest.
        return "/reports", line[len(_REPORT) : -1], True
    ((kind, value),) = json.loads(line).items()
    if kind == "report":
        return "/reports", encode_json(value).encode(), True
    if kind == "begin":
        return "/attempts", encode_json(value["body"]).encode(), False
    verb, body = value["verb"], value["body"]
    if verb in _OF_ATTEMPT:
        attempt, body = body
        path = f"/attempts/{attempt}/{_OF_ATTEMPT[verb]}"
    else:
        path = _OF_RUN[verb]
    return path, encode_json(body).encode(), False


_OF_RUN = {"set_state": "/state", "begin_attempt": "/attempts", "end": "/end"}
_OF_ATTEMPT = {"attempt_running": "running", "change_workers": "workers", "end_attempt": "end"}
