"""`init`: the beginning of a run that a script records by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping

from . import _life, _session
from ._notes import note
from ._own_run import OwnRun
from ._registration import registration
from ._run import Run, SessionRun


def init(
    name: str | None = None,
    *,
    id: str | None = None,
    experiment: str | None = None,
    config: object = None,
    tags: Mapping[str, object] | None = None,
    job_id: str | None = None,
    head: str | None = None,
    dir: str | os.PathLike[str] | None = None,
) -> Run:
    """Begin a run that this process records by itself, and return it.

    The run ends with its ``with`` block, by `Run.finish`, or with the interpreter: as FINISHED if
    that is a clean end; as ERRORED with the exception, exit code or signal otherwise. A head that
    is away, slow or broken holds nothing up: what is logged waits on disk.

    In a worker of `trainhead run` it returns that run, with the same methods: a script need not
    know who started it.

    Example::

        with trainhead.init("mnist", config={"lr": 0.1}, tags={"team": "vision"}) as run:
            for step in range(1000):
                run.log({"loss": train_one_step()}, step=step)

    Args:
        name: a name for people; made up if missing.
        id: the run's id, made if missing.
        experiment: the experiment that the run belongs to.
        config: what the run is started with: a dict, a dataclass or an `argparse.Namespace`.
        tags: labels by name.
        job_id: the job that it belongs to, for example of Slurm.
        head: the head's address, ``http://127.0.0.1:8420``. Without it ``TRAINHEAD_URL``, else the
            head that serves the data directory; it is looked for again as long as there is none.
        dir: the data directory. Without it ``TRAINHEAD_DATA_DIR``, else that of the `trainhead`
            command.

    Raises:
        TypeError, ValueError: an argument cannot be used; the message says which.
    """
    register = registration(
        name, id=id, experiment=experiment, config=config, tags=tags, job_id=job_id
    )
    session = _session.current_session()
    if session is not None:
        return SessionRun(session)
    run = OwnRun(register, head, dir)
    _life.add(run)
    if run.url is not None:
        note(f"run {run.name} is at {run.url}")
    return run


def active_run() -> Run | None:
    """Return the run that `log` and `report` go to.

    It is the one that was begun last by `init` and has not ended, or that which this process is a
    worker of. None if there is none.
    """
    session = _session.current_session()
    if session is not None:
        return SessionRun(session)
    run = _life.newest()
    return run if isinstance(run, Run) else None
