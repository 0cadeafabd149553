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

from ._context import Context
from ._init import active_run, init
from ._notice import Notice
from ._run import Run
from ._session import Stop, finish, get_context, heed_notices, log, notice, report

__version__ = "0.1.0"

__all__ = [
    "Context",
    "Notice",
    "Run",
    "Stop",
    "active_run",
    "finish",
    "get_context",
    "heed_notices",
    "init",
    "log",
    "notice",
    "report",
]
