"""Trials of a sweep, one after the other in this process.

Each trial has a session of its own at the other end, so it has one here, too: what was logged for
one trial is delivered before the next begins, and nothing of its context is left over.
"""

from __future__ import annotations

import os
import traceback
from typing import Any, Callable

from ._calls import finish, get_context
from ._metrics import encode_json
from ._session import Stop, current_session, renew_session


def run_trials(train: Callable[[dict[str, Any]], object]) -> None:
    """Call `train` for each trial that a sweep gives to this process, until there are no more.

    In `train`, `report`, `log`, `get_checkpoint` and `get_context` are those of the trial. A report
    returns when the sweep wants the next result; when it wants none, `Stop` is raised, which is
    caught here. What `train` returns is handed over as with `finish`; what it raises is told as the
    trial's error, and the next trial begins all the same.

    The process is used again as long as `train` ends within 2 seconds when it is stopped;
    otherwise the sweep starts another one. Memory and threads that a trial leaves behind are
    still there in the next one.

    Outside of a sweep, `train` is called once, with the configuration of the run.

    Example::

        def train(config):
            model = build_model(lr=config["lr"])
            for epoch in range(config.get("epochs", 10)):
                trainhead.report({"loss": train_one_epoch(model)}, step=epoch)

        trainhead.run_trials(train)

    Args:
        train: called with the trial's configuration. What it returns has to be JSON.

    Raises:
        Exception: outside of a sweep, what `train` raises.
    """
    if current_session() is None or not os.environ.get("TRAINHEAD_REPORTING"):
        value = train(dict(get_context().config))
        if value is not None:
            finish(value)
        return
    number = 0
    while (trial := _next_trial(number)) is not None:
        number = int(trial["number"])
        said = _call(train, dict(trial["config"]))
        # What the trial logged is delivered before it is over.
        session = renew_session()
        if session is not None:
            session.end_trial(number, said)


def _next_trial(after: int) -> dict[str, Any] | None:
    """Wait for a trial; None if there will not be one, or nobody is there who would know."""
    while True:
        session = current_session()
        offered = None if session is None else session.next_trial(after)
        if offered is None or offered.get("leave") is True:
            return None
        trial = offered.get("trial")
        if isinstance(trial, dict):
            return trial


def _call(train: Callable[[dict[str, Any]], object], config: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be told of one call of `train`."""
    try:
        said = {"value": train(config)}
        encode_json(said)
    except Stop:
        return {}
    except SystemExit as error:
        if error.code in (None, 0):
            return {}
        return _raised(error, f"SystemExit: {error.code}")
    except Exception as error:
        traceback.print_exc()
        return _raised(error, f"{type(error).__name__}: {error}")
    return said


def _raised(error: BaseException, message: str) -> dict[str, Any]:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return {"error": {"message": message, "traceback": "".join(lines)}}
