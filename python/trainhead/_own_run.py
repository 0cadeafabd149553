"""A run whose controller and only worker is this process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from . import _life, _session
from ._ending import Ending, by_exception, stopped
from ._host import host_address, host_name, new_id, now_ms
from ._metrics import MAX_STEP, check_step, flatten_metrics
from ._notes import note, note_once
from ._outbox import CLOSE_TIMEOUT_S, Outbox
from ._run import Run

# How long a head that hangs can hold up the beginning of a run.
REGISTER_TIMEOUT_S = 2.0


class OwnRun(Run):
    """A run whose controller and only worker is this process."""

    def __init__(
        self,
        register: dict[str, Any],
        head: str | None,
        data_dir: str | os.PathLike[str] | None,
    ) -> None:
        self.id = register["id"]
        self._name = register.get("name")
        self._outbox = Outbox(register, head=head, data_dir=data_dir)
        self._pid = os.getpid()
        self._attempt = new_id()
        self._last_step = -1
        self._stop_seen = False
        self._handled = sys.exc_info()[1]  # by a caller, and none of ours
        self._ended = False
        self._worker = register["controller"]["actor_id"]
        self._begin()
        # Most heads answer at once. Then the run is known before its process can be killed.
        self._outbox.wait_registered(REGISTER_TIMEOUT_S)

    @property
    def name(self) -> str:
        """See `Run`."""
        return self._name or self._outbox.name or self.id

    @property
    def url(self) -> str | None:
        """See `Run`."""
        head = self._outbox.head_url
        return None if head is None else f"{head}/runs/{self.id}"

    @property
    def stop_requested(self) -> bool:
        """See `Run`."""
        self._stop_seen = self._stop_seen or self._outbox.stop is not None
        return self._stop_seen

    def log(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """See `Run`."""
        flat, step = flatten_metrics(metrics), check_step(step)
        if step is None:
            step = min(self._last_step + 1, MAX_STEP)
        if step > self._last_step:
            self._last_step = step
        if self._ended or self._pid != os.getpid():
            self._note_unrecorded()
        else:
            self._outbox.report(0, 0, step, time.time_ns() // 1_000_000, flat)

    def report(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """See `Run`."""
        self.log(metrics, step)
        if self.stop_requested and not self._ended and self._pid == os.getpid():
            raise _session.Stop

    def finish(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """See `Run`."""
        error = sys.exc_info()[1]
        self.end(by_exception(None if error is self._handled else error), timeout_s)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(by_exception(error))

    def end(self, ending: Ending | None, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """End the run, once; in a forked child do nothing, as it is the parent's.

        With None for an ending nothing is said: the head concludes that the process ended.
        """
        if self._ended or self._pid != os.getpid():
            return
        self._ended = True
        ending = self._as_stopped(ending)
        if ending is not None:
            self._say_end(ending)
        else:
            note(
                f"run {self.name} will be shown as ABORTED: this script was left by SystemExit,"
                " with a code that cannot be known here; leave by sys.exit(), or use"
                " `with trainhead.init(...)`"
            )
        delivered = False
        try:
            delivered = self._outbox.close(timeout_s)
        finally:
            # Also if somebody presses Ctrl-C meanwhile.
            _life.forget(self)
            self._note_rest(delivered)

    def _note_rest(self, delivered: bool) -> None:
        if self._outbox.dropped_points:
            note(f"{self._outbox.dropped_points} points of run {self.name} were dropped in all")
        if not delivered:
            note(
                f"the head has not taken all of run {self.name}; the rest is in"
                f" {self._outbox.spool_dir}\n"
                f"trainhead: deliver it with: trainhead sync {self._outbox.spool_dir}"
            )

    def _as_stopped(self, ending: Ending | None) -> Ending | None:
        """What a stop request has brought about is no end of its own."""
        stop = self._outbox.stop
        if stop is None:
            return ending
        left = ending is None or ending.status == "FINISHED"
        if not (left and self._stop_seen) and not (ending and ending.signal):
            return ending
        detail = "stopped by request" + (f": {stop.reason}" if stop.reason else "")
        code, signal = (0, None) if ending is None else (ending.exit_code, ending.signal)
        return stopped(detail, code, signal)

    def _begin(self) -> None:
        self._outbox.begin_attempt({"attempt_id": self._attempt, "num_workers": 1})
        worker = {
            "actor_id": self._worker,
            "world_rank": 0,
            "node_id": host_name(),
            "node_ip": host_address(),
            "pid": os.getpid(),
        }
        self._outbox.say("attempt_running", [self._attempt, {"workers": [worker]}])
        self._outbox.say("set_state", {"state": "RUNNING"})

    def _say_end(self, ending: Ending) -> None:
        now = now_ms()
        if ending.exit_code is not None or ending.signal is not None:
            exit = {"code": ending.exit_code, "signal": ending.signal, "time_ms": now}
            dead = {"world_rank": 0, "status": "DEAD", "exit": exit}
            self._outbox.say("change_workers", [self._attempt, {"workers": [dead]}])
        attempt = {
            "status": ending.status,
            "end_reason": ending.reason,
            "status_detail": ending.detail,
        }
        self._outbox.say("end_attempt", [self._attempt, attempt])
        run: dict[str, Any] = {
            "run_status": ending.status,
            "status_detail": ending.detail,
            "end_time_ms": now,
        }
        if ending.status == "ERRORED":
            run["first_failure"] = {
                "rank": 0,
                "attempt": 0,
                "pid": self._pid,
                "host": host_name(),
                "exit_code": ending.exit_code,
                "signal": ending.signal,
                "message": ending.detail,
                "log_tail": ending.trace,
                "time_ms": now,
                "consequences": [],
            }
        self._outbox.say("end", run)

    def _note_unrecorded(self) -> None:
        if self._ended:
            note_once("log-ended", f"run {self.name} has ended: what is logged now is not recorded")
        else:
            note_once("log-forked", "a forked process does not record to its parent's run")
