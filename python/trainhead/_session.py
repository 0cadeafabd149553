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

from . import _life
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
        self.stop_requested = False

    def report(self, metrics: Mapping[str, object], step: int | None) -> None:
        """See the function `report`."""
        body = encode_json({"rank": self._rank, **_point(metrics, step)}).encode()
        answer = self._ask("POST", "/report", body)
        if answer is None:
            self._lost_reports += 1
            return
        if self._lost_reports:
            lost, self._lost_reports = self._lost_reports, 0
            note(f"the controller takes reports again; {lost} before this one were lost")
        self._notice = notice_from_answer(answer) or self._notice
        if answer.get("stop") is True:
            self.stop_requested = True
            raise Stop

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

    def log(self, metrics: Mapping[str, object], step: int | None) -> None:
        """See the function `log`."""
        # Encoded here, not by the thread that sends: there, a large batch would keep the
        # interpreter lock from the training loop for as long as its encoding takes.
        self._sender.put(encode_json(_point(metrics, step)).encode())

    def context(self) -> Context:
        """See the function `get_context`."""
        if self._context is None:
            answer = self._ask("GET", f"/context?rank={self._rank}", b"")
            if answer is None:
                return context_from_environment()
            try:
                self._context = context_from_answer(answer)
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

    def _ask(self, method: str, target: str, body: bytes) -> dict[str, Any] | None:
        """Return the controller's answer, or None, with a note, if there is none to be had."""
        if time.monotonic() < self._quiet_until_s:
            return None
        try:
            status, answer = self._transport.request(method, target, body, self._timeout_s)
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
            note_once(f"refused {target}", f"the controller refused {target}: {status}, {detail}")
            return None
        return answer


def report(metrics: Mapping[str, object], *, step: int | None = None) -> None:
    """Hand `metrics` to the controller and wait until it has taken them.

    Call it on every rank, at points where the training may be stopped: once an epoch, or every
    some hundred steps. For the steps between, use `log`.

    The wait is bounded: if the controller does not answer for 60 seconds, or is gone, there is one
    note on stderr and the training goes on without it. Outside of a session the metrics are only
    checked.

    Example::

        for epoch in range(epochs):
            loss = train_one_epoch()
            trainhead.report({"loss": loss, "test": {"accuracy": evaluate()}}, step=epoch)

    Args:
        metrics: numbers by name. Nested dicts become names with a slash, as ``test/accuracy``.
            Numbers are int, float (NaN and infinities, too), bool, and whatever has one number to
            give by ``.item()``: numpy scalars, tensors of one element.
        step: the training step that they belong to, an integer from 0. Without it, the count of
            this run's reports.

    Raises:
        TypeError: a metric is no number, or `step` no integer; the message names the key.
        ValueError: a metric or a key cannot be stored; the message names the key.
        Stop: the controller wants this worker to stop.
    """
    session = _current_session()
    if session is not None:
        session.report(metrics, step)
    elif (run := _life.newest()) is not None:
        run.report(metrics, step)
    else:
        _check_only(metrics, step)


def log(metrics: Mapping[str, object], *, step: int | None = None) -> None:
    """Queue `metrics` for the controller and return at once.

    For every step, on any rank. It takes some microseconds, whatever the controller does: a
    thread sends the points ten times a second, and the rest when the interpreter ends (for 10
    seconds at most). When 8 MiB of them wait, the oldest are dropped, counted and noted on stderr
    once. A process that is killed loses the last tenth of a second, and so does a forked one that
    ends by ``os._exit``, as those of `multiprocessing` do.

    Example::

        for step, batch in enumerate(batches):
            trainhead.log({"batch/loss": train(batch), "lr": lr}, step=step)

    Args:
        metrics: as for `report`.
        step: as for `report`.

    Raises:
        TypeError: as for `report`.
        ValueError: as for `report`.
    """
    session = _current_session()
    if session is not None:
        session.log(metrics, step)
    elif (run := _life.newest()) is not None:
        run.log(metrics, step)
    else:
        _check_only(metrics, step)


def get_context() -> Context:
    """Return the run that this process is a worker of, and its place in it.

    Asks the controller once. Outside of a session, or if the controller does not answer, the ranks
    come from the environment (``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ...), by default those of
    a process that trains alone.

    Example::

        context = trainhead.get_context()
        shard = data[context.rank :: context.world_size]

    Raises:
        ValueError: a variable of the environment that should be an integer is not.
    """
    session = _current_session()
    return context_from_environment() if session is None else session.context()


def heed_notices() -> None:
    """Say that this worker acts on a `notice` by itself, before its training loop begins.

    When every rank has said so, a group that is going to be preempted or resized is left to itself
    until shortly before the notice's deadline. Otherwise it gets the stop signal at once.

    Example::

        trainhead.heed_notices()
        for step in range(start, steps):
            loss = train_one_step()
            trainhead.report({"loss": loss}, step=step)
            notice = trainhead.notice()
            if notice and step == (notice.checkpoint_at_step or step):
                save_checkpoint(step)
                sys.exit(0)
    """
    session = _current_session()
    if session is not None:
        session.heed_notices()


def notice() -> Notice | None:
    """Return what the last `report` brought: the notice that this group is going to be ended.

    None as long as nothing is known, and outside of a session.
    """
    session = _current_session()
    return None if session is None else session.notice()


def finish(value: object) -> None:
    """Hand over what the training returns, for `TrainResult`; that of rank 0 is kept.

    Args:
        value: anything that is JSON: numbers, texts, lists and dicts of them.

    Raises:
        TypeError: `value` is not.
        ValueError: it holds itself.
    """
    session = _current_session()
    if session is not None:
        session.finish(value)


def _check_only(metrics: Mapping[str, object], step: int | None) -> None:
    note_once(
        "no-session",
        "neither started by `trainhead run` nor after `trainhead.init()`: metrics are checked,"
        " not recorded",
    )
    _point(metrics, step)


def _point(metrics: Mapping[str, object], step: int | None) -> dict[str, Any]:
    """One point as it is sent: checked, flat, with the time of now."""
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


def _current_session() -> Session | None:
    global _session
    if _session is None:
        with _session_lock:
            if _session is None:
                _session = _begin_session()
    return _session


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
