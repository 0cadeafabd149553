"""The session: this worker's conversation with its controller.

What the script got wrong raises; what the controller got wrong, its absence included, never does.
The only thing that a controller can raise here is `Stop`.
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

from ._checkpoint import (
    Checkpoint,
    ReportedCheckpoint,
    checkpoint_from_answer,
    reported_from_answer,
)
from ._context import Context, context_from_answer, context_from_environment, int_from_environment
from ._log import LogSender
from ._metrics import check_step, encode_json, flatten_metrics
from ._notes import note, note_once
from ._notice import Notice, notice_from_answer
from ._transport import TRANSPORT_ERRORS, Transport

# How long a report waits to be taken, and a question for an answer.
ANSWER_TIMEOUT_S = 60.0
# Once the controller was silent for that long, a report waits this long, and only now and then:
# a controller that hangs costs a training loop a tenth of its time, not 60 s a step.
SILENT_TIMEOUT_S = 1.0
SILENT_PAUSE_S = 10.0


class Stop(SystemExit):
    """The controller asked this worker to stop: leave the training function.

    Raised by `report`. It is a `SystemExit` with code 0, so that a script which does not catch it
    ends cleanly, and ``except Exception`` does not swallow it. Catch it to save something first,
    within `Context.grace_period` seconds.
    """

    def __init__(self) -> None:
        super().__init__(0)


class Session:
    """The conversation with the controller at the other end of a unix socket."""

    def __init__(self, socket_path: str, rank: int) -> None:
        self._rank = rank
        self._transport = Transport(socket_path)
        self._sender = LogSender(self._transport, rank)
        self._context: Context | None = None
        self._notice: Notice | None = None
        self._timeout_s = ANSWER_TIMEOUT_S
        self._quiet_until_s = 0.0  # on the monotonic clock
        self._lost_reports = 0
        self._stop_requested = False

    @property
    def stop_requested(self) -> bool:
        """Whether the controller has said that this worker shall stop."""
        return self._stop_requested or self._sender.stop_requested

    def report(
        self,
        metrics: Mapping[str, object],
        step: int | None,
        checkpoint: dict[str, Any] | None = None,
    ) -> None:
        """See the function `report`; `checkpoint` is as it is sent."""
        body = {"rank": self._rank, **point(metrics, step)}
        if checkpoint is not None:
            body["checkpoint"] = checkpoint
        # Moving a checkpoint takes as long as it takes, and so does a driver that thinks about what
        # it was told before it asks for more.
        moves = checkpoint is not None and checkpoint["upload_mode"] == "sync"
        patient = moves or os.environ.get("TRAINHEAD_REPORTING") == "on_demand"
        answer = self._ask(
            "POST",
            "/report",
            encode_json(body).encode(),
            patient=patient,
            own_fields=() if checkpoint is None else ("checkpoint",),
        )
        if answer is None:
            self._lost_reports += 1
            return
        if self._lost_reports:
            lost, self._lost_reports = self._lost_reports, 0
            note(f"the controller takes reports again; {lost} before this one were lost")
        self._notice = notice_from_answer(answer) or self._notice
        if answer.get("stop") is True:
            self._stop_requested = True
            raise Stop

    def checkpoint(self) -> Checkpoint | None:
        """See the function `get_checkpoint`."""
        answer = self._ask("GET", f"/checkpoint?rank={self._rank}", b"", patient=True)
        if answer is None:
            return None
        try:
            return checkpoint_from_answer(answer.get("checkpoint"))
        except (KeyError, TypeError, ValueError) as error:
            note_once("checkpoint", f"the controller's checkpoint is incomplete ({error!r})")
            return None

    def reported_checkpoints(
        self, consistency: str, timeout_s: float | None
    ) -> list[ReportedCheckpoint]:
        """See the function `get_all_reported_checkpoints`."""
        target = f"/checkpoints?rank={self._rank}&consistency={consistency}"
        if timeout_s is not None:
            target += f"&timeout_s={timeout_s:g}"
        answer = self._ask("GET", target, b"", patient=True) or {}
        try:
            return [reported_from_answer(said) for said in answer.get("checkpoints", ())]
        except (KeyError, TypeError, ValueError) as error:
            note_once("checkpoints", f"the controller's checkpoints are incomplete ({error!r})")
            return []

    def heed_notices(self) -> None:
        """See the function `heed_notices`."""
        answer = self._ask("GET", f"/context?rank={self._rank}&heeds_notices=true", b"")
        self._notice = notice_from_answer(answer or {}) or self._notice

    def notice(self) -> Notice | None:
        """See the function `notice`."""
        return self._notice

    def finish(self, value: object) -> None:
        """See the function `finish`."""
        self._ask("POST", "/finish", encode_json({"rank": self._rank, "value": value}).encode())

    def next_trial(self, after: int) -> dict[str, Any] | None:
        """Ask for the trial after number `after`; None if nobody answers."""
        target = f"/trial?rank={self._rank}&after={after}"
        return self._ask("GET", target, b"", patient=True)

    def end_trial(self, number: int, said: Mapping[str, object]) -> None:
        """Tell that a trial's function has ended: its value, or its error."""
        body = {"rank": self._rank, "trial": number, **said}
        self._ask("POST", "/finish", encode_json(body).encode())

    def log(self, metrics: Mapping[str, object], step: int | None) -> None:
        """See the function `log`."""
        # Encoded here, not by the thread that sends: there, a large batch would keep the
        # interpreter lock from the training loop for as long as its encoding takes.
        self._sender.put(encode_json(point(metrics, step)).encode())

    def context(self) -> Context:
        """See the function `get_context`."""
        if self._context is None:
            answer = self._ask("GET", f"/context?rank={self._rank}", b"")
            if answer is None:
                return context_from_environment()
            try:
                self._context = context_from_answer(answer, self._fetched_path)
            except (KeyError, TypeError, ValueError) as error:
                note_once("context", f"the controller's context is incomplete ({error!r})")
                return context_from_environment()
        return self._context

    def close(self) -> None:
        """Deliver what was logged, as far as that goes within its bound."""
        self._sender.close()
        self._transport.close()

    def abandon(self) -> None:
        """In a forked child: let go of what is the parent's."""
        self._transport.abandon()

    def _fetched_path(self) -> str | None:
        checkpoint = self.checkpoint()
        return None if checkpoint is None else checkpoint.path

    def _ask(
        self,
        method: str,
        target: str,
        body: bytes,
        patient: bool = False,
        own_fields: tuple[str, ...] = (),
    ) -> dict[str, Any] | None:
        """Return the controller's answer, or None, with a note, if there is none to be had.

        If `patient` it may take any time. What is wrong with `own_fields` is the script's fault.

        Raises:
            ValueError: the controller refused one of `own_fields`.
        """
        if time.monotonic() < self._quiet_until_s and not patient:
            return None
        timeout_s = None if patient else self._timeout_s
        try:
            status, answer = self._transport.request(method, target, body, timeout_s)
        except socket.timeout as error:
            waited_s, self._timeout_s = self._timeout_s, SILENT_TIMEOUT_S
            self._quiet_until_s = time.monotonic() + SILENT_PAUSE_S
            note_once(
                "silent", f"no answer of the controller in {waited_s:g} s, going on ({error})"
            )
            return None
        except TRANSPORT_ERRORS as error:
            note_once("unreachable", f"the controller cannot be reached, going on ({error!r})")
            return None
        self._timeout_s = ANSWER_TIMEOUT_S
        if status != 200:
            detail = answer.get("detail", "no reason given")
            if str(answer.get("field")).partition(".")[0] in own_fields:
                raise ValueError(f"the controller refused the report: {detail}")
            path = target.partition("?")[0]
            note_once(f"refused {path}", f"the controller refused {path}: {status}, {detail}")
            return None
        return answer


def point(metrics: Mapping[str, object], step: int | None) -> dict[str, Any]:
    """Return one point as it is sent: checked, flat, with the time of now."""
    flat = flatten_metrics(metrics)
    step = check_step(step)
    point: dict[str, Any] = {"time_ms": time.time_ns() // 1_000_000, "metrics": flat}
    if step is not None:
        point["step"] = step
    return point


# The session of this process: begun by the first call that needs it, not by the import, so that a
# script may still set its environment.
_session: Session | None = None
_session_lock = threading.RLock()  # reentrant: a signal handler may report, too


def current_session() -> Session | None:
    global _session
    if _session is None:
        with _session_lock:
            if _session is None:
                _session = _begin_session()
    return _session


def renew_session() -> Session | None:
    """Deliver what was logged, and begin the conversation anew."""
    global _session
    with _session_lock:
        last, _session = _session, None
    if last is not None:
        last.close()
    return current_session()


def _begin_session() -> Session | None:
    address = os.environ.get("TRAINHEAD_SESSION")
    if not address:
        return None
    scheme, _, path = address.partition(":")
    if scheme != "unix" or not path:
        note_once("no-session", f"cannot use TRAINHEAD_SESSION={address}: metrics are not recorded")
        return None
    return Session(path, int_from_environment("RANK", default=0))


def _end_session() -> None:
    if _session is not None:
        _session.close()


def _abandon_session() -> None:
    """In a forked child: the parent's connections, thread, queue and locks are not ours."""
    global _session, _session_lock
    inherited, _session, _session_lock = _session, None, threading.RLock()
    if inherited is not None:
        inherited.abandon()


atexit.register(_end_session)
os.register_at_fork(after_in_child=_abandon_session)
