"""XGBoost, LightGBM and Keras, the real ones, and where their metrics go."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from integ_support import Head, head, interpreter, said

__all__ = ["head"]

pytestmark = pytest.mark.integration

DATA = """
import json, sys
import trainhead
import numpy

random = numpy.random.default_rng(0)
x = random.normal(size=(300, 5))
y = (x[:, 0] + 0.3 * random.normal(size=300) > 0).astype(int)
mode = sys.argv[1] if len(sys.argv) > 1 else ""

class Trap:
    \"\"\"Fails in the third round, as a user's own callback may.\"\"\"
    def __init__(self): self.rounds = 0
    def spring(self):
        self.rounds += 1
        if self.rounds == 3:
            raise ValueError("round 3 is one too many")

def go(train):
    if mode == "within":
        with trainhead.init("the-script-s-own") as run:
            run.log({"before": 1})
            train()
            run.log({"after": 1})
    elif mode == "caught":
        try:
            train()
        except ValueError:
            print("caught")
    else:
        train()
"""

XGBOOST = (
    DATA
    + """
import xgboost
from trainhead.xgboost import TrainHeadCallback

class Failing(xgboost.callback.TrainingCallback):
    trap = Trap()
    def after_iteration(self, model, epoch, evals_log):
        self.trap.spring()
        return False

def train():
    data, result = xgboost.DMatrix(x, y), {}
    params = {"objective": "binary:logistic", "max_depth": 2}
    callbacks = [TrainHeadCallback(params, name="trees", tags={"team": "a"})]
    if mode in ("fails", "caught"):
        callbacks.append(Failing())
    if mode == "cv":
        means = xgboost.cv(params, data, 4, nfold=3, callbacks=callbacks)
        print("RESULT", json.dumps(list(means["test-logloss-mean"])))
        return
    xgboost.train(params, data, 10, evals=[(data, "train")], evals_result=result,
                  verbose_eval=False, callbacks=callbacks)
    print("RESULT", json.dumps(result["train"]["logloss"]))

go(train)
"""
)

LIGHTGBM = (
    DATA
    + """
import lightgbm
from trainhead.lightgbm import log_evaluation

def failing(env, trap=Trap()):
    trap.spring()

def train():
    data, result = lightgbm.Dataset(x, y), {}
    params = {"objective": "binary", "metric": "binary_logloss", "num_leaves": 4, "verbosity": -1}
    callbacks = [log_evaluation(name="leaves"), lightgbm.record_evaluation(result)]
    if mode in ("fails", "caught"):
        callbacks.append(failing)
    if mode == "early":
        noise = lightgbm.Dataset(x, random.integers(0, 2, size=300), reference=data)
        callbacks.append(lightgbm.early_stopping(2, verbose=False))
        lightgbm.train(params, data, 1000, valid_sets=[noise], callbacks=callbacks)
    else:
        lightgbm.train(params, data, 10, valid_sets=[data], valid_names=["train"],
                       callbacks=callbacks)
        print("RESULT", json.dumps(result["train"]["binary_logloss"]))

go(train)
"""
)

KERAS = (
    DATA
    + """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
from trainhead.keras import TrainHeadCallback

class Failing(keras.callbacks.Callback):
    trap = Trap()
    def on_epoch_end(self, epoch, logs=None):
        self.trap.spring()

def train():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    callbacks = [TrainHeadCallback(name="dense")]
    if mode in ("fails", "caught"):
        callbacks.append(Failing())
    history = model.fit(x, y, epochs=4, validation_split=0.2, verbose=0, callbacks=callbacks)
    print("RESULT", json.dumps(history.history["val_loss"]))

go(train)
"""
)

# The source, the metric whose values the library tells by itself, and the name of its own run.
LIBRARIES = {
    "xgboost": (XGBOOST, "train/logloss", "trees"),
    "lightgbm": (LIGHTGBM, "train/binary_logloss", "leaves"),
    "keras": (KERAS, "val/loss", "dense"),
}
each_library = pytest.mark.parametrize("library", LIBRARIES)


def script(tmp_path: Path, library: str) -> Path:
    path = tmp_path / "train.py"
    path.write_text(LIBRARIES[library][0])
    return path


def result(stdout: str) -> list[float]:
    (line,) = [line for line in stdout.splitlines() if line.startswith("RESULT ")]
    values: list[float] = json.loads(line.partition(" ")[2])
    return values


def check_points(head: Head, run: Any, key: str, values: list[float]) -> None:
    points = head.points(run, key)
    assert [step for step, _ in points] == list(range(len(values)))
    assert [value for _, value in points] == pytest.approx(values, rel=1e-6)


@each_library
def test_a_training_is_a_run_of_its_own(library: str, head: Head, tmp_path: Path) -> None:
    _, key, name = LIBRARIES[library]
    done = head.train(interpreter("ml"), script(tmp_path, library))
    assert done.returncode == 0, said(done)
    run = head.run(name)
    assert (run["run_status"], run["ended_by"]) == ("FINISHED", "controller")
    assert run["tags"]["framework"] == library
    assert library in run["framework_versions"]
    assert run["settings"]
    check_points(head, run, key, result(done.stdout))


@each_library
def test_it_ends_as_the_training_does(library: str, head: Head, tmp_path: Path) -> None:
    """Also where the script goes on, and ends well."""
    path, name = script(tmp_path, library), LIBRARIES[library][2]
    done = head.train(interpreter("ml"), path, "fails")
    assert done.returncode == 1, said(done)
    run = head.run(name)
    assert run["run_status"] == "ERRORED"
    assert "ValueError: round 3 is one too many" in run["status_detail"]
    assert run["attempts"][0]["workers"][0]["exit"]["code"] == 1

    done = head.train(interpreter("ml"), path, "caught")
    assert done.returncode == 0, said(done)
    assert "caught" in done.stdout
    (again,) = [r for r in head.runs() if r["name"] == name and r["id"] != run["id"]]
    assert again["run_status"] == "ERRORED"
    assert "did not come to its" in again["status_detail"]


@each_library
def test_it_logs_into_the_run_that_the_script_has_begun(
    library: str, head: Head, tmp_path: Path
) -> None:
    done = head.train(interpreter("ml"), script(tmp_path, library), "within")
    assert done.returncode == 0, said(done)
    (run,) = head.runs()
    assert (run["name"], run["run_status"]) == ("the-script-s-own", "FINISHED")
    assert {"before", "after"} < head.keys(run)
    check_points(head, run, LIBRARIES[library][1], result(done.stdout))


@each_library
def test_under_trainhead_run_it_logs_into_that_run(
    library: str, head: Head, tmp_path: Path
) -> None:
    """Rank 0 does; the other one logs nothing."""
    options: list[object] = ["--workers", 2, "--name", "launched", "--tail", "0"]
    done = head.launch(options, interpreter("ml"), script(tmp_path, library))
    assert done.returncode == 0, said(done)
    (run,) = head.runs()
    assert (run["name"], run["run_status"]) == ("launched", "FINISHED")
    points = head.points(run, LIBRARIES[library][1])
    assert len(points) == (4 if library == "keras" else 10)
    ranks = run["evidence"]["progress"]["ranks"]
    assert {rank["rank"] for rank in ranks} == {0}


def test_early_stopping_of_lightgbm_is_a_good_end(head: Head, tmp_path: Path) -> None:
    done = head.train(interpreter("ml"), script(tmp_path, "lightgbm"), "early")
    assert done.returncode == 0, said(done)
    run = head.run("leaves")
    assert run["run_status"] == "FINISHED"
    assert 2 < len(head.points(run, "valid_0/binary_logloss")) < 1000


def test_cross_validation_of_xgboost_has_means_and_deviations(head: Head, tmp_path: Path) -> None:
    done = head.train(interpreter("ml"), script(tmp_path, "xgboost"), "cv")
    assert done.returncode == 0, said(done)
    run = head.run("trees")
    check_points(head, run, "test/logloss", result(done.stdout))
    assert all(0 < value < math.inf for _, value in head.points(run, "test/logloss_std"))
