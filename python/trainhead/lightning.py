"""Metrics of Lightning's `Trainer`, as one of its loggers.

    from trainhead.lightning import TrainHeadLogger

    trainer = Trainer(logger=TrainHeadLogger())
    trainer.fit(model, data)

Under ``trainhead run`` they go into that run, else into the one of `trainhead.init`, else into one
of the logger's own, which ends with the first of the trainer's `fit`, `validate`, `test` and
`predict`: to have several of them in one run, begin it by `trainhead.init`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

try:
    from lightning.pytorch.loggers.logger import Logger
    from lightning.pytorch.utilities import rank_zero_only
except ImportError:  # the same under its older name
    from pytorch_lightning.loggers.logger import Logger
    from pytorch_lightning.utilities import rank_zero_only

from . import Stop, active_run
from ._recorder import Recorder

__all__ = ["TrainHeadLogger"]


class TrainHeadLogger(Logger):  # type: ignore[misc]
    """Logs what the modules log, on rank 0.

    Args:
        name: name of the run, if the logger begins one.
        tags: labels of that run.
    """

    def __init__(self, name: str | None = None, tags: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._name = name
        self._recorder = Recorder("lightning", name, tags)
        self._params: dict[str, Any] = {}
        self._begun = False

    @property
    def name(self) -> str | None:
        """Name of the run, by which Lightning calls its directories."""
        return self._recorder.context().run_name or self._name

    @property
    def version(self) -> int | str | None:
        """Id of the run, if it is known."""
        run = active_run()
        return self._recorder.context().run_id or (run.id if run else None)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any
    ) -> None:
        """Keep them as the settings of the run, if the logger begins one."""
        self._params.update(vars(params) if isinstance(params, Namespace) else params)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log them."""
        self._begin()
        self._recorder.log(metrics, step=step)
        if self._recorder.stop_requested:
            raise Stop

    @rank_zero_only  # type: ignore[untyped-decorator]
    def finalize(self, status: str) -> None:
        """End the run, with the exception that Lightning is handling if that is why."""
        self._begin()
        error = sys.exc_info()[1]
        if status != "success" and error is None:
            error = RuntimeError(f"Lightning says that the training ended as {status!r}")
        self._recorder.end(error)

    def _begin(self) -> None:
        """Not before there is something to say: until then, a logger is only an object."""
        if not self._begun:
            self._begun = True
            self._recorder.begin(self._params)
