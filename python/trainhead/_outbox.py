"""A controller's way to a head that comes and goes.

Whatever is said goes through a queue in memory to a spool on disk, and from there, in order and one
at a time, to the head. Nothing here raises into the caller or waits for the head, but `close`,
which says how long it may.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._delivery import Delivery, NotNowError, NotRecordedError
from ._head import ANSWER_TIMEOUT_S, HeadClient, head_finder, named_head
from ._host import data_dir as find_data_dir
from ._metrics import Number
from ._notes import note, note_once
from ._pulse import Pulse, StopRequest
from ._queue import Point, word
from ._writer import DISK_TIMEOUT_S, Writer

# How long a contact vouches for a controller, unless the registration says otherwise.
LEASE_MS = 30_000
# Pauses before another try, doubling.
RETRY_FIRST_S = 0.1
RETRY_MOST_S = 5.0
# The same while the run ends.
CLOSING_RETRY_S = 0.3
# Where nobody listens at all, the end of a run is not held up for longer.
ABSENT_S = 1.0
# The head is told of the end for so long when a run ends, unless somebody says otherwise.
CLOSE_TIMEOUT_S = 10.0


class Outbox:
    """Registers a run at a head as its controller, and says what happens to it.

    Example::

        register = registration(name="mnist", config={"lr": 0.1})
        outbox = Outbox(register)
        outbox.begin_attempt({"attempt_id": new_id(), "num_workers": 1})
        outbox.report(0, 0, step=1, time_ms=now_ms(), metrics={"loss": 0.5})
        outbox.say("end", {"run_status": "FINISHED"})
        outbox.close(10.0)

    Args:
        register: the body of the registration, with an ``id``; see `registration`.
        head: the head's address. Without it ``TRAINHEAD_URL``, else the head of the data
            directory, which is looked for again as long as it is absent.
        data_dir: the data directory; without it that of the `trainhead` command.
        spool: where what waits lies; without it ``<data dir>/spool/<run id>-<writer>``.
    """

    def __init__(
        self,
        register: Mapping[str, Any],
        *,
        head: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        spool: Path | None = None,
    ) -> None:
        self.run_id = str(register["id"])
        self._register = dict(register)
        controller = register["controller"]
        actor_id = str(controller["actor_id"])
        lease_s = (controller.get("lease_ttl_ms") or LEASE_MS) / 1000
        directory = find_data_dir(data_dir)
        self._find = head_finder(head, directory)
        self._named = named_head(head) or None
        self.spool_dir = spool or directory / "spool" / f"{self.run_id}-{actor_id}"
        self._writer = Writer(self.spool_dir, actor_id, self._about(None))
        self._pulse = Pulse(self._find, self.run_id, lease_s)
        self._name: str | None = None
        self._num_attempts = 0
        self._registered = threading.Event()
        self._tried = threading.Event()  # registered, or that went wrong once
        self._gone = False  # not recorded, or the child of a fork
        self._closing = threading.Event()
        self._deadline = 0.0
        self._away = False
        self._complete = False
        self._delivering = threading.Thread(
            target=self._deliver, name="trainhead-delivery", daemon=True
        )
        try:
            self._delivering.start()
            self._pulse.start()
        except RuntimeError as error:
            note_once("outbox-thread", f"the run is not recorded: {error}")
        _outboxes.add(self)

    @property
    def stop(self) -> StopRequest | None:
        """What the head said about stopping, once somebody has asked for it."""
        return self._pulse.stop

    @property
    def head_url(self) -> str | None:
        """Where the head is, as far as is known."""
        return self._find()

    @property
    def dropped_points(self) -> int:
        """How many points found no place."""
        return self._writer.dropped

    @property
    def name(self) -> str | None:
        """The run's name, once the head has told it."""
        return self._name

    @property
    def num_attempts(self) -> int:
        """How many attempts the run had when this controller was registered."""
        return self._num_attempts

    def wait_registered(self, timeout_s: float) -> bool:
        """Wait until the head has taken the registration, or is seen not to; return whether it has.

        No longer than `timeout_s`.
        """
        self._tried.wait(timeout_s)
        return self._registered.is_set()

    def say(self, verb: str, body: object) -> None:
        """Say a verb of a controller, as ``set_state``, ``end_attempt`` or ``end``.

        Those of an attempt have a `body` of two parts: ``[attempt_id, {...}]``.
        """
        self._writer.put(word("say", {"verb": verb, "body": body}))

    def begin_attempt(self, body: Mapping[str, Any]) -> None:
        """Say that an attempt begins; reports of it may follow at once."""
        # Not a line `begin`, which is for a controller that waits for the answer and goes by it.
        self.say("begin_attempt", dict(body))

    def report(
        self, attempt: int, rank: int, step: int, time_ms: int, metrics: Mapping[str, Number]
    ) -> None:
        """Report metrics of a rank, as `flatten_metrics` makes them."""
        if metrics:
            self._writer.put(Point(attempt, rank, step, time_ms, dict(metrics)))

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Deliver what is left, for at most `timeout_s`; return whether all of it was.

        Otherwise it lies in `spool_dir` until somebody delivers it. Nothing can be said afterwards.
        """
        self._deadline = time.monotonic() + timeout_s
        # First, so that who delivers sees all of it when it looks for the last time.
        self._writer.close(min(timeout_s, DISK_TIMEOUT_S))
        self._closing.set()
        self._pulse.close()
        self._writer.wake()
        if (
            self._delivering is not threading.current_thread()
            and self._delivering.ident is not None
        ):
            self._delivering.join(max(self._deadline - time.monotonic(), 0))
        _outboxes.discard(self)
        return self._complete

    def abandon(self) -> None:
        """In a forked child: the run is the parent's."""
        self._gone = True
        self._writer.abandon()

    def _about(self, token: str | None) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "head": self._named,
            "register": self._register,
            "controller_token": token,
        }

    def _on_token(self, token: str, answer: dict[str, Any], joined: bool) -> None:
        count = answer.get("num_attempts")
        self._num_attempts = count if isinstance(count, int) else 0
        self._name = answer.get("name")
        if joined:
            note(
                f"run {self._name or self.run_id} has another controller, or has ended: metrics are"
                " added to it, and nothing else is changed"
            )
        self._pulse.registered(token)
        self._writer.describe(self._about(token))
        self._registered.set()
        self._tried.set()

    def _deliver(self) -> None:
        client = HeadClient(self._find)
        delivery = Delivery(client, self._register, on_token=self._on_token)
        pause_s = RETRY_FIRST_S
        while True:
            try:
                self._deliver_all(delivery)
                pause_s = RETRY_FIRST_S
                if self._closing.is_set():
                    self._complete = True
                    break
                self._writer.wait()
                continue
            except NotNowError as error:
                self._trouble(error)
                wait_s = error.retry_after_s if error.retry_after_s is not None else pause_s
                pause_s = min(pause_s * 2, RETRY_MOST_S)
            except NotRecordedError as error:
                note_once("not-recorded", f"the run is not recorded: {error}")
                self._gone = self._complete = True
                self._pulse.close()
                self._writer.refuse()
                self._tried.set()
                break
            if not self._closing.wait(wait_s):
                continue
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(wait_s, CLOSING_RETRY_S, left_s))
        client.close()
        self._writer.leave(delivered=self._complete)

    def _deliver_all(self, delivery: Delivery) -> None:
        delivery.register(self._timeout_s())
        while (line := self._writer.next()) is not None:
            delivery.deliver(line, self._timeout_s())
            self._writer.done()
            if self._away:
                self._away = False
                note("the head answers again")

    def _timeout_s(self) -> float:
        """How long an answer is waited for."""
        most = ANSWER_TIMEOUT_S
        if self._closing.is_set():
            most = min(most, max(self._deadline - time.monotonic(), 0.1))
        return most

    def _trouble(self, error: NotNowError) -> None:
        self._tried.set()
        if not self._away:
            self._away = True
            note(f"the head is away ({error}); the run goes on, and is delivered later")
        if self._closing.is_set() and error.nobody:
            # Waiting longer brings little, and the process is to end.
            self._deadline = min(self._deadline, time.monotonic() + ABSENT_S)


_outboxes: weakref.WeakSet[Outbox] = weakref.WeakSet()


def _abandon_all() -> None:
    for outbox in list(_outboxes):
        outbox.abandon()
    _outboxes.clear()


os.register_at_fork(after_in_child=_abandon_all)
