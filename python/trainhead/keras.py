"""Metrics of a Keras model's `fit`.

    from trainhead.keras import TrainHeadCallback

    model.fit(x, y, epochs=10, callbacks=[TrainHeadCallback()])

Under ``trainhead run`` they go into that run, else into the one of `trainhead.init`, else into one
of the training's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras.callbacks import Callback

from ._recorder import Recorder

__all__ = ["TrainHeadCallback"]


class TrainHeadCallback(Callback):  # type: ignore[misc]
    """Logs every epoch: ``loss`` becomes ``train/loss`` and ``val_loss`` becomes ``val/loss``.

    The step is the number of the epoch, from 0 as Keras counts.

    Args:
        name: name of the run, if the training begins one; the model's by default.
        tags: labels of that run.
    """

    def __init__(self, name: str | None = None, tags: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._recorder = Recorder("keras", name, tags)

    def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
        """Begin the run."""
        config: dict[str, Any] = {"fit": self.params}
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is not None:
            config["optimizer"] = optimizer.get_config()
        self._recorder.begin(config, name=getattr(self.model, "name", None))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
        """Log the epoch."""
        self._recorder.log({_key(key): value for key, value in (logs or {}).items()}, step=epoch)
        if self._recorder.stop_requested:
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, object] | None = None) -> None:
        """End the run that was begun."""
        self._recorder.end()


def _key(key: str) -> str:
    return f"val/{key[len('val_') :]}" if key.startswith("val_") else f"train/{key}"
