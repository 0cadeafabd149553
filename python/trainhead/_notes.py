"""Lines on stderr for the person who reads the worker's log.

Not the `warnings` module (``-W error`` would turn a note into an exception inside the training
loop) and not `logging` (without a configured handler, a note would be lost).
"""

from __future__ import annotations

import contextlib
import sys

_noted: set[str] = set()


def note_once(subject: str, text: str) -> None:
    """Print `text` unless this process, or the one it was forked from, has had this `subject`."""
    if subject in _noted:
        return
    _noted.add(subject)
    note(text)


def note(text: str) -> None:
    """Print `text`, marked as ours.

    A stderr that is closed or full, or that a signal handler of ours interrupts, fails nobody.
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        print(f"trainhead: {text}", file=sys.stderr, flush=True)
