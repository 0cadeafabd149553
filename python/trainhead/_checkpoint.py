"""Checkpoints as a script sees them: directories to hand over, and what became of them."""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable


class CheckpointUploadMode(enum.Enum):
    """How a checkpoint that is reported gets to the storage."""

    SYNC = "sync"
    """`report` returns when this rank's part is in the storage."""
    ASYNC = "async"
    """`report` returns at once; parts are moved in the order of their reports."""
    NO_UPLOAD = "no_upload"
    """The script has put it where it shall stay."""


@dataclass(frozen=True)
class Checkpoint:
    """A directory with what training goes on from.

    Example::

        with tempfile.TemporaryDirectory() as directory:
            torch.save(model.state_dict(), f"{directory}/model.pt")
            checkpoint = trainhead.Checkpoint.from_directory(directory)
            trainhead.report({"loss": loss}, step=step, checkpoint=checkpoint)

        checkpoint = trainhead.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as directory:
                model.load_state_dict(torch.load(f"{directory}/model.pt"))

    Attributes:
        path: the local directory; None if it has to be fetched, which `as_directory` does.
        number: which of the run's checkpoints it is; None for one that is not reported yet.
        step: the training step that it was reported with.
        metrics: the metrics that it was reported with.
    """

    path: str | None
    number: int | None = None
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict, hash=False)
    _fetch: Callable[[], str | None] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Return the checkpoint that is this local directory. Nothing is copied.

        Raises:
            NotADirectoryError: there is no such directory.
        """
        directory = os.fspath(path)
        if not Path(directory).is_dir():
            raise NotADirectoryError(f"a checkpoint is a directory, and {directory!r} is none")
        return cls(str(Path(directory).absolute()))

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Give the checkpoint as a local directory, to read from: it is not the caller's to change.

        Raises:
            FileNotFoundError: it has to be fetched, and cannot be.
        """
        path = self.path
        if path is None and self._fetch is not None:
            path = self._fetch()
        if path is None:
            raise FileNotFoundError(f"checkpoint {self.number} cannot be fetched")
        yield path


@dataclass(frozen=True)
class ReportedCheckpoint:
    """A checkpoint of this run, and what is known of it.

    Attributes:
        number: which of the run's checkpoints it is.
        step: the training step that it was reported with.
        attempt: ordinal of the attempt that made it.
        state: ``"COMMITTED"``, ``"VALIDATED"``, ``"VALIDATION_FAILED"``, ...
        uri: where it is.
        metrics: the metrics that it was reported with, and those of its validation.
        size_bytes: what its files have together.
        num_files: how many files it has.
        pinned: whether somebody wants it to be kept.
        best: whether it is the best by the run's measure.
        latest: whether it is the one that the run would go on from.
        time: UNIX time, in seconds, of its report.
    """

    number: int
    step: int | None
    attempt: int
    state: str
    uri: str
    metrics: Mapping[str, float] = field(hash=False)
    size_bytes: int = 0
    num_files: int = 0
    pinned: bool = False
    best: bool = False
    latest: bool = False
    time: float = 0.0

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint itself, if it is on this node."""
        path = self.uri[len("file://") :] if self.uri.startswith("file://") else self.uri
        local = path if path.startswith("/") else None
        return Checkpoint(local, self.number, self.step, self.metrics)


def checkpoint_from_answer(
    said: object, fetch: Callable[[], str | None] | None = None
) -> Checkpoint | None:
    """Return the checkpoint that the controller tells of, None if it tells of none.

    Raises:
        KeyError, TypeError, ValueError: it is not of the form that is known.
    """
    if said is None:
        return None
    if not isinstance(said, dict):
        raise TypeError(f"a checkpoint is told as an object, not {type(said).__name__}")
    path = said.get("path")
    step = said.get("step")
    return Checkpoint(
        path=None if path is None else str(path),
        number=int(said["number"]),
        step=None if step is None else int(step),
        metrics=_numbers(said.get("metrics")),
        _fetch=fetch,
    )


def reported_from_answer(said: Mapping[str, Any]) -> ReportedCheckpoint:
    """Return one checkpoint of the controller's list.

    Raises:
        KeyError, TypeError, ValueError: it is not of the form that is known.
    """
    step = said.get("step")
    return ReportedCheckpoint(
        number=int(said["number"]),
        step=None if step is None else int(step),
        attempt=int(said["attempt"]),
        state=str(said["state"]),
        uri=str(said["uri"]),
        metrics=_numbers(said.get("metrics")),
        size_bytes=int(said.get("size_bytes") or 0),
        num_files=int(said.get("num_files") or 0),
        pinned=bool(said.get("pinned")),
        best=bool(said.get("best")),
        latest=bool(said.get("latest")),
        time=float(said.get("time_ms") or 0) / 1000,
    )


def to_report(
    checkpoint: Checkpoint | str | os.PathLike[str],
    mode: CheckpointUploadMode,
    delete_local: bool | None,
    ranks: list[int] | None,
) -> dict[str, Any]:
    """Return a checkpoint as a report carries it.

    Raises:
        TypeError, ValueError, NotADirectoryError: it cannot be reported; the message says why.
    """
    if not isinstance(mode, CheckpointUploadMode):
        raise TypeError(f"checkpoint_upload_mode must be a CheckpointUploadMode, not {mode!r}")
    path = checkpoint.path if isinstance(checkpoint, Checkpoint) else os.fspath(checkpoint)
    if path is None:
        raise ValueError("a checkpoint that is not here cannot be reported")
    # What the script has uploaded by itself may be anywhere.
    elsewhere = mode is CheckpointUploadMode.NO_UPLOAD and "://" in path
    if not elsewhere:
        path = Checkpoint.from_directory(path).path
    # A script may still need its directory when `report` returns, unless it has let go of it.
    delete = mode is CheckpointUploadMode.ASYNC if delete_local is None else delete_local
    said: dict[str, Any] = {"path": path, "upload_mode": mode.value, "delete_local": delete}
    if ranks is not None:
        said["ranks"] = [int(rank) for rank in ranks]
    return said


def _numbers(metrics: object) -> dict[str, float]:
    """Metrics as numbers: NaN and the infinities come as strings."""
    if not isinstance(metrics, Mapping):
        return {}
    return {str(key): float(value) for key, value in metrics.items()}
