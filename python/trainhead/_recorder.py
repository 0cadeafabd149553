"""Where the metrics go that a framework's callback hears of, for all integrations.

Launched by `trainhead run`: into that run. Else into the one that the script has begun, and if
there is none, into one of the training's own, which lasts as long as the training.
"""

from __future__ import annotations

import atexit
import dataclasses
from collections.abc import Mapping
from typing import Callable

from . import Context, _life, active_run, get_context, init, log
from ._ending import Ending, by_exception, failed
from ._metrics import flatten_metrics
from ._notes import note_once
from ._own_run import OwnRun


class Recorder:
    """Takes what one framework's callback hears, and never lets a failure of its own out.

    Args:
        framework: the package's name, ``transformers``.
        name: name of the run, if it has to be begun.
        tags: labels of the run, if it has to be begun.
        unfinished: how a training ended whose end was not heard of.
    """

    def __init__(
        self,
        framework: str,
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
        unfinished: Callable[[], Ending] = lambda: failed("the training did not come to its end"),
    ) -> None:
        self._framework = framework
        self._name = name
        self._tags = {"framework": framework, **(tags or {})}
        self._unfinished = unfinished
        self._own: OwnRun | None = None
        self._over = False

    @property
    def stop_requested(self) -> bool:
        """Whether somebody wants the run to stop, and this process may leave by itself.

        One of several ranks must not, as the others would wait for it: they all get a signal.
        """
        run = active_run()
        return run is not None and run.stop_requested and self.context().world_size == 1

    def begin(self, config: Mapping[str, object] | None = None, name: str | None = None) -> None:
        """The training begins: begin a run, if there is none to log into.

        Args:
            config: the framework's settings.
            name: name of the run, if the user chose none.
        """
        if self._own is not None:
            self._end(self._unfinished())
        self._over = False
        if active_run() is not None or self.context().rank != 0:
            return
        try:
            run = init(self._name or name, config=config, tags=self._tags)
        except (TypeError, ValueError) as error:
            note_once(f"begin {self._framework}", f"this training is not recorded: {error}")
            return
        if isinstance(run, OwnRun):
            self._own = run
            atexit.register(self._leave)

    def log(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """Log what of `metrics` are numbers. Ranks other than 0 only say that they live."""
        run = active_run()
        if run is None:
            if self._over:
                note_once(
                    f"over {self._framework}",
                    "this training's run has ended, and what comes after it is not recorded;"
                    " a run that is begun by trainhead.init() beforehand has both",
                )
            return
        try:
            log(numbers(metrics) if self.context().rank == 0 else {}, step=step)
        except (TypeError, ValueError) as error:
            note_once(f"log {self._framework}", f"metrics cannot be logged: {error}")

    def end(self, error: BaseException | None = None) -> None:
        """The training ends: well, or by this error. Ends the run if it is the training's own."""
        ending = by_exception(error)
        if error is not None and ending.status == "ERRORED" and isinstance(error, Exception):
            # The program may go on, so its exit code is not known.
            text = f"{type(error).__name__}: {error}"
            ending = dataclasses.replace(ending, detail=text, exit_code=None)
        self._end(ending)

    def context(self) -> Context:
        """Which rank this process is. Never fails."""
        try:
            return get_context()
        except ValueError as error:
            note_once("context", str(error))
            return Context()

    def _end(self, ending: Ending) -> None:
        own, self._own = self._own, None
        if own is not None:
            self._over = True
            atexit.unregister(self._leave)
            own.end(ending)

    def _leave(self) -> None:
        """The program ends and the training has not. If it seems to end well, that is not so."""
        watch = _life._watch
        ending = None if watch is None else watch.ending()
        if ending is not None and ending.status == "FINISHED":
            self._end(self._unfinished())


def numbers(metrics: Mapping[str, object]) -> dict[str, object]:
    """Return those of `metrics` that can be stored; the others are not worth a training."""
    kept: dict[str, object] = {}
    for key, value in metrics.items():
        try:
            flatten_metrics({key: value})
        except (TypeError, ValueError) as error:
            note_once(f"metric {key}", f"not recorded: {error}")
        else:
            kept[key] = value
    return kept
