"""Metrics of LightGBM, of its own `train` and `cv` and of its scikit-learn estimators.

    from trainhead.lightgbm import log_evaluation

    lightgbm.train(params, data, valid_sets=[test], callbacks=[log_evaluation()])

Under ``trainhead run`` they go into that run, else into the one of `trainhead.init`, else into one
of the training's own. LightGBM does not tell its callbacks when early stopping ends a training: a
run of its own then ends with the program, or with the next training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightgbm.callback import CallbackEnv, EarlyStopException

from ._ending import Ending, failed
from ._recorder import Recorder

__all__ = ["log_evaluation"]

# After the one that changes parameters, before early stopping, which ends the round.
_ORDER = 15


def log_evaluation(
    period: int = 1, *, name: str | None = None, tags: Mapping[str, str] | None = None
) -> _LogEvaluation:
    """Return a callback that logs the evaluation of every `period`-th round, as ``test/auc``.

    `cv` has means and deviations: ``valid/auc`` and ``valid/auc_std``.

    Args:
        period: log only every that many rounds, and the last one.
        name: name of the run, if the training begins one.
        tags: labels of that run.

    Raises:
        ValueError: `period` is below 1.
    """
    if period < 1:
        raise ValueError(f"period is {period}, but rounds are counted from 1")
    return _LogEvaluation(period, name, tags)


class _LogEvaluation:
    """What LightGBM calls after each round."""

    order = _ORDER
    before_iteration = False

    def __init__(self, period: int, name: str | None, tags: Mapping[str, str] | None) -> None:
        self._period = period
        self._recorder = Recorder("lightgbm", name, tags, self._unfinished)
        self._model: Any = None

    def __call__(self, env: CallbackEnv) -> None:
        if self._model is not env.model:
            self._recorder.begin(env.params)
            self._model = env.model
        last = env.iteration == env.end_iteration - 1
        if last or (env.iteration + 1) % self._period == 0:
            metrics: dict[str, object] = {}
            for data, metric, value, _, *deviation in env.evaluation_result_list or []:
                metrics[f"{data}/{metric}"] = value
                if deviation and deviation[0] is not None:
                    metrics[f"{data}/{metric}_std"] = deviation[0]
            self._recorder.log(metrics, step=env.iteration)
        stop = self._recorder.stop_requested
        if last or stop:
            self._recorder.end()
            self._model = None
        if stop:
            # LightGBM's own way to leave its loop, with the model that there is.
            raise EarlyStopException(env.iteration, env.evaluation_result_list or [])

    def _unfinished(self) -> Ending:
        """How a training ended whose last round never came."""
        # Set when early stopping has ended it, and then only.
        early = getattr(self._model, "best_iteration", 0) > 0
        self._model = None
        return Ending() if early else failed("LightGBM did not come to its last round")
