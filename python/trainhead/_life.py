"""The runs that this process records by itself, and its end: exit handlers, SIGTERM, forks."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Protocol

from ._ending import Ending, InterpreterWatch, by_signal

# What is still to be said when SIGTERM comes is said for so long.
TERM_TIMEOUT_S = 5.0
# A signal that comes in the middle of writing comes again after this.
AGAIN_S = 0.005


class Recorded(Protocol):
    """A run that this process records by itself."""

    def log(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """See `Run.log`."""

    def report(self, metrics: Mapping[str, object], step: int | None = None) -> None:
        """See `Run.report`."""

    def end(self, ending: Ending | None, timeout_s: float = ...) -> None:
        """End it, once; None leaves it to the head to conclude how."""


# Oldest first; the newest is the active one.
_runs: list[Recorded] = []
_watch: InterpreterWatch | None = None
_our_handler = False
_lock = threading.RLock()


def add(run: Recorded) -> None:
    """From now on this run ends with the process, if not before."""
    global _watch
    with _lock:
        _runs.append(run)
        if _watch is None:
            _watch = InterpreterWatch()
        _handle_term()


def forget(run: Recorded) -> None:
    """The run has ended."""
    global _watch
    with _lock:
        if run in _runs:
            _runs.remove(run)
        if not _runs and _watch is not None:
            _watch.close()
            _watch = None
            _leave_term()


def newest() -> Recorded | None:
    """Return the run that was begun last and has not ended."""
    runs = _runs
    return runs[-1] if runs else None


def _handle_term() -> None:
    global _our_handler
    # Somebody else's handler is not ours to replace, and other threads may not.
    if threading.current_thread() is threading.main_thread():
        with contextlib.suppress(ValueError, OSError):
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _on_term)
                _our_handler = True


def _leave_term() -> None:
    global _our_handler
    if _our_handler and threading.current_thread() is threading.main_thread():
        with contextlib.suppress(ValueError, OSError):
            if signal.getsignal(signal.SIGTERM) is _on_term:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _our_handler = False


def _on_term(number: int, frame: FrameType | None) -> None:
    if _is_writing(frame):
        # It holds locks that are needed now.
        again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), signal.SIGTERM))
        again.daemon = True
        again.start()
        return
    for run in reversed(list(_runs)):
        run.end(by_signal("SIGTERM"), TERM_TIMEOUT_S)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _is_writing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") in ("trainhead._queue", "trainhead._writer"):
            return True
        frame = frame.f_back
    return False


def _at_exit() -> None:
    watch = _watch
    if not _runs or watch is None:
        return
    ending = watch.ending()
    # Who presses Ctrl-C now does not want to wait for the head.
    with contextlib.suppress(KeyboardInterrupt):
        for run in reversed(list(_runs)):
            run.end(ending)


# A signal that a child gets before it is told that it is one would be lost to our handler.
_mask_before: set[int] | None = None


def _before_fork() -> None:
    global _mask_before
    if _our_handler:
        _mask_before = set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}))


def _unblock() -> None:
    global _mask_before
    mask, _mask_before = _mask_before, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork() -> None:
    """In a forked child: the runs are the parent's."""
    global _watch, _lock
    _lock = threading.RLock()
    _runs.clear()
    if _watch is not None:
        _watch.close()
        _watch = None
    _leave_term()
    _unblock()


atexit.register(_at_exit)
os.register_at_fork(before=_before_fork, after_in_parent=_unblock, after_in_child=_after_fork)
