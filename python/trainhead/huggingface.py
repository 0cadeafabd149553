"""Metrics of a Hugging Face `Trainer`.

    from trainhead.huggingface import TrainHeadCallback

    trainer = Trainer(model, args, train_dataset=data, callbacks=[TrainHeadCallback()])
    trainer.train()

Under ``trainhead run`` they go into that run, else into the one of `trainhead.init`, else into one
of the training's own, with the name ``args.run_name`` and the arguments as its settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ._recorder import Recorder

__all__ = ["TrainHeadCallback"]


class TrainHeadCallback(TrainerCallback):  # type: ignore[misc]
    """Logs what the trainer logs, on the main process.

    ``eval_loss`` becomes ``eval/loss``, ``test_loss`` becomes ``test/loss``, and everything else
    but ``epoch`` goes below ``train/``. The step is the trainer's `global_step`.

    Args:
        name: name of the run, if the training begins one; ``args.run_name`` by default.
        tags: labels of that run.
    """

    def __init__(self, name: str | None = None, tags: Mapping[str, str] | None = None) -> None:
        self._recorder = Recorder("transformers", name, tags)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Begin the run."""
        if not state.is_world_process_zero:
            return
        config = {"args": args.to_dict()}
        model_config = getattr(model, "config", None)
        if model_config is not None and hasattr(model_config, "to_dict"):
            config["model"] = model_config.to_dict()
        self._recorder.begin(config, name=args.run_name)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, object] | None = None,
        **kwargs: Any,
    ) -> None:
        """Log them."""
        metrics = {_key(key): value for key, value in (logs or {}).items()}
        self._recorder.log(metrics, step=state.global_step)
        if self._recorder.stop_requested:
            control.should_training_stop = True

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """End the run that was begun."""
        self._recorder.end()


def _key(key: str) -> str:
    for prefix in ("eval", "test"):
        if key.startswith(f"{prefix}_"):
            return f"{prefix}/{key[len(prefix) + 1 :]}"
    return key if key == "epoch" else f"train/{key}"
