"""Which exception leaves the outermost frame, where Python can tell (3.12 and later)."""

from __future__ import annotations

import contextlib
import sys
from types import CodeType, FrameType
from typing import Any, Callable

# The numbers that Python leaves to tools of no known kind.
_TOOLS = (3, 4)


def watch_unwinding(frame: FrameType, seen: list[BaseException]) -> Callable[[], None] | None:
    """Put in `seen` what leaves `frame`; return what ends that, or None where it cannot be done.

    Costs a call for each frame that an exception leaves, and nothing elsewhere.
    """
    if sys.version_info < (3, 12):
        return None
    outermost = frame.f_code
    monitoring: Any = sys.monitoring  # type: ignore[unreachable, unused-ignore]
    event = monitoring.events.PY_UNWIND

    def unwound(code: CodeType, offset: int, error: BaseException) -> None:
        if code is outermost:
            seen[:] = [error]

    for tool in _TOOLS:
        # Somebody else's.
        with contextlib.suppress(ValueError):
            monitoring.use_tool_id(tool, "trainhead")
            monitoring.register_callback(tool, event, unwound)
            monitoring.set_events(tool, event)
            return lambda: monitoring.free_tool_id(tool)
    return None
