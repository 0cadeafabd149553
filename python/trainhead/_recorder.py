"""Where the metrics go that a framework's callback hears of, for all integrations.

Launched by `trainhead run`: into that session. Else into the run that the script has begun, and if
there is none, into one of its own, which lasts as long as the training.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from typing import Any, Callable

from ._context import Context
from ._life import Run, active_run, init
from ._metrics import flatten_metrics
from ._notes import note_once
from ._session import get_context, log

# What a framework's settings are cut to: they are for people to read.
_MAX_DEPTH = 6
_MAX_TEXT = 1000


class TrainingInterruptedError(Exception):
    """The training did not reach its end, and nobody said why."""


class Recorder:
    """Takes what one framework's callback hears, and never lets a failure of its own out.

    Args:
        framework: the package's name, ``transformers``; its version becomes known to the run.
        name: name of the run, if it has to be begun.
        tags: labels of the run, if it has to be begun.
        unfinished: how a training ended whose end was not heard of; None stands for well.
    """

    def __init__(
        self,
        framework: str,
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
        unfinished: Callable[[], BaseException | None] | None = None,
    ) -> None:
        self._framework = framework
        self._name = name
        self._tags = dict(tags or {})
        self._unfinished = unfinished or _interrupted
        self._own: Run | None = None
        self._over = False

    def begin(self, config: Mapping[str, object] | None = None, name: str | None = None) -> None:
        """The training begins: begin a run, if there is none to log into.

        Args:
            config: the framework's settings.
            name: name of the run unless the user chose one.
        """
        if self._own is not None:
            self.end(self._unfinished())
        self._over = False
        if launched() or active_run() is not None or self.context().rank != 0:
            return
        try:
            self._own = init(
                name=self._name or name,
                config=plain(config or {}),
                tags={"framework": self._framework, **self._tags},
            )
        except Exception as error:
            note_once("begin", f"this training is not recorded: {error!r}")
            return
        atexit.register(self._leave)

    def log(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """Log what of `metrics` are numbers. Ranks other than 0 only say that they live."""
        if self._over and not launched() and active_run() is None:
            note_once(
                f"over {self._framework}",
                "this training's run has ended, and what comes after it is not recorded;"
                " a run that is begun by trainhead.init() before it has both",
            )
            return
        try:
            if self.context().rank == 0:
                log(numbers(metrics), step=step)
            elif launched():
                log({}, step=step)
        except Exception as error:
            note_once(f"log {self._framework}", f"metrics cannot be logged: {error!r}")

    def end(self, error: BaseException | None = None) -> None:
        """The training ends: well, or with this error. Ends the run if it is this training's own."""
        own, self._own = self._own, None
        if own is None:
            return
        self._over = True
        atexit.unregister(self._leave)
        try:
            own.__exit__(type(error) if error else None, error, error and error.__traceback__)
        except Exception as failure:
            note_once("end", f"the run's end cannot be recorded: {failure!r}")

    def context(self) -> Context:
        """Which rank this process is; never fails."""
        try:
            return get_context()
        except ValueError as error:
            note_once("context", str(error))
            return Context()

    def _leave(self) -> None:
        self.end(self._unfinished())


def _interrupted() -> BaseException:
    return TrainingInterruptedError("the training did not come to its end")


def launched() -> bool:
    """Whether `trainhead run` started this process."""
    return bool(os.environ.get("TRAINHEAD_SESSION"))


def numbers(metrics: Mapping[str, object]) -> dict[str, object]:
    """Return those of `metrics` that can be stored; the others are not worth a training."""
    kept: dict[str, object] = {}
    for key, value in metrics.items():
        try:
            kept.update(flatten_metrics({key: value}))
        except (TypeError, ValueError):
            note_once(f"metric {key}", f"{key!r} is no number and not recorded")
    return {key: _number(value) for key, value in kept.items()}


def plain(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """Return `value` as JSON has it; what it cannot have, as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        if depth == 0:
            return "..."
        return {str(key): plain(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return "..." if depth == 0 else [plain(inner, depth - 1) for inner in value]
    try:
        text = str(value)
    except Exception:
        text = type(value).__name__
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."


def _number(value: object) -> object:
    """NaN and the infinities went to text for JSON; as input they are floats."""
    return float(value) if isinstance(value, str) else value
