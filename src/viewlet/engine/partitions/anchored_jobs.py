"""The jobs of a cluster: one anchor that keeps partitions in place, and lineages built on it.

Every stage is a narrow dependency of one small cached RDD, the anchor, whose block location Spark
prefers. Spark knows that place of a shuffled stage by host, not by executor: executors of one host
share the state directory, so that any of them can go on. That is for speed: where Spark moves a
partition all the same, the worker rebuilds it.
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
from viewlet.errors import StateError

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_SHOWN = 5  # names in the description of a job
_INLINE = 1 << 17  # a larger step description travels as a Spark broadcast, once per executor


class Anchor:
    """One cached record per partition; the partition runs where the block of its record is.

    Clusters that exchange state share it, so that partitions of one number are on one executor.
    """

    def __init__(self, context: SparkContext, partitions: int) -> None:
        pairs: RDD[tuple[int, None]] = context.parallelize(
            [(p, None) for p in range(partitions)], partitions
        )
        self.rdd = pairs.partitionBy(partitions, worker.partition_of).persist()
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

    def __init__(self, context: SparkContext, partitions: int, beside: Jobs | None = None) -> None:
        """`beside`: keep partitions where those of another cluster are."""
        self._sc = context
        self._partitions = partitions
        self.tag = ""  # of the last job
        self._anchor: Anchor = (
            beside._anchor.shared()
            if beside is not None and beside._partitions == partitions
            else Anchor(context, partitions)
        )

    @property
    def anchor(self) -> RDD[tuple[int, None]]:
        """One record for each partition, where the partition runs."""
        return self._anchor.rdd

    def rebuild_anchor(self) -> None:
        """Decide anew where partitions run, after an executor was lost."""
        self._anchor.release()
        self._anchor = Anchor(self._sc, self._partitions)

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
        n = self._partitions
        rdd = self._scattered(inputs)
        for stage in range(stages):
            if stage > 0:
                rdd = self.anchor.union(rdd.partitionBy(n, worker.partition_of))
            task = partial(stage_task, shipped, stage)
            # Not preservesPartitioning: the keys are now destinations, and must be shuffled.
            rdd = rdd.mapPartitionsWithIndex(task)
        return rdd

    def _scattered(self, inputs: Mapping[int, bytes] | RDD[tuple[int, bytes]] | None) -> RDD[Any]:
        from pyspark import RDD
        from pyspark.serializers import PairDeserializer

        if not inputs and not isinstance(inputs, RDD):
            return self.anchor
        n = self._partitions
        if isinstance(inputs, RDD):
            return self.anchor.union(inputs.partitionBy(n, worker.partition_of))
        # One record per slice, so that the JVM can zip it to the anchor's one: no shuffle, and the
        # anchor's place. RDD.zip itself would first send the anchor through Python to rebatch it.
        records = self._sc.parallelize([inputs.get(p) for p in range(n)], n)
        pair: Any = PairDeserializer
        return RDD(
            self.anchor._jrdd.zip(records._jrdd),
            self._sc,
            pair(self.anchor._jrdd_deserializer, records._jrdd_deserializer),
        )

    def exported(
        self, shipped: Any, request: Any, *, is_copartitioned: bool
    ) -> RDD[tuple[int, bytes]]:
        """What partitions give another cluster.

        `is_copartitioned`: each sends only to the partition of its own number, so that Spark may
        know the RDD as partitioned, which saves the shuffle.
        """
        task = partial(export_task, shipped, request)
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

    def each(self, task: Callable[[int, Iterable[Any]], Iterator[Any]], what: str) -> list[Any]:
        """One task per partition, no inputs; what they yield, in no order."""
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


def stage_task(shipped: Any, stage: int, partition: int, pairs: Iterable[Any]) -> Iterator[Any]:
    """In an executor: a stage of the program on one partition, with the records sent to it."""
    records = (record for _, record in pairs if record is not None)
    return worker.run_stage(_opened(shipped), stage, partition, records)


def read_task(
    shipped: Any, request: bytes, partition: int, pairs: Iterable[Any]
) -> Iterator[tuple[int, bytes, list[str]]]:
    """In an executor: the answer of one partition to a request."""
    _drain(pairs)
    yield worker.read_partition(_opened(shipped), partition, request)


def settle_task(
    shipped: Any, partition: int, pairs: Iterable[Any]
) -> Iterator[tuple[int, str, list[str]]]:
    """In an executor: one partition is brought to the step's version, or it is said why not."""
    _drain(pairs)
    yield worker.settle_partition(_opened(shipped), partition)


def snapshot_task(
    shipped: Any, partition: int, pairs: Iterable[Any]
) -> Iterator[tuple[int, list[str]]]:
    """In an executor: one partition's state is written to the checkpoint."""
    _drain(pairs)
    yield worker.snapshot_partition(_opened(shipped), partition)


def split_task(
    shipped: Any, partitions: int, partition: int, pairs: Iterable[Any]
) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """In an executor: one partition's state in pieces, each with the partition that it moves to."""
    _drain(pairs)
    return worker.split_partition(_opened(shipped), partitions, partition)


def export_task(
    shipped: Any, request: Any, partition: int, pairs: Iterable[Any]
) -> Iterator[tuple[int, bytes]]:
    """In an executor: what one partition has for another cluster."""
    _drain(pairs)
    return worker.export_partition(_opened(shipped), partition, request)


def adopt_task(shipped: Any, partition: int, pairs: Iterable[Any]) -> Iterator[tuple[int, Status]]:
    """In an executor: one partition's new state, put together of the pieces sent to it."""
    chunks = (chunk for _, chunk in pairs if chunk is not None)
    yield worker.adopt_partition(_opened(shipped), partition, chunks)


def discard_task(
    site: ClusterSite, partition: int, pairs: Iterable[Any]
) -> Iterator[tuple[int, str]]:
    """In an executor: one partition's local state is removed, because the cluster is closed."""
    _drain(pairs)
    yield worker.discard_partition(site, partition)
