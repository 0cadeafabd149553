"""Ray's words in TrainHead's: errors, settings and versions. Imports nothing of Ray's."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from importlib import metadata
from typing import Any, NamedTuple

# One text for people; the whole of it is in the worker's log.
_MAX_ERROR_CHARS = 4000

_FRAMEWORKS = ("torch", "jax", "tensorflow", "keras", "xgboost", "lightgbm", "transformers")


class Why(NamedTuple):
    """Why a worker group is ended."""

    status: str
    reason: str
    detail: str | None = None


def why_ended(error: Any) -> Why:
    """Which end of an attempt this error of Ray's means."""
    name = type(error).__name__
    failures = getattr(error, "worker_failures", {})
    if name == "PreemptionError" or any(_was_preempted(e) for e in failures.values()):
        return Why("ABORTED", "preempted", text(error))
    if name == "NCCLHangError":
        return Why("ERRORED", "hung", text(error))
    if failures:
        return Why("ERRORED", "worker_failed", _ranks_failed(failures))
    return Why("ERRORED", "callback_failed", text(error))


def _was_preempted(error: Any) -> bool:
    return bool(getattr(getattr(error, "health_check_failure", error), "preempted", False))


def _ranks_failed(failures: Mapping[int, BaseException]) -> str:
    return "; ".join(f"rank {rank} failed: {text(failures[rank])}" for rank in _in_order(failures))


def _in_order(failures: Mapping[int, BaseException]) -> list[int]:
    """The ranks as they are likely to have failed: a process that is gone comes first."""
    return sorted(
        failures, key=lambda rank: (not hasattr(failures[rank], "health_check_failure"), rank)
    )


def first_failure(
    attempt: int,
    processes: Mapping[int, tuple[int, str]],
    errors: Mapping[int, BaseException],
    time_ms: int,
) -> dict[str, Any]:
    """The first of these errors as the record of a run has it; `processes` are pid and host."""
    first, *others = _in_order(errors)
    pid, host = processes.get(first, (None, None))
    return {
        "rank": first,
        "attempt": attempt,
        "pid": pid,
        "host": host,
        "exit_code": None,
        "signal": None,
        "message": text(errors[first]),
        "log_tail": [],
        "time_ms": time_ms,
        "consequences": [{"rank": rank, "exit_code": None, "signal": None} for rank in others],
    }


def text(error: Any) -> str:
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


def state_name(state: Any) -> str | None:
    """The name of a state of Ray's controller."""
    kind = getattr(state, "_state_type", None)
    return None if kind is None else str(kind.state_name)


def is_terminal(name: str) -> bool:
    """Whether a run has ended in this state."""
    return name in ("FINISHED", "ERRORED", "ABORTED")


def resized_to(state: Any) -> str | None:
    """To what the group is resized in this state."""
    size = getattr(getattr(state, "scaling_decision", None), "num_workers", None)
    return None if size is None else f"resized to {size} workers"


def settings(context: Any) -> dict[str, Any]:
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


def versions() -> dict[str, str]:
    """Of what the workers probably use: they have this process's packages. None is imported."""
    found: dict[str, str] = {}
    for name in ("ray", *_FRAMEWORKS):
        for package in (name, f"{name}-cpu"):
            with contextlib.suppress(metadata.PackageNotFoundError):
                found.setdefault(name, metadata.version(package))
    return found
