"""The jobs of a cluster: one anchor that keeps partitions in place, and lineages built on it.

A task of a job is a *slot*: it runs one partition, or several one after the other where there are
many more partitions than cores (slots.py). Every stage is a narrow dependency of one small cached
RDD, the anchor, whose block location Spark prefers. Spark knows that place of a shuffled stage by
host, not by executor: executors of one host share the state directory, so that any of them can go
on. That is for speed: where Spark moves a partition all the same, the worker rebuilds it.
"""

from __future__ import annotations

import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from viewlet.engine.partitions import worker
from viewlet.engine.partitions.partition_program import ClusterSite, Status, StepRequest
from viewlet.engine.partitions.slots import Slots
from viewlet.errors import StateError

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_SHOWN = 5  # names in the description of a job
_INLINE = 1 << 17  # a larger step description travels as a Spark broadcast, once per executor


class Anchor:
    """One cached record per slot; its partitions run where the block of the record is.

    Clusters that exchange state share it, so that partitions of one number are on one executor.
    """

    def __init__(self, context: SparkContext, slots: Slots) -> None:
        self.slots = slots
        pairs: RDD[tuple[int, None]] = context.parallelize(
            [(slot, None) for slot in range(slots.count)], slots.count
        )
        self.rdd = pairs.partitionBy(slots.count, worker.partition_of).persist()
        self.rdd.count()
        self._users = 1

    def shared(self) -> Anchor:
        """The same for one user more."""
        self._users += 1
        return self

    def release(self) -> None:
        """Forget the block once nobody uses it."""
        self._users -= 1
        if self._users == 0:
            self.rdd.unpersist()


class Jobs:
    """Runs tasks over all partitions, each where its state is."""

    def __init__(
        self,
        context: SparkContext,
        partitions: int,
        beside: Jobs | None = None,
        *,
        is_durable: bool,
    ) -> None:
        """`beside`: keep partitions where those of another cluster are.

        `is_durable`: a partition that moves to another machine is rebuilt there, not lost.
        """
        self._sc = context
        self._partitions = partitions
        self._is_durable = is_durable
        self.tag = ""  # of the last job
        self._anchor: Anchor = (
            beside._anchor.shared()
            if beside is not None and beside._partitions == partitions
            else Anchor(context, self._slots_now())
        )

    def _slots_now(self) -> Slots:
        """The slots for the cores that there are now.

        A cluster's executors may come later, and then partitions move: where those would be lost,
        each has a slot of its own from the start.
        """
        is_one_process = re.match(r"local(\[|$)", self._sc.master or "") is not None
        if not self._is_durable and not is_one_process:
            return Slots(self._partitions, self._partitions)
        return Slots.of(self._partitions, self._sc.defaultParallelism)

    @property
    def anchor(self) -> RDD[tuple[int, None]]:
        """One record for each slot, where its partitions run."""
        return self._anchor.rdd

    @property
    def slots(self) -> Slots:
        """Which partitions each task has."""
        return self._anchor.slots

    def rebuild_anchor(self) -> None:
        """Decide anew where partitions run, after an executor was lost."""
        self._anchor.release()
        self._anchor = Anchor(self._sc, self._slots_now())

    def follow_cores(self) -> None:
        """More slots where executors have come since; fewer never, for they may come back."""
        slots = self.slots
        if slots.count < self._partitions and self._slots_now().count > slots.count:
            self.rebuild_anchor()

    def release(self) -> None:
        """Executors need not keep the anchor for this cluster any longer."""
        self._anchor.release()

    def executors(self) -> int:
        """How many there are now; the driver's own entry is there too, and in local mode alone."""
        return max(int(self._sc._jsc.sc().getExecutorMemoryStatus().size()) - 1, 1)

    @contextmanager
    def shipped(self, spec: StepRequest) -> Iterator[Any]:
        """A step as a closure carries it: small ones by value, large ones as a Spark broadcast."""
        if len(spec.broadcast) + len(spec.site.program) <= _INLINE:
            yield spec
            return
        shipped = self._sc.broadcast(spec)
        try:
            yield shipped
        finally:
            shipped.destroy()

    def step(
        self,
        shipped: Any,
        stages: int,
        inputs: Mapping[int, bytes] | RDD[tuple[int, bytes]] | None,
    ) -> RDD[Any]:
        """The lineage of one step: stage, shuffle, stage, ..., stage."""
        rdd = self._scattered(inputs)
        for stage in range(stages):
            if stage > 0:
                rdd = self.arriving(rdd)
            task = partial(stage_task, shipped, stage, self.slots)
            # Not preservesPartitioning: the keys are now destinations, and must be shuffled.
            rdd = rdd.mapPartitionsWithIndex(task)
        return rdd

    def _scattered(self, inputs: Mapping[int, bytes] | RDD[tuple[int, bytes]] | None) -> RDD[Any]:
        from pyspark import RDD
        from pyspark.serializers import PairDeserializer

        if not inputs and not isinstance(inputs, RDD):
            return self.anchor
        if isinstance(inputs, RDD):
            return self.arriving(inputs)
        # One record per slice, so that the JVM can zip it to the anchor's one: no shuffle, and the
        # anchor's place. RDD.zip itself would first send the anchor through Python to rebatch it.
        slots = self.slots
        parts = [
            {p: inputs[p] for p in slots.partitions_of(slot) if p in inputs}
            for slot in range(slots.count)
        ]
        records = self._sc.parallelize(parts, slots.count)
        pair: Any = PairDeserializer
        return RDD(
            self.anchor._jrdd.zip(records._jrdd),
            self._sc,
            pair(self.anchor._jrdd_deserializer, records._jrdd_deserializer),
        )

    def arriving(self, pairs: RDD[tuple[int, Any]]) -> RDD[Any]:
        """Records at the slots of their partitions, beside the anchor's."""
        return self.anchor.union(self.placed(pairs))

    def placed(self, pairs: RDD[tuple[int, Any]]) -> RDD[Any]:
        """Records shuffled to the slots of their partitions, if they are not there."""
        return pairs.partitionBy(self.slots.count, worker.partition_of)

    def exported(
        self, shipped: Any, request: Any, *, is_copartitioned: bool
    ) -> RDD[tuple[int, bytes]]:
        """What partitions give another cluster.

        `is_copartitioned`: each sends only to the partition of its own number, so that Spark may
        know the RDD as partitioned, which saves the shuffle.
        """
        task = partial(export_task, shipped, request, self.slots)
        return self.anchor.mapPartitionsWithIndex(task, preservesPartitioning=is_copartitioned)

    def collect(self, build: Callable[[], RDD[Any]], what: str) -> list[Any]:
        """Collect under a tag of its own: a tag adds to the user's job group, a group replaces."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        self.tag = f"viewlet-{secrets.token_hex(6)}"
        self._sc.addJobTag(self.tag)
        try:
            results: list[Any] = build().collect()
            return results
        except (Py4JError, PySparkException) as problem:
            reason = reason_of(str(problem))
            raise StateError(
                f"{what} failed in Spark and changed nothing: {reason}", hint=_hint(reason)
            ) from problem
        finally:
            self._sc.removeJobTag(self.tag)

    def each(self, work: Callable[[int], Any], what: str) -> list[Any]:
        """What a function makes of each partition's number where that is, in no order."""
        task = partial(each_task, work, self.slots)
        return self.collect(lambda: self.anchor.mapPartitionsWithIndex(task), what)

    def counted(self, tag: str) -> tuple[int, int]:
        """Jobs and stages with this tag that ran, from Spark's own books."""
        context = self._sc._jsc.sc()
        context.listenerBus().waitUntilEmpty(10_000)
        tracker = self._sc.statusTracker()
        jobs = list(context.statusTracker().getJobIdsForTag(tag))
        stages: set[int] = set()
        for job in jobs:
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = tracker.getStageInfo(stage)
                if stage_info is not None and stage_info.numCompletedTasks > 0:
                    stages.add(stage)
        return len(jobs), len(stages)


@contextmanager
def described(context: SparkContext, text: str) -> Iterator[None]:
    """What Spark's pages show for the jobs inside; a description of the user's own stays."""
    key = "spark.job.description"
    if context.getLocalProperty(key) is not None:
        yield
        return
    context.setLocalProperty(key, text)
    try:
        yield
    finally:
        context.setLocalProperty(key, None)  # type: ignore[arg-type]


def batch_description(version: int, relations: Iterable[str], views: Iterable[str]) -> str:
    """The line for the jobs of a batch: which relations change which views."""
    changed, refreshed = (list(dict.fromkeys(names)) for names in (relations, views))
    text = f"viewlet: batch {version} of {_first_names(changed)}"
    return f"{text} -> {_first_names(refreshed)}" if refreshed else text


def _first_names(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def reason_of(text: str) -> str:
    """The line of a Spark error that says why: the last of the worker's traceback, else the first
    that names an exception."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if re.match(r"^[\w.]*(Error|Exception|Interrupt|Exit)\b(?!.*py4j)", line):
            return line
    for line in lines:
        if "Exception" in line or "failure" in line:
            return line
    return lines[0] if lines else "no reason given"


_HINTS = {
    "No module named": "executors need what the driver has: pip install viewlet on them, or ship "
    "it with spark.submit.pyFiles or spark.archives",
    "spark.driver.maxResultSize": "raise spark.driver.maxResultSize and the driver's memory, take "
    "smaller batches, or read less: a view with a WHERE or GROUP BY of its own",
    "OutOfMemoryError": "give the driver or the executors more memory (spark.driver.memory, "
    "spark.executor.memory), or take smaller batches",
}


def _hint(reason: str) -> str:
    for sign, hint in _HINTS.items():
        if sign in reason:
            return hint
    return "the cause is above; repeat it when that is repaired"


def _opened(shipped: Any) -> StepRequest:
    step = shipped if isinstance(shipped, StepRequest) else shipped.value
    assert isinstance(step, StepRequest)
    return step


def _drain(pairs: Iterable[Any]) -> None:
    """Read a task's input to its end even where it says nothing.

    A worker that leaves input unread is not used again: Spark ends it, and the next task pays for
    a new process, its imports and its kernels: seconds in place of milliseconds.
    """
    deque(pairs, maxlen=0)


def stage_task(
    shipped: Any, stage: int, slots: Slots, slot: int, pairs: Iterable[Any]
) -> Iterator[Any]:
    """In an executor: a stage of the program on a slot's partitions, with the records for them."""
    step = _opened(shipped)
    for partition, records in slots.sorted_out(slot, pairs).items():
        yield from worker.run_stage(step, stage, partition, records)


def each_task(
    work: Callable[[int], Any], slots: Slots, slot: int, pairs: Iterable[Any]
) -> Iterator[Any]:
    """In an executor: a function of the number of each partition of a slot."""
    _drain(pairs)
    for partition in slots.partitions_of(slot):
        yield work(partition)


def read_task(shipped: Any, request: bytes, partition: int) -> tuple[int, bytes, list[str]]:
    """In an executor: the answer of one partition to a request."""
    return worker.read_partition(_opened(shipped), partition, request)


def settle_task(shipped: Any, partition: int) -> tuple[int, str, list[str]]:
    """In an executor: one partition is brought to the step's version, or it is said why not."""
    return worker.settle_partition(_opened(shipped), partition)


def snapshot_task(shipped: Any, partition: int) -> tuple[int, list[str]]:
    """In an executor: one partition's state is written to the checkpoint."""
    return worker.snapshot_partition(_opened(shipped), partition)


def discard_task(site: ClusterSite, partition: int) -> tuple[int, str]:
    """In an executor: one partition's local state is removed, because the cluster is closed."""
    return worker.discard_partition(site, partition)


def split_task(
    shipped: Any, partitions: int, slots: Slots, slot: int, pairs: Iterable[Any]
) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """In an executor: partitions' states in pieces, each with the partition that it moves to."""
    _drain(pairs)
    for partition in slots.partitions_of(slot):
        yield from worker.split_partition(_opened(shipped), partitions, partition)


def export_task(
    shipped: Any, request: Any, slots: Slots, slot: int, pairs: Iterable[Any]
) -> Iterator[tuple[int, bytes]]:
    """In an executor: what a slot's partitions have for another cluster."""
    _drain(pairs)
    for partition in slots.partitions_of(slot):
        yield from worker.export_partition(_opened(shipped), partition, request)


def adopt_task(
    shipped: Any, slots: Slots, slot: int, pairs: Iterable[Any]
) -> Iterator[tuple[int, Status]]:
    """In an executor: partitions' new states, put together of the pieces sent to them."""
    for partition, chunks in slots.sorted_out(slot, pairs).items():
        yield worker.adopt_partition(_opened(shipped), partition, chunks)
