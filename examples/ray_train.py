"""Boosted trees on handwritten digits by Ray Train, on two workers, with checkpoints.

    python3 examples/ray_train.py                                     # as Ray's users do
    RAY_TRAIN_CALLBACKS=trainhead.ray.TrainHeadCallback python3 examples/ray_train.py

There is no word of TrainHead in this script: with the variable the run appears in the dashboard
of `trainhead serve`, with its attempts, workers and metrics. ``--fail-at 5`` has a worker fail
once; Ray begins another attempt from the last checkpoint.

Needs ``pip install "ray[train]" xgboost`` (and trainhead, for the second line).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy
import ray
import xgboost
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.xgboost import RayTrainReportCallback, XGBoostTrainer

DATA = Path(__file__).resolve().parent / "data" / "digits.csv.gz"


class FailOnce(xgboost.callback.TrainingCallback):  # type: ignore[misc]
    """Fails in one round, unless it has before."""

    def __init__(self, round_: int, marker: Path) -> None:
        super().__init__()
        self._round, self._marker = round_, marker

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Fail on rank 1; the others notice by themselves."""
        here = ray.train.get_context().get_world_rank() == 1
        if here and epoch + 1 == self._round and not self._marker.exists():
            self._marker.touch()
            raise RuntimeError(f"the failure in round {self._round} that was asked for")
        return False


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    context = ray.train.get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    samples = numpy.loadtxt(config["data"], delimiter=",")
    is_test = numpy.arange(len(samples)) % 5 == 0
    mine = samples[~is_test][rank::world_size]
    test = samples[is_test]
    train_data = xgboost.DMatrix(mine[:, :-1], mine[:, -1])
    test_data = xgboost.DMatrix(test[:, :-1], test[:, -1])

    checkpoint = ray.train.get_checkpoint()
    booster = RayTrainReportCallback.get_model(checkpoint) if checkpoint else None
    done = booster.num_boosted_rounds() if booster else 0
    callbacks = [RayTrainReportCallback(frequency=1)]
    if config["fail_at"]:
        callbacks.append(FailOnce(config["fail_at"], Path(config["marker"])))
    xgboost.train(
        {
            "objective": "multi:softprob",
            "num_class": 10,
            "eval_metric": ["mlogloss", "merror"],
            "max_depth": config["max_depth"],
            "eta": config["eta"],
            "nthread": 1,
        },
        train_data,
        num_boost_round=config["rounds"] - done,
        evals=[(train_data, "train"), (test_data, "test")],
        xgb_model=booster,
        verbose_eval=False,
        callbacks=callbacks,
    )


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train boosted trees by Ray Train.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fail-at", type=int, help="round in which a worker fails, once")
    parser.add_argument("--storage", type=Path, help="where Ray keeps checkpoints")
    args = parser.parse_args()

    storage = args.storage or Path(tempfile.mkdtemp(prefix="ray-digits-"))
    storage.mkdir(parents=True, exist_ok=True)
    ray.init(num_cpus=args.workers + 1, include_dashboard=False)
    trainer = XGBoostTrainer(
        train,
        train_loop_config={
            "data": str(DATA),
            "rounds": args.rounds,
            "max_depth": 4,
            "eta": 0.3,
            "fail_at": args.fail_at,
            "marker": str(storage / "failed-once"),
        },
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            name="ray-digits",
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"test error {result.metrics['test-merror']:.1%}, checkpoint {result.checkpoint.path}")


if __name__ == "__main__":
    main()
