"""Which partitions share a task: where there are many more than cores, a task for each is waste.

    4 partitions on 2 cores     slots {0}, {1}, {2}, {3}
    32 partitions on 2 cores    slots {0, 2, .., 30}, {1, 3, .., 31}

A Python task takes Spark milliseconds to begin and end, whatever it does. So a batch over many
partitions costs what one over few does, and the number of partitions need not be chosen for the
cores that a cluster has today.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from viewlet.errors import StateError

_WAVES = 2  # of tasks that a stage may have before partitions share them


@dataclass(frozen=True)
class Slots:
    """`count` tasks for a number of partitions: partition p is in slot p % count."""

    partitions: int
    count: int

    @classmethod
    def of(cls, partitions: int, cores: int) -> Slots:
        """One for each partition, or one for each core where that makes more than two waves."""
        return cls(partitions, partitions if partitions <= _WAVES * cores else cores)

    def partitions_of(self, slot: int) -> range:
        """The partitions of a slot."""
        return range(slot, self.partitions, self.count)

    def sorted_out(self, slot: int, pairs: Iterable[tuple[int, Any]]) -> dict[int, list[Any]]:
        """What came for each partition of a slot, of (partition, record) pairs.

        The anchor's own pair has the slot's number, and for a record None or, by partition, what
        the driver scattered.
        """
        records: dict[int, list[Any]] = {p: [] for p in self.partitions_of(slot)}
        for partition, record in pairs:
            if record is None:
                continue
            if isinstance(record, dict):
                for scattered_to, data in record.items():
                    records[scattered_to].append(data)
            elif partition in records:
                records[partition].append(record)
            else:
                raise StateError(f"a record for partition {partition}: there are {self.partitions}")
        return records
