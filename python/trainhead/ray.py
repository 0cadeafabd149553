"""Ray Train's runs in TrainHead, from a script that knows nothing of it.

    RAY_TRAIN_CALLBACKS=trainhead.ray.TrainHeadCallback python3 train.py

For Ray Train 2 (V2). The run is registered by Ray's controller actor, whose process is the run's
controller: if it is killed, TrainHead finds out by itself. Attempts, workers, rank 0's metrics and
the end follow as Ray's controller sees them, and ``trainhead abort`` aborts the run as Ctrl-C does.

The head is the one of ``TRAINHEAD_URL``, else the one that serves the data directory.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, TypeVar

import ray
from ray.train.v2._internal.execution.callback import (
    ControllerCallback,
    ReportCallback,
    WorkerGroupCallback,
)

from ._notes import note_once
from ._ray_run import RayRun

__all__ = ["TrainHeadCallback"]

_Hook = TypeVar("_Hook", bound=Callable[..., None])


def _contained(hook: _Hook) -> _Hook:
    """Keep what goes wrong in here from Ray, which would end the training for it."""

    @functools.wraps(hook)
    def contained(self: TrainHeadCallback, *args: Any, **kwargs: Any) -> None:
        try:
            hook(self, *args, **kwargs)
        except Exception as error:
            note_once(f"ray {hook.__name__}", f"{hook.__name__} is not recorded: {error!r}")

    return contained  # type: ignore[return-value]


class TrainHeadCallback(ControllerCallback, WorkerGroupCallback, ReportCallback):  # type: ignore[misc]
    """Tells TrainHead what Ray Train's controller does.

    Ray makes it in the driver and sends it to the controller's process. No hook waits for the head,
    but the last one, for some seconds at most, so that the end is known when the process ends.
    """

    def __init__(self) -> None:
        # The environment of the controller's process may be another one.
        self._head = os.environ.get("TRAINHEAD_URL")
        self._data_dir = os.environ.get("TRAINHEAD_DATA_DIR")
        self._run: RayRun | None = None

    @_contained
    def after_controller_start(self, train_run_context: Any) -> None:
        """Register the run."""
        context = ray.get_runtime_context()
        self._run = RayRun(
            train_run_context,
            actor_id=context.get_actor_id(),
            job_id=context.get_job_id(),
            head=self._head,
            data_dir=self._data_dir,
        )

    @_contained
    def after_controller_state_update(self, previous_state: Any, current_state: Any) -> None:
        """Say the new state. Called in each turn of the controller's loop."""
        if self._run is None:
            return
        self._run.enter(current_state)
        if self._run.is_to_abort():
            # The same as Ctrl-C in the driver. It runs when the loop has time for it.
            ray.get_runtime_context().current_actor.abort.remote()

    @_contained
    def after_controller_finish(self, result: Any) -> None:
        """Bring out what is left to say."""
        if self._run is not None:
            self._run.close()

    @_contained
    def before_worker_group_start(self, worker_group_context: Any) -> None:
        """Begin an attempt."""
        if self._run is not None:
            self._run.begin_attempt(worker_group_context)

    @_contained
    def after_worker_group_start(self, worker_group: Any) -> None:
        """Its workers are there."""
        if self._run is not None:
            self._run.workers_run(worker_group.get_worker_group_state().workers)

    @_contained
    def after_worker_group_poll_status(self, worker_group_status: Any) -> None:
        """Note who has ended, and how."""
        if self._run is not None:
            self._run.see(worker_group_status)

    @_contained
    def after_worker_group_shutdown(self, worker_group_context: Any) -> None:
        """End the attempt, now that nothing of it is left."""
        if self._run is not None:
            self._run.end_attempt()

    @_contained
    def after_worker_group_abort(self, worker_group_context: Any) -> None:
        """End the attempt, now that nothing of it is left."""
        if self._run is not None:
            self._run.abort_attempt()

    @_contained
    def after_report(self, training_report: Any, metrics: list[dict[str, Any]]) -> None:
        """Log what rank 0 reported, once all ranks have."""
        if self._run is not None:
            self._run.report(training_report.metrics)
