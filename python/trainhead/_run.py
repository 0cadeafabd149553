"""A run as a script sees it, whoever records it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType

from . import _calls, _session
from ._outbox import CLOSE_TIMEOUT_S


class Run:
    """One run, as `init` returns it: log to it, and leave its ``with`` block to end it.

    Attributes:
        id: the run's id.
    """

    id: str

    @property
    def name(self) -> str:
        """The run's name; its id until a head has made one up."""
        raise NotImplementedError

    @property
    def url(self) -> str | None:
        """Where the dashboard shows it; None if no head is known."""
        raise NotImplementedError

    @property
    def stop_requested(self) -> bool:
        """Whether somebody wants the run to stop. `report` then raises `Stop`."""
        raise NotImplementedError

    def log(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """Record `metrics` and return at once, as the function `trainhead.log`."""
        raise NotImplementedError

    def report(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """Record `metrics`, and raise `Stop` if somebody wants the run to stop."""
        raise NotImplementedError

    def finish(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """End the run well, and deliver what is left.

        It returns within `timeout_s`. What the head has not taken by then waits on disk, and a line
        on stderr says where and how to deliver it. Called while an exception is on its way
        (``finally:``), it ends the run as that exception does.
        """
        raise NotImplementedError

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()


class SessionRun(Run):
    """The run that this process is a worker of: its controller records it, and ends it."""

    def __init__(self, session: _session.Session) -> None:
        self._session = session
        self.id = os.environ.get("TRAINHEAD_RUN_ID") or session.context().run_id or ""

    @property
    def name(self) -> str:
        """See `Run`."""
        return self._session.context().run_name or self.id

    @property
    def url(self) -> str | None:
        """See `Run`."""
        return None

    @property
    def stop_requested(self) -> bool:
        """See `Run`."""
        return self._session.stop_requested

    def log(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """See `Run`."""
        _calls.log(metrics, step=step)

    def report(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """See `Run`."""
        _calls.report(metrics, step=step)

    def finish(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Do nothing: the run is the controller's."""
