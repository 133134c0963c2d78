"""What a database has done lately: its newest batches and checkpoints, for those who watch it.

Nobody watches most databases, so that a batch alone does not pay for it: `DatabaseState.history`
is None until a server sets it.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

NEWEST = 500


@dataclass(frozen=True)
class PastBatch:
    """A batch that stands: when, of which relations, how many rows, and how long it took."""

    version: int
    time: float
    relations: tuple[str, ...]
    rows: int
    ms: float


@dataclass(frozen=True)
class PastCheckpoint:
    """A checkpoint or snapshot that was written, and the version that is in it."""

    version: int
    time: float
    directory: str


class BatchHistory:
    """The newest batches and checkpoints; sums are over everything since it began."""

    def __init__(self) -> None:
        self.batches: deque[PastBatch] = deque(maxlen=NEWEST)
        self.checkpoints: deque[PastCheckpoint] = deque(maxlen=NEWEST)
        self.rows = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Of the batches of each relation; those of several relations count in equal parts."""

    def add(self, version: int, relations: Sequence[str], rows: int, seconds: float) -> None:
        """A batch that stands."""
        made = PastBatch(version, time.time(), tuple(relations), rows, seconds * 1000)
        self.batches.append(made)
        self.rows += rows
        for relation in relations:
            self.seconds[relation] += seconds / len(relations)

    def add_checkpoint(self, version: int, directory: str) -> None:
        """A checkpoint that was written."""
        self.checkpoints.append(PastCheckpoint(version, time.time(), directory))
