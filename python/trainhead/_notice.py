"""What the controller says before it ends a group of workers that does well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Notice:
    """The group of this worker is going to be ended: one decision for all of its ranks.

    Attributes:
        reason: ``"preemption"``: the machine is taken away; ``"resize"``: a group of another size
            follows.
        deadline: UNIX time, in seconds, at which the group is ended by force.
        checkpoint_at_step: the step at which every rank is to write its checkpoint. No rank had
            reported it when that was decided, so nobody waits for a rank that is past it. None if
            the ranks report no steps.
    """

    reason: str
    deadline: float
    checkpoint_at_step: int | None


def notice_from_answer(answer: Mapping[str, Any]) -> Notice | None:
    """Return what an answer of the controller says, None if it says nothing that is understood."""
    said = answer.get("preemption")
    try:
        step = said["checkpoint_at_step"]  # type: ignore[index]
        return Notice(
            reason=str(said["reason"]),  # type: ignore[index]
            deadline=float(said["deadline_ms"]) / 1000,  # type: ignore[index]
            checkpoint_at_step=None if step is None else int(step),
        )
    except (KeyError, TypeError, ValueError):
        return None
