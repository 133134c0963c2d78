"""What a version cost: bytes that crossed the network, and seconds in tasks and commits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from viewlet.engine.partitions.partition_program import Status


@dataclass(frozen=True)
class Metrics:
    """The last version: bytes that crossed the network, and what Spark ran for its steps."""

    bytes_scattered: int = 0
    bytes_broadcast: int = 0
    bytes_shuffled: int = 0
    bytes_collected: int = 0
    bytes_logged: int = 0
    jobs: int = 0
    stages: int = 0
    seconds: float = 0.0
    run_seconds: float = 0.0  # in the program: per stage the slowest partition, summed
    task_seconds: float = 0.0  # the same for the whole task: lock, log and stamps included
    commit_seconds: float = 0.0

    def __add__(self, other: Metrics) -> Metrics:
        pairs = ((f.name, getattr(self, f.name) + getattr(other, f.name)) for f in fields(self))
        return Metrics(**dict(pairs))


def run_seconds(statuses: Iterable[Status], worked: Iterable[Status]) -> float:
    """Time in the program: of tasks without a partition, then per stage the slowest one."""
    before = max((s.run_seconds[0] for s in worked), default=0.0)
    return before + slowest(s.run_seconds for s in statuses)


def slowest(per_partition: Iterable[list[float]]) -> float:
    """Seconds of a step whose partitions wait for each other after every stage."""
    return float(sum(max(stage) for stage in zip(*per_partition, strict=False)))
