"""What was said and reported and is not on disk yet: in memory, bounded, in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, Union

from ._metrics import Number, encode_json

# A line has at most so many points, and about so many values: some milliseconds of encoding, for
# as long as which the training loop may have to wait for the interpreter's lock.
LINE_POINTS = 1_000
LINE_VALUES = 5_000


class Point(NamedTuple):
    """One report of one rank."""

    attempt: int
    rank: int
    step: int
    time_ms: int
    metrics: dict[str, Number]


class Word(NamedTuple):
    """A line that is no metrics: as it is written."""

    line: bytes


Item = Union[Point, Word]


class Queue:
    """Points and words, oldest first."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._values = 0
        # Reentrant, because a signal handler may log while its thread was just logging.
        self._lock = threading.RLock()

    @property
    def values(self) -> int:
        """How many values the points have, roughly: what the memory in use goes by."""
        return self._values

    def put(self, item: Item) -> None:
        """Append an item."""
        with self._lock:
            self._items.append(item)
            self._values += _weight(item)

    def take(self) -> list[Item]:
        """Take what makes one line or a few: a word, or points up to the next word."""
        taken: list[Item] = []
        weight = 0
        with self._lock:
            while self._items and len(taken) < LINE_POINTS:
                item = self._items[0]
                weight += _weight(item)
                if taken and (isinstance(item, Word) or weight > LINE_VALUES):
                    break
                taken.append(self._items.popleft())
                self._values -= _weight(item)
                if isinstance(item, Word):
                    break
        return taken

    def __len__(self) -> int:
        return len(self._items)


def _weight(item: Item) -> int:
    return len(item.metrics) + 1 if isinstance(item, Point) else 1


def batches(points: Iterable[Point]) -> list[dict[str, Any]]:
    """Return points as the bodies of reports, without writer and number: one for each rank."""
    of_rank: dict[tuple[int, int], list[Point]] = {}
    for point in points:
        of_rank.setdefault((point.attempt, point.rank), []).append(point)
    return [
        {"attempt": attempt, "rank": rank, **_rows_or_columns(some)}
        for (attempt, rank), some in of_rank.items()
    ]


def _rows_or_columns(points: list[Point]) -> dict[str, Any]:
    """Columns where all have the same keys, which is quicker to read and shorter."""
    first = points[0].metrics
    if all(point.metrics.keys() == first.keys() for point in points):
        columns = {
            "step": [point.step for point in points],
            "time_ms": [point.time_ms for point in points],
            "metrics": {key: [point.metrics[key] for point in points] for key in first},
        }
        return {"columns": columns}
    rows = [
        {"step": point.step, "time_ms": point.time_ms, "metrics": point.metrics} for point in points
    ]
    return {"reports": rows}


def word(kind: str, value: object) -> Word:
    """Return a line that is no metrics."""
    return Word(encode_json({kind: value}).encode())
