"""The worker's side of TrainHead: what a training script tells its controller.

    import trainhead

    context = trainhead.get_context()
    for step in range(1000):
        loss = train_one_step()
        trainhead.log({"loss": loss}, step=step)        # never waits
        if step % 100 == 0:
            trainhead.report({"loss": loss}, step=step)  # waits until it is taken; may stop

Start it with ``trainhead run --workers 2 -- python3 train.py``. Run as plain
``python3 train.py``, the same script trains just as well and nothing is recorded.
"""

from ._calls import (
    finish,
    get_all_reported_checkpoints,
    get_checkpoint,
    get_context,
    heed_notices,
    log,
    notice,
    report,
)
from ._checkpoint import Checkpoint, CheckpointUploadMode, ReportedCheckpoint
from ._context import Context
from ._init import active_run, init
from ._notice import Notice
from ._run import Run
from ._session import Stop
from ._trials import run_trials

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "CheckpointUploadMode",
    "Context",
    "Notice",
    "ReportedCheckpoint",
    "Run",
    "Stop",
    "active_run",
    "finish",
    "get_all_reported_checkpoints",
    "get_checkpoint",
    "get_context",
    "heed_notices",
    "init",
    "log",
    "notice",
    "report",
    "run_trials",
]
