"""What is known of one run of Ray Train, and how it is said to the head.

Knows Ray's objects, but imports nothing of Ray's: states and errors are told apart by their names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ._host import new_id, now_ms
from ._metrics import flatten_metrics
from ._outbox import Outbox
from ._ray_words import (
    Why,
    first_failure,
    is_terminal,
    resized_to,
    settings,
    state_name,
    text,
    versions,
    why_ended,
)
from ._recorder import numbers
from ._registration import registration

# How long the end of the run may keep Ray's controller from ending: the head is away then, and what
# is left goes to the spool.
_CLOSE_TIMEOUT_S = 5.0
# How the names begin that Ray makes up.
_MADE_UP = "ray_train_run-"
_INTERRUPTED = "aborted: the driver was interrupted (SIGINT)"


@dataclasses.dataclass
class _Attempt:
    id: str
    ordinal: int
    pids: dict[int, tuple[int, str]] = dataclasses.field(default_factory=dict)  # and the host
    dead: set[int] = dataclasses.field(default_factory=set)


class RayRun:
    """One run, driven by Ray's controller in this process."""

    def __init__(
        self,
        context: Any,
        *,
        actor_id: str,
        job_id: str,
        head: str | None,
        data_dir: str | None,
    ) -> None:
        config = context.run_config
        body = registration(
            config.name,
            # Runs of one name share a directory in Ray's storage, which Ray calls an experiment.
            experiment=None if config.name.startswith(_MADE_UP) else config.name,
            config=settings(context),
            tags={"launcher": "ray"},
            job_id=job_id,
            id=context.run_id,
        )
        body["controller"]["actor_id"] = actor_id
        body["framework_versions"].update(versions())
        self._outbox = Outbox(body, head=head, data_dir=data_dir)
        self._state = "INITIALIZING"
        self._attempts = 0
        self._reports = 0
        self._attempt: _Attempt | None = None
        self._why: Why | None = None
        self._first_failure: dict[str, Any] | None = None
        self._aborting = False
        self._outbox.say("set_state", {"state": self._state})

    def is_to_abort(self) -> bool:
        """Whether somebody has asked for the run's end; True only once."""
        stop = self._outbox.stop
        if stop is None or self._aborting or is_terminal(self._state):
            return False
        self._aborting = True
        return True

    def enter(self, state: Any) -> None:
        """Ray's controller is in this state."""
        name = state._state_type.state_name
        if name == self._state:
            return
        self._state = name
        error = getattr(getattr(state, "next_state", state), "training_failed_error", None)
        next_name = state_name(getattr(state, "next_state", None))
        if error is not None:
            self._why = why_ended(error)
        elif name == "RESIZING":
            self._why = Why("ABORTED", "resized", resized_to(state))
        elif next_name == "FINISHED":
            self._why = Why("FINISHED", "completed")
        if name == "RESCHEDULING":
            # Ray tells nobody when a group could not be started, and gives its next try the same
            # id. Here it is another attempt.
            self._end(Why("ERRORED", "start_failed", text(error)))
        if is_terminal(name):
            self._finish(name, error)
        else:
            detail = text(error) if error is not None else None
            self._outbox.say("set_state", {"state": name, "status_detail": detail})

    def begin_attempt(self, context: Any) -> None:
        """A worker group is going to be started."""
        self._attempt = _Attempt(new_id(), self._attempts)
        self._attempts += 1
        self._why = self._first_failure = None
        each = ", ".join(
            f"{name}: {amount:g}"
            for name, amount in dict(context.resources_per_worker or {}).items()
        )
        self._outbox.begin_attempt(
            {
                "attempt_id": self._attempt.id,
                "num_workers": context.num_workers,
                "status_detail": f"Ray places {context.num_workers} workers, each with {each}",
            }
        )

    def workers_run(self, workers: Iterable[Any]) -> None:
        """The workers of the group are there."""
        attempt = self._attempt
        if attempt is None:
            return
        said = []
        for worker in workers:
            ranks, about = worker.distributed_context, worker.metadata
            attempt.pids[ranks.world_rank] = about.pid, about.hostname
            said.append(
                {
                    "actor_id": worker.actor._actor_id.hex(),
                    "world_rank": ranks.world_rank,
                    "local_rank": ranks.local_rank,
                    "node_rank": ranks.node_rank,
                    "node_id": about.node_id,
                    "node_ip": about.node_ip,
                    "pid": about.pid,
                    "gpu_ids": [str(gpu) for gpu in about.gpu_ids],
                    "resources": dict(worker.resources),
                }
            )
        self._outbox.say("attempt_running", [attempt.id, {"workers": said}])

    def see(self, group: Any) -> None:
        """How the workers stand. An error of a worker comes before Ray decides about it."""
        attempt = self._attempt
        if attempt is None:
            return
        errors: Mapping[int, BaseException] = group.errors
        now = now_ms()
        if errors and self._first_failure is None:
            self._first_failure = first_failure(attempt.ordinal, attempt.pids, errors, now)
        changes = []
        for rank, status in group.worker_statuses.items():
            error = errors.get(rank)
            if (error is not None or not status.running) and rank not in attempt.dead:
                attempt.dead.add(rank)
                # The training function has ended. Its process may live on for some moments.
                ended = {"code": 0} if error is None else {"cause": text(error)}
                changes.append(
                    {"world_rank": rank, "status": "DEAD", "exit": {**ended, "time_ms": now}}
                )
        if changes:
            self._outbox.say("change_workers", [attempt.id, {"workers": changes}])

    def report(self, metrics: Mapping[str, object]) -> None:
        """All ranks have reported; these are rank 0's metrics."""
        attempt = self._attempt.ordinal if self._attempt else max(self._attempts - 1, 0)
        kept = flatten_metrics(numbers(metrics))
        self._outbox.report(attempt, 0, self._reports, now_ms(), kept)
        self._reports += 1

    def end_attempt(self) -> None:
        """The group is gone."""
        self._end(self._why or Why("ABORTED", "stopped"))

    def abort_attempt(self) -> None:
        """The group is gone because the run is aborted."""
        self._end(Why("ABORTED", "stopped", self._stop_detail()))

    def close(self) -> None:
        """Bring out what is left to say, within some seconds."""
        self._outbox.close(_CLOSE_TIMEOUT_S)

    def _end(self, why: Why) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        body = {"status": why.status, "end_reason": why.reason, "status_detail": why.detail}
        self._outbox.say("end_attempt", [attempt.id, body])

    def _finish(self, name: str, error: Any) -> None:
        if self._attempt is not None:
            # It was never placed, or its end could not be seen to.
            failed = Why("ERRORED", "start_failed", text(error)) if error is not None else None
            self._end(failed if not self._attempt.pids and failed else self._why_ended(name))
        body: dict[str, Any] = {"run_status": name, "end_time_ms": now_ms()}
        if name == "ERRORED":
            body["status_detail"] = text(error)
            body["first_failure"] = self._first_failure
        elif name == "ABORTED":
            body["status_detail"] = self._stop_detail()
        self._outbox.say("end", body)
        if name == "ABORTED":
            # Ray ends the process at once; there is no later hook.
            self.close()

    def _why_ended(self, name: str) -> Why:
        if name == "ABORTED":
            return Why("ABORTED", "stopped", self._stop_detail())
        return self._why or Why("ABORTED", "stopped")

    def _stop_detail(self) -> str:
        stop = self._outbox.stop
        if stop is None:
            return _INTERRUPTED
        return f"aborted: {stop.reason}" if stop.reason else "aborted by a user"
