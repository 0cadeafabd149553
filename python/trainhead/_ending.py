"""How a process ends, as the record of a run says it: well, by exception, exit code or signal.

Only what is known is said. An interpreter does not tell its exit handlers why it ends, so this
module looks: whether the outermost frame returned, which exception left it (Python 3.12 tells) or
was shown last by the interpreter, and with which code `sys.exit` was called.
"""

from __future__ import annotations

import builtins
import dis
import sys
import threading
import traceback
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Callable, NoReturn

from ._unwinding import watch_unwinding

MAX_TRACE_LINES = 200
MAX_TEXT = 2_000

_RETURNS = ("RETURN_VALUE", "RETURN_CONST")


@dataclass(frozen=True)
class Ending:
    """How a run of this process ended.

    Attributes:
        status: FINISHED, ERRORED or ABORTED.
        reason: why its attempt ended, as the head calls it.
        detail: one sentence for people.
        exit_code: the process's, if it is known.
        signal: the signal that ends the process.
        trace: the lines of the traceback.
    """

    status: str = "FINISHED"
    reason: str = "completed"
    detail: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    trace: list[str] = field(default_factory=list)


def stopped(detail: str, exit_code: int | None = 0, signal: str | None = None) -> Ending:
    """Somebody asked for it."""
    return Ending("ABORTED", "stopped", detail, exit_code, signal)


def failed(
    detail: str,
    exit_code: int | None = None,
    signal: str | None = None,
    trace: list[str] | None = None,
) -> Ending:
    """Something went wrong."""
    return Ending("ERRORED", "worker_failed", detail, exit_code, signal, trace or [])


def by_exception(error: BaseException | None) -> Ending:
    """Return how a block ended that this exception left."""
    if error is None:
        return Ending()
    if isinstance(error, SystemExit):
        return by_exit(error.code, _trace(error))
    if isinstance(error, KeyboardInterrupt):
        return stopped("stopped by user (KeyboardInterrupt)", None, "SIGINT")
    text = "".join(traceback.format_exception_only(type(error), error)).strip()[:MAX_TEXT]
    return failed(f"exited with code 1: {text}", 1, trace=_trace(error))


def by_exit(code: object, trace: list[str] | None = None) -> Ending:
    """Return how a process ends that calls `sys.exit` with this."""
    if code is None:
        return Ending(exit_code=0)
    if isinstance(code, int):
        shown = int(code) & 0xFF
        if shown == 0:
            return Ending(exit_code=0)
        return failed(f"exited with code {shown}: SystemExit: {int(code)}", shown, trace=trace)
    return failed(f"exited with code 1: SystemExit: {code}"[:MAX_TEXT], 1, trace=trace)


def by_signal(name: str) -> Ending:
    """Return how a process ends that this signal ends."""
    return failed(f"killed by {name}", None, name)


def _trace(error: BaseException) -> list[str]:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    lines = text.rstrip("\n").split("\n")
    if len(lines) > MAX_TRACE_LINES:
        half = MAX_TRACE_LINES // 2
        lines = [*lines[: half - 1], "  ...", *lines[-half:]]
    return [line[:MAX_TEXT] for line in lines]


class InterpreterWatch:
    """Finds out why the interpreter ends, for the exit handlers. Watches from its making on."""

    def __init__(self) -> None:
        self._outermost = _outermost_frame()
        self._shown_before = getattr(sys, "last_value", None)
        self._codes: list[object] = []
        self._left_by: list[BaseException] = []
        self._undo: list[Callable[[], None]] = []
        unwatch = watch_unwinding(self._outermost, self._left_by) if self._outermost else None
        if unwatch is not None:
            self._undo.append(unwatch)
        else:
            self._replace_exits()

    def ending(self) -> Ending | None:
        """Return how the interpreter ends, in an exit handler; None if that cannot be told."""
        if self._outermost is None or _has_returned(self._outermost):
            return Ending(exit_code=0)
        if self._left_by:
            return by_exception(self._left_by[-1])
        shown = getattr(sys, "last_value", None)
        if isinstance(shown, BaseException) and shown is not self._shown_before:
            return by_exception(shown)
        # `raise SystemExit(...)` leaves nothing behind.
        return by_exit(self._codes[-1]) if self._codes else None

    def close(self) -> None:
        """Watch no more."""
        while self._undo:
            self._undo.pop()()
        self._outermost = self._shown_before = None
        self._left_by.clear()

    def _replace_exits(self) -> None:
        """Have `sys.exit`, `exit` and `quit` note their code, also where they were imported to."""
        main = sys.modules.get("__main__")
        places: list[tuple[Any, str]] = [(sys, "exit"), (builtins, "exit"), (builtins, "quit")]
        for name, value in list(vars(main).items()) if main is not None else ():
            if value is sys.exit:
                places.append((main, name))
        for place, name in places:
            original = getattr(place, name, None)
            if callable(original):
                noting = self._noting(original)
                setattr(place, name, noting)
                self._undo.append(_restore(place, name, noting, original))

    def _noting(self, original: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
        def exit(code: object = None, /) -> NoReturn:
            # Elsewhere it ends a thread.
            if threading.current_thread() is threading.main_thread():
                self._codes[:] = [code]
            original(code)

        exit.__doc__ = original.__doc__
        return exit


def _restore(place: Any, name: str, ours: object, original: object) -> Callable[[], None]:
    def undo() -> None:
        if getattr(place, name, None) is ours:
            setattr(place, name, original)

    return undo


def _outermost_frame() -> FrameType | None:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _has_returned(frame: FrameType) -> bool:
    at = frame.f_lasti
    return 0 <= at < len(frame.f_code.co_code) and dis.opname[frame.f_code.co_code[at]] in _RETURNS
