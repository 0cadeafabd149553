"""What is known of one run of Ray Train, and how it is said to the head.

Knows Ray's objects, but imports nothing of Ray's: states and errors are told apart by their names.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, NamedTuple

from ._host import new_id, now_ms
from ._metrics import flatten_metrics
from ._outbox import Outbox
from ._recorder import numbers
from ._registration import registration

# How long the end of the run may keep Ray's controller from ending: the head is away then, and what
# is left goes to the spool.
_CLOSE_TIMEOUT_S = 5.0
# One text for people; the whole of it is in the worker's log.
_MAX_ERROR_CHARS = 4000

_INTERRUPTED = "aborted: the driver was interrupted (SIGINT)"
_FRAMEWORKS = ("torch", "jax", "tensorflow", "keras", "xgboost", "lightgbm", "transformers")


class _Why(NamedTuple):
    """Why a worker group is ended."""

    status: str
    reason: str
    detail: str | None = None


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
            config=_settings(context),
            tags={"launcher": "ray"},
            job_id=job_id,
            id=context.run_id,
        )
        body["controller"]["actor_id"] = actor_id
        body["framework_versions"].update(_versions())
        self._outbox = Outbox(body, head=head, data_dir=data_dir)
        self._state = "INITIALIZING"
        self._attempts = 0
        self._reports = 0
        self._attempt: _Attempt | None = None
        self._why: _Why | None = None
        self._first_failure: dict[str, Any] | None = None
        self._aborting = False
        self._outbox.say("set_state", {"state": self._state})

    def is_to_abort(self) -> bool:
        """Whether somebody has asked for the run's end; True only once."""
        stop = self._outbox.stop
        if stop is None or self._aborting or _is_terminal(self._state):
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
        next_name = _name(getattr(state, "next_state", None))
        if error is not None:
            self._why = _why(error)
        elif name == "RESIZING":
            self._why = _Why("ABORTED", "resized", _resized(state))
        elif next_name == "FINISHED":
            self._why = _Why("FINISHED", "completed")
        if name == "RESCHEDULING":
            # Ray tells nobody when a group could not be started, and gives its next try the same
            # id. Here it is another attempt.
            self._end(_Why("ERRORED", "start_failed", _text(error)))
        if _is_terminal(name):
            self._finish(name, error)
        else:
            detail = _text(error) if error is not None else None
            self._outbox.say("set_state", {"state": name, "status_detail": detail})

    def begin_attempt(self, context: Any) -> None:
        """A worker group is going to be started."""
        self._attempt = _Attempt(new_id(), self._attempts)
        self._attempts += 1
        self._why = self._first_failure = None
        each = ", ".join(f"{name}: {amount:g}" for name, amount in _resources(context).items())
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
            self._first_failure = _first_failure(attempt, errors, now)
        changes = []
        for rank, status in group.worker_statuses.items():
            error = errors.get(rank)
            if (error is not None or not status.running) and rank not in attempt.dead:
                attempt.dead.add(rank)
                # The training function has ended. Its process may live on for some moments.
                ended = {"code": 0} if error is None else {"cause": _text(error)}
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
        self._end(self._why or _Why("ABORTED", "stopped"))

    def abort_attempt(self) -> None:
        """The group is gone because the run is aborted."""
        self._end(_Why("ABORTED", "stopped", self._stop_detail()))

    def close(self) -> None:
        """Bring out what is left to say, within some seconds."""
        self._outbox.close(_CLOSE_TIMEOUT_S)

    def _end(self, why: _Why) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        body = {"status": why.status, "end_reason": why.reason, "status_detail": why.detail}
        self._outbox.say("end_attempt", [attempt.id, body])

    def _finish(self, name: str, error: Any) -> None:
        if self._attempt is not None:
            # It was never placed, or its end could not be seen to.
            failed = _Why("ERRORED", "start_failed", _text(error)) if error is not None else None
            self._end(failed if not self._attempt.pids and failed else self._why_ended(name))
        body: dict[str, Any] = {"run_status": name, "end_time_ms": now_ms()}
        if name == "ERRORED":
            body["status_detail"] = _text(error)
            body["first_failure"] = self._first_failure
        elif name == "ABORTED":
            body["status_detail"] = self._stop_detail()
        self._outbox.say("end", body)
        if name == "ABORTED":
            # Ray ends the process at once; there is no later hook.
            self.close()

    def _why_ended(self, name: str) -> _Why:
        if name == "ABORTED":
            return _Why("ABORTED", "stopped", self._stop_detail())
        return self._why or _Why("ABORTED", "stopped")

    def _stop_detail(self) -> str:
        stop = self._outbox.stop
        if stop is None:
            return _INTERRUPTED
        return f"aborted: {stop.reason}" if stop.reason else "aborted by a user"


def _why(error: Any) -> _Why:
    """Which end of an attempt this error of Ray's means."""
    name = type(error).__name__
    failures = getattr(error, "worker_failures", {})
    if name == "PreemptionError" or any(_was_preempted(e) for e in failures.values()):
        return _Why("ABORTED", "preempted", _text(error))
    if name == "NCCLHangError":
        return _Why("ERRORED", "hung", _text(error))
    if failures:
        return _Why("ERRORED", "worker_failed", _ranks_failed(failures))
    return _Why("ERRORED", "callback_failed", _text(error))


def _was_preempted(error: Any) -> bool:
    return bool(getattr(getattr(error, "health_check_failure", error), "preempted", False))


def _ranks_failed(failures: Mapping[int, BaseException]) -> str:
    return "; ".join(f"rank {rank} failed: {_text(failures[rank])}" for rank in _in_order(failures))


def _in_order(failures: Mapping[int, BaseException]) -> list[int]:
    """The ranks as they are likely to have failed: a process that is gone comes first."""
    return sorted(
        failures, key=lambda rank: (not hasattr(failures[rank], "health_check_failure"), rank)
    )


def _first_failure(
    attempt: _Attempt, errors: Mapping[int, BaseException], time_ms: int
) -> dict[str, Any]:
    first, *others = _in_order(errors)
    pid, host = attempt.pids.get(first, (None, None))
    return {
        "rank": first,
        "attempt": attempt.ordinal,
        "pid": pid,
        "host": host,
        "exit_code": None,
        "signal": None,
        "message": _text(errors[first]),
        "log_tail": [],
        "time_ms": time_ms,
        "consequences": [{"rank": rank, "exit_code": None, "signal": None} for rank in others],
    }


def _text(error: Any) -> str:
    """An error in some words, with its type; of a health check that failed, what it found."""
    if error is None:
        return ""
    error = getattr(error, "health_check_failure", error)
    said = str(error).strip()
    # Ray's own errors say what they are.
    if type(error).__module__.partition(".")[0] != "ray":
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if len(said) <= _MAX_ERROR_CHARS:
        return said
    half = _MAX_ERROR_CHARS // 2
    return f"{said[:half]} [...] {said[-half:]}"


def _name(state: Any) -> str | None:
    kind = getattr(state, "_state_type", None)
    return None if kind is None else str(kind.state_name)


def _is_terminal(name: str) -> bool:
    return name in ("FINISHED", "ERRORED", "ABORTED")


def _resized(state: Any) -> str | None:
    size = getattr(getattr(state, "scaling_decision", None), "num_workers", None)
    return None if size is None else f"resized to {size} workers"


def _resources(context: Any) -> dict[str, float]:
    return dict(context.resources_per_worker or {})


def _settings(context: Any) -> dict[str, Any]:
    """What the run was started with, as far as it is the user's word."""
    run, scaling = context.run_config, context.scaling_config
    return {
        "train_loop_config": context.train_loop_config,
        "scaling_config": _fields(scaling),
        "run_config": {
            "storage_path": run.storage_path,
            "failure_config": _fields(run.failure_config),
            "checkpoint_config": _fields(run.checkpoint_config),
        },
        "backend": type(context.backend_config).__name__,
    }


def _fields(config: Any) -> dict[str, Any]:
    """The fields of one of Ray's data classes that say something."""
    if not dataclasses.is_dataclass(config):
        return {}
    values = {f.name: getattr(config, f.name, None) for f in dataclasses.fields(config)}
    return {
        name: value
        for name, value in values.items()
        if value is not None and value != "DEPRECATED" and not name.startswith("_")
    }


def _versions() -> dict[str, str]:
    """Of what the workers probably use: they have this process's packages. None is imported."""
    versions = {}
    for name in ("ray", *_FRAMEWORKS):
        for package in (name, f"{name}-cpu"):
            with contextlib.suppress(metadata.PackageNotFoundError):
                versions.setdefault(name, metadata.version(package))
    return versions
