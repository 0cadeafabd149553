"""The functions of the package: to the session if there is one, else to the run of `init`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from . import _life
from ._checkpoint import Checkpoint, CheckpointUploadMode, ReportedCheckpoint, to_report
from ._context import Context, context_from_environment
from ._notes import note_once
from ._notice import Notice
from ._session import current_session, point


def report(
    metrics: Mapping[str, object],
    *,
    step: int | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_ranks: list[int] | None = None,
) -> None:
    """Hand `metrics`, and a checkpoint, to the controller and wait until it has taken them.

    Call it on every rank, at points where the training may be stopped: once an epoch, or every
    some hundred steps. For the steps between, use `log`.

    The wait is bounded: if the controller does not answer for 60 seconds, or is gone, there is one
    note on stderr and the training goes on without it. With a checkpoint to move it takes as long
    as that takes. After `init` nothing is waited for; where there is neither, the metrics are only
    checked.

    Example::

        for epoch in range(epochs):
            loss = train_one_epoch()
            save_model("checkpoint")
            trainhead.report(
                {"loss": loss, "test": {"accuracy": evaluate()}},
                step=epoch,
                checkpoint=trainhead.Checkpoint.from_directory("checkpoint"),
            )

    Args:
        metrics: numbers by name. Nested dicts become names with a slash, as ``test/accuracy``.
            Numbers are int, float (NaN and infinities, too), bool, and whatever has one number to
            give by ``.item()``: numpy scalars, tensors of one element.
        step: the training step that they belong to, an integer from 0. Without it, the count of
            this run's reports.
        checkpoint: this rank's part of the checkpoint of this step. It is complete, and kept, when
            all ranks have handed theirs, or reported the step without one.
        checkpoint_upload_mode: whether to wait until it is moved.
        delete_local_checkpoint_after_upload: whether the directory is removed then; by default
            with `CheckpointUploadMode.ASYNC` only.
        checkpoint_ranks: the ranks whose parts make up this checkpoint; by default all.

    Raises:
        TypeError: a metric is no number, or `step` no integer; the message names the key.
        ValueError: a metric or a key cannot be stored; the message names the key. Or the
            controller cannot take the checkpoint.
        NotADirectoryError: the checkpoint is no directory.
        Stop: the controller, or somebody, wants this run to stop.
    """
    said = None
    if checkpoint is not None:
        delete = delete_local_checkpoint_after_upload
        said = to_report(checkpoint, checkpoint_upload_mode, delete, checkpoint_ranks)
    session = current_session()
    if session is not None:
        session.report(metrics, step, said)
        return
    if said is not None:
        note_once("no-checkpoints", "checkpoints are kept in runs of `trainhead run` only")
    if (run := _life.newest()) is not None:
        run.report(metrics, step)
    else:
        _check_only(metrics, step)


def log(metrics: Mapping[str, object], *, step: int | None = None) -> None:
    """Queue `metrics` for the controller and return at once.

    For every step, on any rank. It takes some microseconds, whatever the controller does: a
    thread sends the points ten times a second, and the rest when the interpreter ends (for 10
    seconds at most). When 8 MiB of them wait, the oldest are dropped, counted and noted on stderr
    once; after `init` they wait on disk instead. A process that is killed loses the last tenth of a
    second, and so does a forked one that ends by ``os._exit``, as those of `multiprocessing` do.

    Example::

        for step, batch in enumerate(batches):
            trainhead.log({"batch/loss": train(batch), "lr": lr}, step=step)

    Args:
        metrics: as for `report`.
        step: as for `report`.

    Raises:
        TypeError: as for `report`.
        ValueError: as for `report`.
    """
    session = current_session()
    if session is not None:
        session.log(metrics, step)
    elif (run := _life.newest()) is not None:
        run.log(metrics, step)
    else:
        _check_only(metrics, step)


def get_context() -> Context:
    """Return the run that this process is a worker of, and its place in it.

    Asks the controller once. Outside of a session, or if the controller does not answer, the ranks
    come from the environment (``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ...), by default those of
    a process that trains alone.

    Example::

        context = trainhead.get_context()
        shard = data[context.rank :: context.world_size]

    Raises:
        ValueError: a variable of the environment that should be an integer is not.
    """
    session = current_session()
    return context_from_environment() if session is None else session.context()


def get_checkpoint() -> Checkpoint | None:
    """Return the latest usable checkpoint of this run, to go on from; None if there is none.

    It is brought to this node first if it is not there, which may take long. Outside of a session
    there is none.

    Example::

        start = 0
        checkpoint = trainhead.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as directory:
                model.load_state_dict(torch.load(f"{directory}/model.pt"))
            start = checkpoint.step + 1
    """
    session = current_session()
    return None if session is None else session.checkpoint()


def get_all_reported_checkpoints(
    consistency: str = "validated", timeout_s: float | None = None
) -> list[ReportedCheckpoint]:
    """Return what became of the checkpoints that were reported so far, oldest first.

    Args:
        consistency: ``"committed"`` waits until each is complete in the storage, or cannot be;
            ``"validated"`` also until its validation, where there is one, is over.
        timeout_s: how long that may take at most; then they are returned as they are.

    Raises:
        ValueError: `consistency` is something else.
    """
    if consistency not in ("committed", "validated"):
        raise ValueError(f"consistency is 'validated' or 'committed', not {consistency!r}")
    session = current_session()
    return [] if session is None else session.reported_checkpoints(consistency, timeout_s)


def heed_notices() -> None:
    """Say that this worker acts on a `notice` by itself, before its training loop begins.

    When every rank has said so, a group that is going to be preempted or resized is left to itself
    until shortly before the notice's deadline. Otherwise it gets the stop signal at once.

    Example::

        trainhead.heed_notices()
        for step in range(start, steps):
            loss = train_one_step()
            trainhead.report({"loss": loss}, step=step)
            notice = trainhead.notice()
            if notice and step == (notice.checkpoint_at_step or step):
                save_checkpoint(step)
                sys.exit(0)
    """
    session = current_session()
    if session is not None:
        session.heed_notices()


def notice() -> Notice | None:
    """Return what the last `report` brought: the notice that this group is going to be ended.

    None as long as nothing is known, and outside of a session.
    """
    session = current_session()
    return None if session is None else session.notice()


def finish(value: object) -> None:
    """Hand over what the training returns, for `TrainResult`; that of rank 0 is kept.

    Args:
        value: anything that is JSON: numbers, texts, lists and dicts of them.

    Raises:
        TypeError: `value` is not.
        ValueError: it holds itself.
    """
    session = current_session()
    if session is not None:
        session.finish(value)


def _check_only(metrics: Mapping[str, object], step: int | None) -> None:
    note_once(
        "no-session",
        "not started by `trainhead run` and no `trainhead.init()`:"
        " metrics are checked, not recorded",
    )
    point(metrics, step)
