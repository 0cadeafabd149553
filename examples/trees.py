"""Compare classifiers of handwritten digits, scikit-learn's and XGBoost's, as two recorded runs.

    trainhead serve &
    python3 examples/trees.py

Each is a run of its own in the dashboard: `trainhead.init` around scikit-learn's training, which
has no callbacks, and a callback for XGBoost's.

Needs ``pip install scikit-learn xgboost``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy
import xgboost
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import accuracy_score, log_loss

try:
    import trainhead
except ImportError:  # run from a clone, without `pip install ./python`
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    import trainhead
from trainhead.xgboost import TrainHeadCallback

DATA = Path(__file__).resolve().parent / "data" / "digits.csv.gz"

Samples = Any  # a numpy array


def load_samples() -> tuple[Samples, Samples, Samples, Samples]:
    """Return the images and digits to train on, and every fifth of them to test with."""
    samples = numpy.loadtxt(DATA, delimiter=",")
    is_test = numpy.arange(len(samples)) % 5 == 0
    images, digits = samples[:, :-1] / 16, samples[:, -1].astype(int)
    return images[~is_test], digits[~is_test], images[is_test], digits[is_test]


def train_linear(epochs: int, data: tuple[Samples, Samples, Samples, Samples]) -> float:
    """Train a linear model epoch by epoch; return its accuracy."""
    images, digits, test_images, test_digits = data
    config = {"alpha": 1e-4, "epochs": epochs}
    with trainhead.init("digits-linear", config=config, tags={"data": "digits"}) as run:
        model = SGDClassifier(loss="log_loss", alpha=config["alpha"], random_state=0)
        accuracy = 0.0
        for epoch in range(epochs):
            model.partial_fit(images, digits, classes=range(10))
            accuracy = accuracy_score(test_digits, model.predict(test_images))
            loss = log_loss(test_digits, model.predict_proba(test_images))
            run.log({"test/loss": loss, "test/accuracy": accuracy}, step=epoch)
    return accuracy


def train_trees(rounds: int, data: tuple[Samples, Samples, Samples, Samples]) -> float:
    """Train boosted trees; the callback begins the run and ends it. Return their accuracy."""
    images, digits, test_images, test_digits = data
    config = {"max_depth": 4, "learning_rate": 0.3, "n_estimators": rounds}
    model = xgboost.XGBClassifier(
        **config,
        eval_metric=["mlogloss", "merror"],
        callbacks=[TrainHeadCallback(config, name="digits-trees", tags={"data": "digits"})],
    )
    model.fit(images, digits, eval_set=[(test_images, test_digits)], verbose=False)
    return float(accuracy_score(test_digits, model.predict(test_images)))


def main() -> None:
    """Read the command line and train both."""
    parser = argparse.ArgumentParser(description="Compare two classifiers of digits.")
    parser.add_argument("--epochs", type=int, default=20, help="of the linear model")
    parser.add_argument("--rounds", type=int, default=30, help="of the trees")
    args = parser.parse_args()
    data = load_samples()
    print(f"linear: {train_linear(args.epochs, data):.1%}", flush=True)
    print(f"trees:  {train_trees(args.rounds, data):.1%}", flush=True)


if __name__ == "__main__":
    main()
