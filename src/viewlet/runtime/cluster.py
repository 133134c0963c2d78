"""The driver's half of the stateful-partition service: atomic, exactly-once steps over Spark.

A step is one Spark job. Stage 0 takes the inputs, every later stage what the one before sent to
its partition through a shuffle of (partition, record) pairs; the job's collect brings the outputs
for the driver and the status of every partition. The step exists once the driver has written its
commit; until then the next attempt starts from the last committed chains, and the workers bring
themselves back to them.

Partitions stay where their state is because every stage is a narrow dependency of one small
cached RDD, the anchor, whose block location Spark prefers. That is for speed: where Spark moves a
partition all the same, the worker rebuilds it.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from viewlet.errors import StateError, ViewletError
from viewlet.runtime import worker
from viewlet.runtime.checkpoint import Commit, CommitLog, DamagedFile, Store
from viewlet.runtime.worker import PartitionProgram, Site, Status, Step

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

logger = logging.getLogger("viewlet")

_INLINE = 1 << 17  # a larger step description travels as a Spark broadcast, once per executor
_BATCHES_KEPT = 256  # ids of past batches that each commit carries


@dataclass(frozen=True)
class Metrics:
    """The last step: bytes that crossed the network, and what Spark ran for it."""

    bytes_scattered: int = 0
    bytes_broadcast: int = 0
    bytes_shuffled: int = 0
    bytes_collected: int = 0
    bytes_logged: int = 0
    jobs: int = 0
    stages: int = 0
    seconds: float = 0.0
    run_seconds: float = 0.0  # in the programme: per stage the slowest partition, summed
    task_seconds: float = 0.0  # the same for the whole task: lock, log and stamps included
    commit_seconds: float = 0.0


class Cluster:
    """A programme's state over `partitions` partitions, changed by `step` and read by `read`."""

    def __init__(
        self,
        spark: SparkSession,
        program: PartitionProgram,
        partitions: int,
        *,
        checkpoint: str | None = None,
        snapshot_every: int = 50,
        state_dir: str | None = None,
    ) -> None:
        """Start at version 0. `checkpoint`: a directory or URI that all executors reach.

        Without one the log stays on the executors' own disks: torn steps are repaired, a lost disk
        is a lost partition. `state_dir`: where executors keep the arrays (default: temporary).
        """
        check_program(program, partitions, snapshot_every)
        identity: dict[str, Any] = {
            "cluster": secrets.token_hex(8),
            "fingerprint": program.fingerprint,
            "stages": program.stages,
        }
        commits = CommitLog(Store(checkpoint)) if checkpoint is not None else None
        if commits is not None:
            if commits.identity() is not None:
                raise StateError(
                    f"the checkpoint {checkpoint} belongs to a cluster already",
                    hint="use Cluster.restore to go on with it, or give an empty directory",
                )
            commits.found(identity)
        site = _site(identity["cluster"], 0, program, partitions, state_dir, checkpoint)
        origin = tuple(site.genesis(p) for p in range(partitions))
        start = Commit(1, 0, 0, 0, origin)
        if commits is not None:
            commits.write(start)
        self._open(spark, site, program, commits, start, snapshot_every)

    @classmethod
    def restore(
        cls,
        spark: SparkSession,
        checkpoint: str,
        program: PartitionProgram,
        partitions: int | None = None,
        *,
        snapshot_every: int = 50,
        state_dir: str | None = None,
    ) -> Cluster:
        """Go on from the newest commit, with another number of partitions if asked.

        Local state that is still on the executors and of the right chain is used as it is; the
        rest is rebuilt when a step or read first needs it.
        """
        check_program(program, partitions if partitions is not None else 1, snapshot_every)
        commits = CommitLog(Store(checkpoint))
        identity = commits.identity()
        if identity is None:
            raise StateError(
                f"there is no checkpoint in {checkpoint}", hint="check the path, or start anew"
            )
        if identity["fingerprint"] != program.fingerprint:
            raise StateError(
                f"the checkpoint {checkpoint} is of another programme "
                f"({identity['fingerprint']}, not {program.fingerprint})",
                hint="restore with the programme that wrote it, or give an empty directory",
            )
        newest, passed = commits.newest()
        if newest is None:
            raise StateError(
                f"no commit of {checkpoint} can be read: {'; '.join(passed) or 'there is none'}",
                hint="restore its directory `commits` from a backup",
            )
        self = cls.__new__(cls)
        site = _site(
            identity["cluster"],
            newest.generation,
            program,
            len(newest.chains),
            state_dir,
            checkpoint,
        )
        epoch = 1 + max(int(name.partition("-")[0]) for name in commits.names())
        start = replace(newest, epoch=epoch)
        self._open(spark, site, program, commits, start, snapshot_every)
        for problem in passed:
            self._note(f"a commit was lost ({problem}): going on from version {self.version}")
        if partitions is not None and partitions != site.partitions:
            self._repartition(partitions)
        commits.write(self._committed)
        return self

    def _open(
        self,
        spark: SparkSession,
        site: Site,
        program: PartitionProgram,
        commits: CommitLog | None,
        start: Commit,
        snapshot_every: int,
    ) -> None:
        self._spark = spark
        self._sc = spark.sparkContext
        self._site = site
        self._program = program
        self._commits = commits
        self._every = snapshot_every
        self._mutex = threading.RLock()
        self._closed = False
        self._attempt = 0
        self._committed = start
        self._pending: Commit | None = None
        self._batches: OrderedDict[str, int] = OrderedDict(start.batches)
        self._metrics = Metrics()
        self._tag = ""
        self.incidents: list[str] = []
        self._anchor = self._drop_anchor()

    # -- the interface --------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The last committed step."""
        return self._committed.version

    @property
    def partitions(self) -> int:
        return self._site.partitions

    def step(
        self,
        inputs: Mapping[int, bytes] | RDD[tuple[int, bytes]] | None = None,
        broadcast: bytes = b"",
        *,
        batch_id: str | None = None,
        commit: bool = True,
    ) -> list[bytes]:
        """One atomic step over all partitions; returns the outputs for the driver, ordered by
        (stage, partition).

        inputs: the bytes for each partition, or an RDD of (partition, bytes) pairs, which costs a
        shuffle unless it is partitioned by (partitions, `worker.partition_of`) already.
        batch_id: a step whose id is committed already changes nothing and returns the outputs
        recorded then. commit=False: the step is part of the next one that commits, and `abort`
        takes it back; reads see it meanwhile.
        If this raises, the step did not happen: the version and what a read sees are as before.
        """
        with self._mutex:
            self._usable()
            if batch_id is not None and batch_id in self._batches:
                return self._recorded(self._batches[batch_id])
            started = time.perf_counter()
            base = self._pending or self._committed
            spec = self._spec(broadcast, snapshot=commit and (self.version + 1) % self._every == 0)
            scattered = check_inputs(inputs, self._site.partitions)
            records = self._run(lambda: self._graph(spec, inputs), f"step {self.version + 1}")
            outputs, statuses = self._sorted_out(records)
            made = replace(
                base,
                tick=spec.tick + self._site.stages,
                chains=tuple(statuses[p].chain for p in range(self._site.partitions)),
                outputs=(*(self._pending.outputs if self._pending else ()), *outputs),
            )
            ended = time.perf_counter()
            if commit:
                self._commit(made, batch_id)
            else:
                self._pending = made
            self._metrics = Metrics(
                bytes_scattered=scattered,
                bytes_broadcast=len(broadcast),
                bytes_shuffled=sum(s.shuffled for s in statuses.values()),
                bytes_collected=sum(map(len, outputs)),
                bytes_logged=sum(s.logged for s in statuses.values()),
                seconds=time.perf_counter() - started,
                run_seconds=_slowest(s.run_seconds for s in statuses.values()),
                task_seconds=_slowest(s.task_seconds for s in statuses.values()),
                commit_seconds=time.perf_counter() - ended,
            )
            for status in statuses.values():
                self._notes(status.notes)
            if any(status.notes for status in statuses.values()):
                self._spread({status.place for status in statuses.values()})
            return outputs

    def abort(self) -> None:
        """Take back the steps since the last commit; the next use of a partition undoes them."""
        with self._mutex:
            self._pending = None

    def committed(self, batch_id: str) -> int | None:
        """The version that a batch made, None if it made none yet."""
        return self._batches.get(batch_id)

    def read(self, request: bytes) -> list[bytes]:
        """One answer per partition, in partition order, at the current version."""
        with self._mutex:
            self._usable()
            spec = self._spec(b"")
            task = partial(_read_task, self._shipped(spec), request)
            answers = self._run(lambda: self._anchor.mapPartitionsWithIndex(task), "read")
            for _, _, notes in answers:
                self._notes(notes)
            return [answer for _, answer, _ in sorted(answers, key=lambda a: int(a[0]))]

    def metrics(self) -> Metrics:
        """The last step in figures; jobs and stages are what Spark says it ran, skipped ones not
        counted."""
        with self._mutex:
            if self._metrics.jobs == 0 and self._tag:
                jobs, stages = self._counted(self._tag)
                self._metrics = replace(self._metrics, jobs=jobs, stages=stages)
            return self._metrics

    def checkpoint(self) -> None:
        """Take a snapshot of the current version now, and wait for it."""
        with self._mutex:
            self._usable()
            task = partial(_snapshot_task, self._shipped(self._spec(b"")))
            for _, notes in self._run(
                lambda: self._anchor.mapPartitionsWithIndex(task), "checkpoint"
            ):
                self._notes(notes)
            self._prune_commits()

    def close(self) -> None:
        """Remove the local state from the executors; a checkpoint stays and can be restored."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            if self._sc._jsc is None:
                return  # the session was stopped; its directories go with the temporary files
            try:
                task = partial(_discard_task, self._site)
                self._run(lambda: self._anchor.mapPartitionsWithIndex(task), "close")
            except ViewletError as problem:
                logger.warning("local state of a closed cluster stays behind: %s", problem)
            self._anchor.unpersist()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- jobs -----------------------------------------------------------------------------------

    def _drop_anchor(self) -> RDD[tuple[int, None]]:
        """One cached record per partition; where its block is, the partition runs."""
        n = self._site.partitions
        pairs: RDD[tuple[int, None]] = self._sc.parallelize([(p, None) for p in range(n)], n)
        anchor = pairs.partitionBy(n, worker.partition_of).persist()
        anchor.count()
        return anchor

    def _spec(self, broadcast: bytes, *, snapshot: bool = False) -> Step:
        self._attempt += 1
        base = self._pending or self._committed
        fence = (self._committed.epoch, self._attempt)
        return Step(self._site, base.tick, base.chains, fence, broadcast, snapshot)

    def _shipped(self, spec: Step) -> Any:
        """A step as a closure carries it: small ones by value, large ones as a Spark broadcast."""
        if len(spec.broadcast) + len(spec.site.program) > _INLINE:
            return self._sc.broadcast(spec)
        return spec

    def _graph(
        self, spec: Step, inputs: Mapping[int, bytes] | RDD[tuple[int, bytes]] | None
    ) -> RDD[Any]:
        """The lineage of one step: stage, shuffle, stage, ..., stage."""
        n, shipped = self._site.partitions, self._shipped(spec)
        rdd = self._scattered(inputs)
        for stage in range(self._site.stages):
            if stage > 0:
                rdd = self._anchor.union(rdd.partitionBy(n, worker.partition_of))
            task = partial(_stage_task, shipped, stage)
            # Not preservesPartitioning: the keys are now destinations, and must be shuffled.
            rdd = rdd.mapPartitionsWithIndex(task)
        return rdd

    def _scattered(self, inputs: Mapping[int, bytes] | RDD[tuple[int, bytes]] | None) -> RDD[Any]:
        from pyspark import RDD
        from pyspark.serializers import PairDeserializer

        if not inputs and not isinstance(inputs, RDD):
            return self._anchor
        n = self._site.partitions
        if isinstance(inputs, RDD):
            return self._anchor.union(inputs.partitionBy(n, worker.partition_of))
        # One record per slice, so that the JVM can zip it to the anchor's one: no shuffle, and the
        # anchor's place. RDD.zip itself would first send the anchor through Python to rebatch it.
        given = self._sc.parallelize([inputs.get(p) for p in range(n)], n)
        pair: Any = PairDeserializer
        return RDD(
            self._anchor._jrdd.zip(given._jrdd),
            self._sc,
            pair(self._anchor._jrdd_deserializer, given._jrdd_deserializer),
        )

    def _run(self, build: Callable[[], RDD[Any]], what: str) -> list[Any]:
        """Collect under a tag of its own: a tag adds to the user's job group, a group replaces."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        self._tag = f"viewlet-{secrets.token_hex(6)}"
        self._sc.addJobTag(self._tag)
        try:
            found: list[Any] = build().collect()
            return found
        except (Py4JError, PySparkException) as problem:
            raise StateError(
                f"{what} failed in Spark and changed nothing: {_reason(str(problem))}",
                hint="the cause is above; repeat it when that is repaired",
            ) from problem
        finally:
            self._sc.removeJobTag(self._tag)

    def _sorted_out(self, records: Iterable[Any]) -> tuple[list[bytes], dict[int, Status]]:
        outputs: list[tuple[int, int, bytes]] = []
        statuses: dict[int, Status] = {}
        failures: list[tuple[int, int, bytes]] = []
        for _, (kind, stage, source, payload) in records:
            if kind == worker.OUTPUT:
                outputs.append((stage, source, payload))
            elif kind == worker.STATUS:
                statuses[source] = payload
            else:
                failures.append((stage, source, payload))
        if failures:
            worker.raise_problem(min(failures)[2])
        missing = set(range(self._site.partitions)) - set(statuses)
        if missing:
            raise StateError(f"no answer from partitions {sorted(missing)}; nothing was committed")
        outputs.sort(key=lambda output: output[:2])
        return [payload for _, _, payload in outputs], statuses

    def _counted(self, tag: str) -> tuple[int, int]:
        """Jobs and stages with this tag that ran, from Spark's own books."""
        context = self._sc._jsc.sc()
        context.listenerBus().waitUntilEmpty(10_000)
        tracker = self._sc.statusTracker()
        jobs = list(context.statusTracker().getJobIdsForTag(tag))
        stages: set[int] = set()
        for job in jobs:
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                found = tracker.getStageInfo(stage)
                if found is not None and found.numCompletedTasks > 0:
                    stages.add(stage)
        return len(jobs), len(stages)

    # -- commits --------------------------------------------------------------------------------

    def _commit(self, made: Commit, batch_id: str | None) -> None:
        version = self.version + 1
        batches = OrderedDict(self._batches)
        if batch_id is not None:
            batches[batch_id] = version
            while len(batches) > _BATCHES_KEPT:
                batches.popitem(last=False)
        made = replace(made, version=version, batches=tuple(batches.items()))
        if self._commits is not None:
            self._commits.write(made)
        self._committed, self._pending, self._batches = made, None, batches
        if version % self._every == 0:
            self._prune_commits()

    def _recorded(self, version: int) -> list[bytes]:
        if version == self._committed.version:
            return list(self._committed.outputs)
        if self._commits is not None:
            for name in self._commits.names():
                if int(name.partition("-")[2]) == version:
                    try:
                        return list(self._commits.read(name).outputs)
                    except DamagedFile as problem:
                        self._note(f"outputs of version {version} are lost: {problem}")
        return []

    def _prune_commits(self) -> None:
        if self._commits is None:
            return
        self._commits.prune(self.version - 2 * self._every, self._committed.epoch)
        self._commits.prune_generations()
        newer = [name for name in self._commits.names() if name > self._committed.name]
        if newer:
            raise StateError(
                f"another driver has taken over the checkpoint {self._site.checkpoint}",
                hint="close this cluster; steps since the takeover are not part of the checkpoint",
            )

    # -- places and notes -----------------------------------------------------------------------

    def _spread(self, places: set[str]) -> None:
        """After a loss all partitions may sit on one executor, and would stay: drop a new anchor.

        Only with a checkpoint: a partition that moves is rebuilt from it.
        """
        if self._commits is None or len(places) >= self._site.partitions:
            return
        executors = self._sc._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver is in it
        if executors > len(places):
            self._anchor.unpersist()
            self._anchor = self._drop_anchor()

    def _notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            self._note(note)

    def _note(self, text: str) -> None:
        self.incidents.append(text)
        logger.warning("%s", text)

    def _usable(self) -> None:
        if self._closed:
            raise StateError("the cluster is closed", hint="restore it from its checkpoint")

    def _repartition(self, partitions: int) -> None:
        """Split every partition and let a new generation adopt the parts, in one job.

        The version stays. The chunks are the first log records of the new generation; the old one
        stays in the checkpoint until no commit that is kept refers to it.
        """
        if not hasattr(self._program, "repartition") or not hasattr(self._program, "adopt"):
            raise StateError(
                f"the checkpoint has {self._site.partitions} partitions, not {partitions}, and "
                "the programme has no way to split its state",
                hint=f"restore it with {self._site.partitions} partitions",
            )
        old, old_anchor = self._spec(b""), self._anchor
        split = old_anchor.mapPartitionsWithIndex(
            partial(_split_task, self._shipped(old), partitions)
        )
        generation = self._site.generation + 1
        self._site = replace(self._site, generation=generation, partitions=partitions)
        self._anchor = self._drop_anchor()
        task = partial(_adopt_task, self._shipped(replace(old, site=self._site)))
        adopted = self._anchor.union(split.partitionBy(partitions, worker.partition_of))
        statuses: list[tuple[int, Status]] = self._run(
            lambda: adopted.mapPartitionsWithIndex(task), "repartitioning"
        )
        chains = tuple(status.chain for _, status in sorted(statuses, key=lambda s: s[0]))
        self._committed = replace(self._committed, generation=generation, chains=chains)
        discard = partial(_discard_task, old.site)
        self._run(lambda: old_anchor.mapPartitionsWithIndex(discard), "repartitioning")
        old_anchor.unpersist()


def check_program(program: PartitionProgram, partitions: int, snapshot_every: int) -> None:
    if partitions < 1:
        raise StateError(f"{partitions} partitions are too few", hint="give at least 1")
    if program.stages < 1:
        raise StateError("a programme has at least one stage")
    if snapshot_every < 1:
        raise StateError("snapshot_every counts steps and is at least 1")


def check_inputs(inputs: Any, partitions: int) -> int:
    """Bytes that the driver scatters; raises for inputs that fit no partition."""
    if not isinstance(inputs, Mapping):
        return 0
    for partition, data in inputs.items():
        if not isinstance(partition, int) or not 0 <= partition < partitions:
            raise StateError(f"inputs for partition {partition!r}: there are {partitions}")
        if not isinstance(data, bytes):
            raise StateError(f"inputs are bytes, not {type(data).__name__}")
    return sum(map(len, inputs.values()))


def _site(
    cluster: str,
    generation: int,
    program: PartitionProgram,
    partitions: int,
    state_dir: str | None,
    checkpoint: str | None,
) -> Site:
    from pyspark import cloudpickle

    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    if checkpoint is not None and "://" not in checkpoint:
        checkpoint = Store(checkpoint).root  # executors have another working directory
    return Site(
        cluster,
        generation,
        partitions,
        program.fingerprint,
        program.stages,
        dumps(program),
        state_dir,
        checkpoint,
    )


def _slowest(per_partition: Iterable[list[float]]) -> float:
    return float(sum(max(stage) for stage in zip(*per_partition, strict=False)))


def _reason(text: str) -> str:
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


def _opened(shipped: Any) -> Step:
    step = shipped if isinstance(shipped, Step) else shipped.value
    assert isinstance(step, Step)
    return step


def _stage_task(shipped: Any, stage: int, partition: int, pairs: Iterable[Any]) -> Iterator[Any]:
    records = (record for _, record in pairs if record is not None)
    return worker.run_stage(_opened(shipped), stage, partition, records)


def _read_task(
    shipped: Any, request: bytes, partition: int, _: Iterable[Any]
) -> Iterator[tuple[int, bytes, list[str]]]:
    yield worker.read_partition(_opened(shipped), partition, request)


def _snapshot_task(
    shipped: Any, partition: int, _: Iterable[Any]
) -> Iterator[tuple[int, list[str]]]:
    yield worker.snapshot_partition(_opened(shipped), partition)


def _split_task(
    shipped: Any, partitions: int, partition: int, _: Iterable[Any]
) -> Iterator[tuple[int, tuple[int, bytes]]]:
    return worker.split_partition(_opened(shipped), partitions, partition)


def _adopt_task(shipped: Any, partition: int, pairs: Iterable[Any]) -> Iterator[tuple[int, Status]]:
    chunks = (chunk for _, chunk in pairs if chunk is not None)
    yield worker.adopt_partition(_opened(shipped), partition, chunks)


def _discard_task(site: Site, partition: int, _: Iterable[Any]) -> Iterator[tuple[int, str]]:
    yield worker.discard_partition(site, partition)
