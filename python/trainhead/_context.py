"""What a worker knows about its run and its place in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from ._checkpoint import Checkpoint, checkpoint_from_answer


@dataclass(frozen=True)
class Context:
    """The run that this process is a worker of, and its place in it.

    Fixed for the life of the process: a restart or a resize is a new attempt with new processes.

    Outside of a session (plain ``python3 train.py``, or under torchrun) the ranks come from the
    environment, as torch reads them, and what only a controller knows is None, 0 or empty.

    Attributes:
        rank: this worker among all of its attempt, from 0.
        world_size: number of workers of the attempt.
        local_rank: this worker among those of its node, from 0.
        local_world_size: number of workers on this node.
        node_rank: the node among those of the attempt, from 0.
        attempt: ordinal of the attempt, from 0.
        restart_count: how often the workers were restarted after a failure.
        run_id: id of the run.
        run_name: name of the run.
        experiment: the experiment that the run belongs to, if any.
        storage_path: directory or URL for what the run keeps.
        grace_period: seconds between the signal to stop and the kill.
        config: the user's configuration of the run.
        checkpoint: the latest usable checkpoint when this attempt began: what to go on from.
        trial: the trial of a sweep that this run is, if any.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0
    attempt: int = 0
    restart_count: int = 0
    run_id: str | None = None
    run_name: str | None = None
    experiment: str | None = None
    storage_path: str | None = None
    grace_period: float = 0.0
    config: Mapping[str, Any] = field(default_factory=dict, hash=False)
    checkpoint: Checkpoint | None = None
    trial: str | None = None


def context_from_environment() -> Context:
    """Return what the environment says: torch's variables and ours.

    Raises:
        ValueError: one of them is set to something else than an integer.
    """
    return Context(
        rank=int_from_environment("RANK", default=0),
        world_size=int_from_environment("WORLD_SIZE", default=1),
        local_rank=int_from_environment("LOCAL_RANK", default=0),
        local_world_size=int_from_environment("LOCAL_WORLD_SIZE", default=1),
        node_rank=int_from_environment("NODE_RANK", "GROUP_RANK", default=0),
        attempt=int_from_environment("TRAINHEAD_ATTEMPT", default=0),
        restart_count=int_from_environment("TORCHELASTIC_RESTART_COUNT", default=0),
        run_id=os.environ.get("TRAINHEAD_RUN_ID") or None,
    )


def context_from_answer(
    answer: Mapping[str, Any], fetch: Callable[[], str | None] | None = None
) -> Context:
    """Return what the controller's answer to ``GET /context`` says.

    `fetch` brings its checkpoint to this node, if it is not there.

    Raises:
        KeyError, TypeError, ValueError: the answer is not of that form.
    """
    storage_path = answer["storage_path"]
    experiment = answer["experiment"]
    return Context(
        rank=int(answer["rank"]),
        world_size=int(answer["world_size"]),
        local_rank=int(answer["local_rank"]),
        local_world_size=int(answer["local_world_size"]),
        node_rank=int(answer["node_rank"]),
        attempt=int(answer["attempt"]),
        restart_count=int(answer["restart_count"]),
        run_id=str(answer["run_id"]),
        run_name=str(answer["run_name"]),
        experiment=None if experiment is None else str(experiment),
        storage_path=None if storage_path is None else str(storage_path),
        grace_period=float(answer["grace_period_ms"]) / 1000,
        config=dict(answer["config"]),
        checkpoint=checkpoint_from_answer(answer.get("checkpoint"), fetch),
        trial=None if answer.get("trial") is None else str(answer["trial"]),
    )


def int_from_environment(*names: str, default: int) -> int:
    """Return the first of these variables that is set and not empty, else `default`.

    Raises:
        ValueError: it is no integer.
    """
    for name in names:
        text = os.environ.get(name)
        if text:
            try:
                return int(text)
            except ValueError:
                raise ValueError(
                    f"environment variable {name} is {text!r}, no integer",
                ) from None
    return default
