"""Hugging Face's and Lightning's trainers, the real ones, and where their metrics go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from integ_support import Head, head, interpreter, said

__all__ = ["head"]

pytestmark = pytest.mark.integration

# How a script trains: as it is, within a run of its own, or catching what fails.
MODES = """
if mode == "within":
    with trainhead.init("the-script-s-own"):
        train()
elif mode == "caught":
    try:
        train()
    except ValueError:
        print("caught")
else:
    train()
"""

HUGGING_FACE = (
    """
import json, sys, warnings
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
import trainhead
from trainhead.huggingface import TrainHeadCallback

mode = sys.argv[1] if len(sys.argv) > 1 else ""

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
    def forward(self, x, labels=None):
        logits = self.layer(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

class Failing(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if mode in ("fails", "caught") and state.global_step == 7:
            raise ValueError("step 7 is one too many")

torch.manual_seed(0)
data = [{"x": x, "labels": int(x.sum() > 0)} for x in torch.randn(40, 4)]
args = TrainingArguments(
    "out", run_name="tiny", num_train_epochs=2, per_device_train_batch_size=4, logging_steps=5,
    eval_strategy="epoch", save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
)

def train():
    trainer = Trainer(
        Model(), args, train_dataset=data, eval_dataset=data[:8],
        callbacks=[TrainHeadCallback(tags={"team": "a"}), Failing()],
    )
    trainer.train()
    print("HISTORY", json.dumps(trainer.state.log_history))
    trainer.evaluate()

"""
    + MODES
)

LIGHTNING = (
    """
import json, sys, warnings
warnings.simplefilter("ignore")
import lightning.pytorch as lightning
import torch
import trainhead
from trainhead.lightning import TrainHeadLogger

mode = sys.argv[1] if len(sys.argv) > 1 else ""
losses = []

# Debian's torch 1.13 cannot import its own sharded tensors under Python 3.11, and nobody needs to.
lightning.LightningModule._register_sharded_tensor_state_dict_hooks_if_available = lambda self: None

class Model(lightning.LightningModule):
    def __init__(self, width=4):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(width, 1)
    def training_step(self, batch, number):
        loss = self.layer(batch[0]).square().mean()
        self.log("train/loss", loss)
        losses.append(loss.item())
        if mode in ("fails", "caught") and self.global_step == 3:
            raise ValueError("step 3 is one too many")
        if mode == "interrupted" and self.global_step == 3:
            raise KeyboardInterrupt
        return loss
    def test_step(self, batch, number):
        self.log("test/loss", self.layer(batch[0]).square().mean())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

torch.manual_seed(0)
batches = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(40, 4)), batch_size=4
)

def train():
    trainer = lightning.Trainer(
        max_epochs=1, log_every_n_steps=1, logger=TrainHeadLogger(name="tiny"), accelerator="cpu",
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    model = Model()
    trainer.fit(model, batches)
    print("LOSSES", json.dumps(losses))
    trainer.test(model, batches)

"""
    + MODES
)


def script(tmp_path: Path, source: str) -> Path:
    path = tmp_path / "train.py"
    path.write_text(source)
    return path


def line(stdout: str, first: str) -> str:
    (found,) = [line for line in stdout.splitlines() if line.startswith(first + " ")]
    return found.partition(" ")[2]


def check_points(head: Head, run: Any, key: str, expected: list[tuple[int, float]]) -> None:
    points = head.points(run, key)
    assert [step for step, _ in points] == [step for step, _ in expected]
    assert [value for _, value in points] == pytest.approx([value for _, value in expected])


def test_what_the_hugging_face_trainer_logs_is_recorded(head: Head, tmp_path: Path) -> None:
    done = head.train(interpreter("torch"), script(tmp_path, HUGGING_FACE))
    assert done.returncode == 0, said(done)
    run = head.run("tiny")
    assert run["run_status"] == "FINISHED"
    assert run["settings"]["args"]["per_device_train_batch_size"] == 4
    assert {"torch", "transformers"} <= set(run["framework_versions"])
    history = json.loads(line(done.stdout, "HISTORY"))
    for key, theirs in (("train/loss", "loss"), ("eval/loss", "eval_loss")):
        expected = [(entry["step"], entry[theirs]) for entry in history if theirs in entry]
        assert len(expected) in (2, 4)
        check_points(head, run, key, expected)
    assert "what comes after it is not recorded" in done.stderr  # the evaluation after the training


def test_a_hugging_face_training_that_fails_is_errored(head: Head, tmp_path: Path) -> None:
    path = script(tmp_path, HUGGING_FACE)
    done = head.train(interpreter("torch"), path, "fails")
    assert done.returncode == 1, said(done)
    run = head.run("tiny")
    assert run["run_status"] == "ERRORED"
    assert "step 7 is one too many" in run["status_detail"]
    assert [step for step, _ in head.points(run, "train/loss")] == [5]

    done = head.train(interpreter("torch"), path, "caught")
    assert "caught" in done.stdout, said(done)
    (again,) = [other for other in head.runs() if other["id"] != run["id"]]
    assert (again["run_status"], again["status_detail"]) == (
        "ERRORED",
        "the training did not come to its end",
    )


def test_a_hugging_face_training_within_a_run_logs_there(head: Head, tmp_path: Path) -> None:
    done = head.train(interpreter("torch"), script(tmp_path, HUGGING_FACE), "within")
    assert done.returncode == 0, said(done)
    (run,) = head.runs()
    assert (run["name"], run["run_status"]) == ("the-script-s-own", "FINISHED")
    # With the evaluation after the training.
    assert [step for step, _ in head.points(run, "eval/loss")] == [10, 20]
    assert "not recorded" not in done.stderr


def test_under_trainhead_run_both_ranks_of_a_trainer_are_one_run(
    head: Head, tmp_path: Path
) -> None:
    """Two ranks that really all-reduce; the trainer's main process logs."""
    options: list[object] = ["--workers", 2, "--name", "launched", "--tail", "0"]
    done = head.launch(options, interpreter("torch"), script(tmp_path, HUGGING_FACE))
    assert done.returncode == 0, said(done)
    (run,) = head.runs()
    assert (run["name"], run["run_status"]) == ("launched", "FINISHED")
    assert [step for step, _ in head.points(run, "train/loss")] == [5, 10]


def test_what_lightning_logs_is_recorded(head: Head, tmp_path: Path) -> None:
    done = head.train(interpreter("torch"), script(tmp_path, LIGHTNING))
    assert done.returncode == 0, said(done)
    run = head.run("tiny")
    assert run["run_status"] == "FINISHED"
    assert run["settings"] == {"width": 4}
    losses = json.loads(line(done.stdout, "LOSSES"))
    check_points(head, run, "train/loss", list(enumerate(losses)))
    assert "not recorded" in done.stderr  # the test after the fit


@pytest.mark.parametrize(
    ("mode", "status", "detail"),
    [
        ("fails", "ERRORED", "ValueError: step 3 is one too many"),
        ("caught", "ERRORED", "ValueError: step 3 is one too many"),
        ("interrupted", "ABORTED", "stopped by user (KeyboardInterrupt)"),
    ],
)
def test_a_lightning_training_ends_as_lightning_says(
    mode: str, status: str, detail: str, head: Head, tmp_path: Path
) -> None:
    done = head.train(interpreter("torch"), script(tmp_path, LIGHTNING), mode)
    assert (done.returncode == 0) == (mode != "fails"), said(done)
    run = head.run("tiny")
    assert (run["run_status"], run["status_detail"]) == (status, detail)
    assert len(head.points(run, "train/loss")) == 3


def test_a_lightning_training_within_a_run_logs_there(head: Head, tmp_path: Path) -> None:
    done = head.train(interpreter("torch"), script(tmp_path, LIGHTNING), "within")
    assert done.returncode == 0, said(done)
    (run,) = head.runs()
    assert (run["name"], run["run_status"]) == ("the-script-s-own", "FINISHED")
    assert {"train/loss", "test/loss"} <= head.keys(run)
