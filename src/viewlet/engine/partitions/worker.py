"""The worker's half of the stateful-partition service: the tasks, one partition each.

A task names the tick and the chain that it expects and brings the inputs that make the next one.
It may be repeated, doubled, moved and killed at any point (see partition.py); a stage that was
applied already answers with the outputs recorded for it. Nothing here imports pyspark: programs
can be tested in one process with `run_stage` itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any, cast

from viewlet import errors
from viewlet.engine.partitions.head import partition_lock
from viewlet.engine.partitions.partition import LostState, Partition, detach
from viewlet.engine.partitions.partition_program import (
    DRIVER,
    ClusterSite,
    Exporting,
    PartitionProgram,
    Repartitioning,
    Status,
    StepRequest,
    spare_collector,
)
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.partitions.snapshot import SnapshotOrder, no_other, start, take
from viewlet.errors import Position, StateError, ViewletError

__all__ = ["DRIVER", "PartitionProgram", "PartitionState", "Repartitioning"]

# Kinds of records that travel between stages, to a partition or through it to the driver.
CHUNK, OUTPUT, STATUS, FAILURE = "chunk", "output", "status", "failure"
WORKED = "worked"  # the status of a task without a partition
Record = tuple[str, int, Any, Any]  # kind, stage, source (for the order), payload


def run_stage(
    step: StepRequest, stage: int, partition: int, records: Iterable[Any]
) -> Iterator[tuple[int, Record]]:
    """One task: the records that arrived for a partition -> (destination, record) pairs.

    Every partition sends its status to itself through the shuffle: that is how the next stage
    knows which chain to expect. What is meant for the driver travels along.
    """
    started = time.perf_counter()
    chunks: list[Record] = []
    status: Status | None = Status(step.chains[partition]) if stage == 0 else None
    failed = False
    for record in records:
        kind = CHUNK if isinstance(record, bytes) else record[0]
        if isinstance(record, bytes):  # from the user's RDD; a shuffle keeps no order, bytes do
            chunks.append((CHUNK, 0, record, record))
        elif kind == CHUNK:
            chunks.append(record)
        elif kind == STATUS:
            status = record[3]
        else:
            failed = failed or kind == FAILURE
            yield partition, record
    if failed:
        return
    if status is None:
        raise StateError(f"partition {partition}: stage {stage - 1} left no status")
    chunks.sort(key=lambda record: record[2])
    inputs = [record[3] for record in chunks]
    try:
        with Partition.locked(step.site, partition) as part:
            outputs, latest = part.advance(step, stage, status.chain, inputs)
    except ViewletError as problem:
        # Repeating the task would end the same way. The failure is sent on as data: to every
        # partition, so that no later stage runs, and through them to the driver.
        last = stage == step.last
        for target in [partition] if last else range(step.site.partitions):
            yield target, (FAILURE, stage, partition, problem_of(problem))
        return
    if step.snapshot is not None and stage == step.last:
        start(snapshot_order(step.site, partition, step.snapshot[partition]))
    status.chain = latest.chain
    status.executor = f"{socket.gethostname()}/{os.getppid()}"  # workers of an executor: one parent
    status.logged += latest.logged
    status.run_seconds += latest.run_seconds or [0.0]
    status.notes += latest.notes
    for target, payload in outputs.items():
        if target == DRIVER:
            yield partition, (OUTPUT, stage, partition, payload)
        else:
            status.shuffled += len(payload)
            yield target, (CHUNK, stage, (partition, 0), payload)
    spare_collector()
    status.task_seconds.append(time.perf_counter() - started)
    yield partition, (STATUS, stage, partition, status)


def settle_partition(step: StepRequest, partition: int) -> tuple[int, str, list[str]]:
    """Bring the state to the step's tick; what is lost of it, "" where it is there.

    A state that is further and can go back stays: the next step may be the one that it has done.
    """
    chain = step.chains[partition]
    with Partition.locked(step.site, partition) as part:
        try:
            state = part.attach(step.fence)
            if state is None or not part.goes_back(state, step.tick, chain):
                part.settle(state, step.tick, chain, step.fence)
        except LostState as problem:
            return partition, problem.message, part.notes
        return partition, "", part.notes


def snapshot_order(site: ClusterSite, partition: int, committed: str) -> SnapshotOrder:
    """What the process that writes snapshots must know to write one of this partition."""
    return SnapshotOrder(
        str(site.directory(partition)),
        site.store().location,
        site.generation,
        partition,
        site.partitions,
        site.fingerprint,
        committed,
    )


def snapshot_partition(step: StepRequest, partition: int) -> tuple[int, list[str]]:
    """Take a snapshot of the step's tick now and wait for it."""
    with Partition.locked(step.site, partition) as part:
        part.settle(part.attach(step.fence), step.tick, step.chains[partition], step.fence)
    problem = take(snapshot_order(step.site, partition, step.chains[partition]), wait=True)
    return partition, part.notes + ([f"partition {partition}: {problem}"] if problem else [])


def split_partition(
    step: StepRequest, partitions: int, partition: int
) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """This partition's state as (new partition, (old partition, chunk)) pairs."""
    with Partition.locked(step.site, partition) as part:
        state = part.settle(part.attach(step.fence), step.tick, step.chains[partition], step.fence)
        with state.read_only():
            chunks = cast(Repartitioning, part.program).repartition(state, partitions)
    for target, chunk in chunks.items():
        yield target, (partition, chunk)


def export_partition(
    step: StepRequest, partition: int, request: Any
) -> Iterator[tuple[int, bytes]]:
    """What another cluster's step asked for, as (its partition, bytes) pairs."""
    with Partition.locked(step.site, partition) as part:
        state = part.settle(part.attach(step.fence), step.tick, step.chains[partition], step.fence)
        with state.read_only():
            chunks = cast(Exporting, part.program).export(state, request)
    yield from chunks


def adopt_partition(
    step: StepRequest, partition: int, chunks: Iterable[tuple[int, bytes]]
) -> tuple[int, Status]:
    """Begin a generation from the chunks that the old partitions sent here."""
    ordered = [chunk for _, chunk in sorted(chunks)]
    with Partition.locked(step.site, partition) as part:
        return partition, part.adopt(step, ordered)


def problem_of(problem: ViewletError) -> bytes:
    """An error as it crosses to the driver: its class by name, and what it says."""
    position = problem.position and (problem.position.line, problem.position.column)
    name = next(kind.__name__ for kind in type(problem).__mro__ if hasattr(errors, kind.__name__))
    return json.dumps((name, problem.message, position, problem.hint)).encode()


def raise_problem(data: bytes) -> None:
    """Raise the error that `problem_of` packed; as ViewletError if its class is not of ours."""
    name, message, position, hint = json.loads(data)
    kind = getattr(errors, name, ViewletError)
    if not (isinstance(kind, type) and issubclass(kind, ViewletError)):
        kind = ViewletError
    raise kind(message, position=Position(*position) if position else None, hint=hint)


def read_partition(
    step: StepRequest, partition: int, request: bytes
) -> tuple[int, bytes, list[str]]:
    """Answer a request at the step's tick, bringing the state there first if it is not."""
    with Partition.locked(step.site, partition) as part:
        state = part.settle(part.attach(step.fence), step.tick, step.chains[partition], step.fence)
        with state.read_only():
            return partition, part.program.read(state, request), part.notes


def partition_of(key: int) -> int:
    """The partitioner of all shuffles; Spark compares partitioners by this function's identity."""
    return key


def discard_partition(site: ClusterSite, partition: int) -> tuple[int, str]:
    """Remove the local state of a cluster that is being closed."""
    detach()
    directory = site.directory(partition)
    directory.mkdir(parents=True, exist_ok=True)
    with no_other(directory, wait=True), partition_lock(directory):
        shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):  # not empty: other partitions are still there
        directory.parent.rmdir()
        shutil.rmtree(site.root() / "log", ignore_errors=True)
        site.root().rmdir()
    return partition, "closed"
