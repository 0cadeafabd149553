"""Metrics of XGBoost, of its own `train` and `cv` and of its scikit-learn estimators.

    from trainhead.xgboost import TrainHeadCallback

    xgboost.train(params, data, evals=[(test, "test")], callbacks=[TrainHeadCallback(params)])

Under ``trainhead run`` they go into that run, else into the one of `trainhead.init`, else into one
of the training's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xgboost import collective
from xgboost.callback import TrainingCallback

from ._recorder import Recorder

__all__ = ["TrainHeadCallback"]


class TrainHeadCallback(TrainingCallback):  # type: ignore[misc]
    """Logs the evaluation of every round, as ``test/logloss``, on XGBoost's rank 0.

    `cv` has means and deviations: ``test/logloss`` and ``test/logloss_std``.

    Args:
        config: the settings of the run, if the training begins one: the parameters, for example.
        name: name of that run.
        tags: labels of that run.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._config = dict(config or {})
        self._recorder = Recorder("xgboost", name, tags)

    def before_training(self, model: Any) -> Any:
        """Begin the run."""
        if collective.get_rank() == 0:
            self._recorder.begin(self._config)
        return model

    def after_iteration(
        self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, Sequence[Any]]]
    ) -> bool:
        """Log the round; return whether somebody wants the run to stop."""
        if collective.get_rank() == 0:
            metrics: dict[str, object] = {}
            for data, by_name in evals_log.items():
                for name, values in by_name.items():
                    last = values[-1]
                    if isinstance(last, tuple):
                        metrics[f"{data}/{name}"], metrics[f"{data}/{name}_std"] = last
                    else:
                        metrics[f"{data}/{name}"] = last
            self._recorder.log(metrics, step=epoch)
        return self._recorder.stop_requested

    def after_training(self, model: Any) -> Any:
        """End the run that was begun."""
        self._recorder.end()
        return model
