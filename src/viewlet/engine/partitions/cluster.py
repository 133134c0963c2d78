"""The driver's half of the stateful-partition service: atomic, exactly-once steps over Spark.

A step is one Spark job. Stage 0 takes the inputs, every later stage what the one before sent to
its partition through a shuffle of (partition, record) pairs; the job's collect brings the outputs
for the driver and the status of every partition. The step exists once the driver has written its
commit; until then the next attempt starts from the last committed chains, and the workers bring
themselves back to them.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from viewlet.engine.partitions import anchored_jobs as jobs
from viewlet.engine.partitions import worker
from viewlet.engine.partitions.anchored_jobs import Jobs
from viewlet.engine.partitions.batch_ids import AppliedBatches, BatchId, source_text
from viewlet.engine.partitions.commit_log import Commit, CommitLog
from viewlet.engine.partitions.metrics import Metrics, run_seconds, slowest
from viewlet.engine.partitions.partition_program import (
    ClusterSite,
    PartitionProgram,
    Status,
    StepRequest,
)
from viewlet.engine.partitions.store import Store
from viewlet.engine.partitions.version_history import VersionHistory
from viewlet.errors import StateError, ViewletError

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

logger = logging.getLogger("viewlet")

_INCIDENTS = 1000  # the newest that are kept; the log has all


class Cluster:
    """A program's state over `partitions` partitions, changed by `step` and read by `read`."""

    def __init__(
        self,
        spark: SparkSession,
        program: PartitionProgram,
        partitions: int,
        *,
        checkpoint: str | None = None,
        snapshot_every: int = 50,
        state_dir: str | None = None,
        beside: Cluster | None = None,
    ) -> None:
        """Start at version 0. `checkpoint`: a directory or URI that all executors reach.

        Without one the log stays on the executors' own disks: torn steps are repaired, a lost disk
        is a lost partition. `state_dir`: where executors keep the arrays (default: temporary).
        `beside`: the cluster that this one takes state from; partitions go where it has them, and
        versions and the ids of batches go on from its.
        """
        check_program(program, partitions, snapshot_every)
        identity: dict[str, Any] = {
            "cluster": secrets.token_hex(8),
            "fingerprint": program.fingerprint,
            "stages": program.stages,
        }
        commits = CommitLog(Store(checkpoint)) if checkpoint is not None else None
        if commits is not None and commits.identity() is not None:
            raise StateError(
                f"the checkpoint {commits.store.name} belongs to a cluster already",
                hint="use Cluster.restore to go on with it, or give an empty directory",
            )
        site = _site(identity["cluster"], 0, program, partitions, state_dir, checkpoint)
        origin = tuple(site.genesis(p) for p in range(partitions))
        before = beside._history.committed if beside is not None else None
        start = Commit(0, 1, 0, 0, 0, origin)
        if before is not None:
            start = replace(start, version=before.version, batches=before.batches)
        if commits is not None:
            start = commits.write(start)
            commits.write_identity(identity)  # last: a directory without it is still free
        self._open(spark, site, program, commits, start, snapshot_every, beside)

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
                f"there is no checkpoint in {commits.store.name}: no file `cluster`",
                hint="check the path, or start anew",
            )
        if identity["fingerprint"] != program.fingerprint:
            raise StateError(
                f"the checkpoint {commits.store.name} is of another program "
                f"({identity['fingerprint']}, not {program.fingerprint})",
                hint="restore with the program that wrote it, or give an empty directory",
            )
        newest, unreadable = commits.newest()
        if newest is None:
            raise StateError(
                f"no commit of {commits.store.name} can be read: "
                + ("; ".join(unreadable) or "there is none"),
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
        # Whoever opens the checkpoint takes the next slot. What is in newer ones cannot be read.
        start = replace(newest, slot=commits.slots()[-1], epoch=newest.epoch + 1)
        self._open(spark, site, program, commits, start, snapshot_every)
        self._history.claim()
        for problem in unreadable:
            self._note(
                f"a commit was lost ({problem}): going on from version {self.version}; what came "
                f"after it must come again ({_known(newest.batches)})"
            )
        self._go_back()
        if partitions is not None and partitions != site.partitions:
            self._repartition(partitions)
        return self

    def _open(
        self,
        spark: SparkSession,
        site: ClusterSite,
        program: PartitionProgram,
        commits: CommitLog | None,
        start: Commit,
        snapshot_every: int,
        beside: Cluster | None = None,
    ) -> None:
        self._sc = spark.sparkContext
        self._site = site
        self._program = program
        self._every = snapshot_every
        self._snapshot_at = self._next_snapshot(start.version)
        self._mutex = threading.RLock()
        self._closed = False
        self._attempt = 0
        self._history = VersionHistory(commits, start, snapshot_every, self._note)
        self._metrics = Metrics()
        self._step_tags: list[str] = []
        self.incidents: list[str] = []
        self._jobs: Jobs = self._jobs_over(site.partitions, beside._jobs if beside else None)

    # -- the interface --------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The last committed step."""
        return self._history.version

    @property
    def partitions(self) -> int:
        """How many partitions the state has."""
        return self._site.partitions

    @property
    def tasks(self) -> int:
        """How many tasks a stage has: one for each partition, or fewer (slots.py)."""
        return self._jobs.slots.count

    @property
    def stages(self) -> int:
        """How many stages a step of the program has."""
        return self._site.stages

    @property
    def site(self) -> ClusterSite:
        """What every task knows."""
        return self._site

    def step(
        self,
        inputs: Mapping[int, bytes] | RDD[tuple[int, bytes]] | None = None,
        broadcast: bytes = b"",
        *,
        batch_id: BatchId | None = None,
        commit: bool = True,
        stages: int | None = None,
    ) -> list[bytes]:
        """One atomic step over all partitions; returns the outputs for the driver, ordered by
        (stage, partition).

        inputs: the bytes for each partition, or an RDD of (partition, bytes) pairs, which costs a
        shuffle unless it is partitioned by (`tasks`, `worker.partition_of`) already.
        batch_id: a step whose id is committed already changes nothing and returns the outputs
        recorded then. commit=False: the step is part of the next one that commits, or of `commit`,
        and `abort` takes it back; reads see it meanwhile. stages: stop after so many.
        If this raises, the step did not happen: the version and what a read sees are as before;
        steps before it that were not committed are still open.
        """
        with self._mutex:
            self._usable()
            if batch_id is not None and self._history.has_applied(batch_id):
                return self._history.recorded_outputs(batch_id)
            started = time.perf_counter()
            scattered = check_inputs(inputs, self._site.partitions)
            history = self._history
            base = history.newest
            due = base.tick == history.committed.tick and self.version + 1 >= self._snapshot_at
            if due:
                history.check_alone()  # before a snapshot is taken: it forgets what came before
            count = self._check_stages(stages)
            self._jobs.follow_cores()
            spec = self._spec(broadcast, history.committed.chains if due else None, stages)
            with self._explained(), self._jobs.shipped(spec) as shipped:
                records = self._jobs.collect(
                    lambda: self._jobs.step(shipped, count, inputs),
                    f"step {self.version + 1}",
                )
                outputs, statuses, worked = self._sorted_out(records)
            before = self._metrics if history.pending is not None else Metrics()
            self._step_tags = self._step_tags if history.pending is not None else []
            self._step_tags.append(self._jobs.tag)
            self._check_complete(statuses)
            if due:
                self._snapshot_at = self._next_snapshot(self.version + 1)
            commit_record = replace(
                base,
                tick=spec.tick + count,
                chains=tuple(statuses[p].chain for p in range(self._site.partitions)),
                outputs=(*(history.pending.outputs if history.pending else ()), *outputs),
            )
            ended = time.perf_counter()
            if commit:
                history.commit(commit_record, batch_id)
            else:
                history.pending = commit_record
            self._metrics = before + Metrics(
                bytes_scattered=scattered,
                bytes_broadcast=len(broadcast),
                bytes_shuffled=sum(s.shuffled for s in (*statuses.values(), *worked)),
                bytes_collected=sum(map(len, outputs)),
                bytes_logged=sum(s.logged for s in statuses.values()),
                seconds=time.perf_counter() - started,
                run_seconds=run_seconds(statuses.values(), worked),
                task_seconds=slowest(s.task_seconds for s in statuses.values()),
                commit_seconds=time.perf_counter() - ended,
            )
            for status in statuses.values():
                self._notes(status.notes)
            if any(status.notes for status in statuses.values()):
                self._spread({status.executor for status in statuses.values()})
            return outputs

    def note(self, output: bytes, run_seconds: float = 0.0) -> None:
        """An output that the caller made itself for the version that is being made.

        It is kept as if a partition had sent it; a version may have no others and no step.
        """
        with self._mutex:
            self._usable()
            self._add(Metrics(run_seconds=run_seconds), [output])

    def gather(self, rdd: RDD[Any]) -> list[bytes]:
        """The outputs among the records (worker.py) of an RDD that needs no partition.

        They are part of the version that is being made, as a step's outputs are.
        """
        with self._mutex:
            self._usable()
            started = time.perf_counter()
            what = f"step {self.version + 1}"
            outputs, _, worked = self._sorted_out(self._jobs.collect(lambda: rdd, what))
            metrics = Metrics(
                bytes_collected=sum(map(len, outputs)),
                seconds=time.perf_counter() - started,
                run_seconds=run_seconds((), worked),
            )
            self._add(metrics, outputs, self._jobs.tag)
            return outputs

    def _add(self, metrics: Metrics, outputs: Iterable[bytes], *tags: str) -> None:
        """Add what needed no partition to the open version, which begins here if none is open."""
        if self._history.pending is None:
            self._metrics, self._step_tags = Metrics(), []
        self._history.extend(outputs)
        self._metrics += metrics
        self._step_tags += tags

    def commit(self, batch_id: BatchId | None = None) -> None:
        """Make the steps since the last commit one version; without any there is nothing to do."""
        with self._mutex:
            self._usable()
            if self._history.pending is not None:
                self._history.commit(self._history.pending, batch_id)
                self._log_version(batch_id)

    def _log_version(self, batch_id: BatchId | None) -> None:
        metrics = self._metrics
        logger.info(
            "version %d%s: %.0f ms in steps, %.0f in kernels, %d bytes shuffled, %d logged",
            self.version,
            f", {batch_id}" if batch_id is not None else "",
            metrics.seconds * 1000,
            metrics.run_seconds * 1000,
            metrics.bytes_shuffled,
            metrics.bytes_logged,
        )

    def save(self, driver_state: bytes, *, must: bool = True) -> None:
        """Keep what the caller holds on the driver at this version, for `saved` after a restore.

        must=False: a failure is only noted; the commits since the last save lead here as well.
        """
        with self._mutex:
            self._usable()
            try:
                self._history.save_driver_state(driver_state)
            except StateError as problem:
                if must:
                    raise
                self._note(f"the driver's state was not saved: {problem.message}")

    def saved(self) -> tuple[int, bytes] | None:
        """The newest driver state that was kept, and its version; `outputs_since` has the rest."""
        return self._history.saved_driver_state()

    def outputs_since(self, version: int) -> list[list[bytes]]:
        """The outputs for the driver of every version after `version`, oldest first."""
        with self._mutex:
            return self._history.outputs_since(version)

    def revert(self, output: bytes) -> None:
        """Take the last version back: a new version that has the state before it.

        `output` is what `outputs_since` gives for it. Once only, and not after a restore.
        """
        with self._mutex:
            self._usable()
            self._history.revert(output)

    def abort(self) -> None:
        """Take back the steps since the last commit; the next use of a partition undoes them."""
        with self._mutex:
            self._history.abandon()

    def has_applied(self, batch_id: BatchId) -> bool:
        """Whether a batch of this id is in the state."""
        return self._history.has_applied(batch_id)

    def version_of(self, batch_id: BatchId) -> int | None:
        """The version that a batch made; None if it made none, or its source has gone on since."""
        return self._history.version_of(batch_id)

    def claim(self) -> None:
        """StateError unless this is the only driver of the checkpoint; others get it from now."""
        with self._mutex:
            self._usable()
            self._history.claim()

    def read(self, request: bytes) -> list[bytes]:
        """One answer per partition, in partition order, at the current version."""
        with self._mutex:
            self._usable()
            spec = self._spec(b"")
            with self._explained(), self._jobs.shipped(spec) as shipped:
                task_results = self._jobs.each(partial(jobs.read_task, shipped, request), "read")
            for _, _, notes in task_results:
                self._notes(notes)
            return [result for _, result, _ in sorted(task_results, key=lambda a: int(a[0]))]

    @contextmanager
    def exported(self, request: Any, *, is_copartitioned: bool) -> Iterator[RDD[tuple[int, bytes]]]:
        """What partitions have for another cluster at this version: inputs of a step of it, which
        must end before this does.

        `is_copartitioned`: all is for the partition of the same number, no shuffle.
        """
        with self._mutex:
            self._usable()
            spec = self._spec(b"")
        with self._jobs.shipped(spec) as shipped:
            yield self._jobs.exported(shipped, request, is_copartitioned=is_copartitioned)

    def joined(self, exported: Iterable[RDD[tuple[int, bytes]]]) -> RDD[tuple[int, bytes]]:
        """Several exports as the inputs of one step; co-partitioned ones are not shuffled."""
        placed = map(self._jobs.placed, exported)
        return reduce(lambda left, right: left.union(right), placed)

    def metrics(self) -> Metrics:
        """The last version in figures, all of its steps together; jobs and stages are what Spark
        says it ran, skipped ones not counted."""
        with self._mutex:
            ran = [self._jobs.counted(tag) for tag in self._step_tags]
            jobs, stages = (sum(counts) for counts in zip(*ran, strict=True)) if ran else (0, 0)
            return replace(self._metrics, jobs=jobs, stages=stages)

    def checkpoint(self) -> None:
        """Take a snapshot of the current version now, and wait for it."""
        with self._mutex:
            self._usable()
            self._history.check_alone()
            if self._history.pending is not None:
                raise StateError(
                    "a checkpoint is of a committed version, and steps are open",
                    hint="end them with a step that commits, or with abort()",
                )
            with self._jobs.shipped(self._spec(b"")) as shipped:
                snapshots = self._jobs.each(partial(jobs.snapshot_task, shipped), "checkpoint")
            for _, notes in snapshots:
                self._notes(notes)
            self._history.prune()

    def close(self) -> None:
        """Remove the local state from the executors; a checkpoint stays and can be restored."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            if self._sc._jsc is None:
                return  # the session was stopped; its directories go with the temporary files
            try:
                self._jobs.each(partial(jobs.discard_task, self._site), "close")
            except ViewletError as problem:
                logger.warning("local state of a closed cluster stays behind: %s", problem)
            self._jobs.release()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- jobs -----------------------------------------------------------------------------------

    def _jobs_over(self, partitions: int, beside: Jobs | None = None) -> Jobs:
        return Jobs(self._sc, partitions, beside, is_durable=self._history.is_durable)

    def _next_snapshot(self, version: int) -> int:
        """The first version after `version` that takes one; or the next later one with a step."""
        return (version // self._every + 1) * self._every

    def _check_stages(self, stages: int | None) -> int:
        if stages is None:
            return self._site.stages
        if not 1 <= stages <= self._site.stages:
            raise StateError(f"a step of {stages} stages: the program has {self._site.stages}")
        return stages

    def _spec(
        self,
        broadcast: bytes,
        snapshot: tuple[str, ...] | None = None,
        stages: int | None = None,
    ) -> StepRequest:
        self._attempt += 1
        base = self._history.newest
        fence = (self._history.committed.epoch, self._attempt)
        return StepRequest(self._site, base.tick, base.chains, fence, broadcast, snapshot, stages)

    def _sorted_out(
        self, records: Iterable[Any]
    ) -> tuple[list[bytes], dict[int, Status], list[Status]]:
        """Outputs in order, the partitions' statuses, and those of tasks without a partition."""
        outputs: list[tuple[int, int, bytes]] = []
        statuses: dict[int, Status] = {}
        worked: list[Status] = []
        failures: list[tuple[int, int, bytes]] = []
        for _, (kind, stage, source, payload) in records:
            if kind == worker.OUTPUT:
                outputs.append((stage, source, payload))
            elif kind == worker.STATUS:
                statuses[source] = payload
            elif kind == worker.WORKED:
                worked.append(payload)
            else:
                failures.append((stage, source, payload))
        if failures:
            worker.raise_problem(min(failures)[2])
        outputs.sort(key=lambda output: output[:2])
        return [payload for _, _, payload in outputs], statuses, worked

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever fails because another driver has taken over says so."""
        try:
            yield
        except StateError:
            self._history.check_alone()
            raise

    def _check_complete(self, statuses: Mapping[int, Status]) -> None:
        missing = set(range(self._site.partitions)) - set(statuses)
        if missing:
            raise StateError(f"no answer from partitions {sorted(missing)}; nothing was committed")

    # -- executors and incidents ----------------------------------------------------------------

    def _spread(self, executors: set[str]) -> None:
        """After a loss all partitions may sit on one executor, and would stay: drop a new anchor.

        Only with a checkpoint: a partition that moves is rebuilt from it.
        """
        if self._history.is_durable and len(executors) < min(
            self._site.partitions, self._jobs.executors()
        ):
            self._jobs.rebuild_anchor()

    def _notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            self._note(note)

    def _note(self, text: str) -> None:
        self.incidents.append(text)
        del self.incidents[:-_INCIDENTS]
        logger.warning("%s", text)

    def _usable(self) -> None:
        if self._closed:
            raise StateError("the cluster is closed", hint="restore it from its checkpoint")

    def _go_back(self) -> None:
        """From the committed version to the newest that every partition can be brought to.

        A power cut may leave a log record empty though its commit is there. The batches of
        versions that are given up are named: their sources have to bring them again.
        """
        newest = self._history.committed
        while lost := self._lost():
            earlier = self._history.earlier()
            if earlier is None:
                raise StateError(
                    f"no version of the checkpoint can be brought back: {'; '.join(lost)}",
                    hint="restore the named files of the checkpoint from a backup, or load the "
                    "data again",
                )
            if earlier.generation != self._site.generation:
                generation, chains = earlier.generation, earlier.chains
                self._site = replace(self._site, generation=generation, partitions=len(chains))
                self._jobs.release()
                self._jobs = self._jobs_over(len(chains))
            self._history.rebase(replace(earlier, epoch=newest.epoch))
            self._note(f"version {earlier.version + 1} is lost: {'; '.join(lost)}")
        if self.version < newest.version:
            again = "; ".join(newest.batches.missing_from(self._history.committed.batches))
            self._note(
                f"going on from version {self.version} of {newest.version}; these must come "
                f"again: {again or 'batches without an id'}"
            )

    def _lost(self) -> list[str]:
        """Why partitions cannot be brought to the committed version; they are there otherwise."""
        with self._jobs.shipped(self._spec(b"")) as shipped:
            results = self._jobs.each(partial(jobs.settle_task, shipped), "restoring")
        for _, _, notes in results:
            self._notes(notes)
        return [problem for _, problem, _ in sorted(results) if problem]

    def _repartition(self, partitions: int) -> None:
        """Split every partition and let a new generation adopt the parts, in one job.

        The version stays. The chunks are the first log records of the new generation; the old one
        stays in the checkpoint until no commit that is kept refers to it.
        """
        if not hasattr(self._program, "repartition") or not hasattr(self._program, "adopt"):
            raise StateError(
                f"the checkpoint has {self._site.partitions} partitions, not {partitions}, and "
                "the program has no way to split its state",
                hint=f"restore it with {self._site.partitions} partitions",
            )
        old, before = self._spec(b""), self._jobs
        generation = self._site.generation + 1
        self._site = replace(self._site, generation=generation, partitions=partitions)
        self._jobs = self._jobs_over(partitions)
        with (
            before.shipped(old) as parting,
            self._jobs.shipped(replace(old, site=self._site)) as arriving,
        ):
            split = partial(jobs.split_task, parting, partitions, before.slots)
            chunks = before.anchor.mapPartitionsWithIndex(split)
            adopt = partial(jobs.adopt_task, arriving, self._jobs.slots)
            adopted = self._jobs.arriving(chunks).mapPartitionsWithIndex(adopt)
            statuses: list[tuple[int, Status]] = self._jobs.collect(
                lambda: adopted, "repartitioning"
            )
        chains = tuple(status.chain for _, status in sorted(statuses, key=lambda s: s[0]))
        self._history.rebase(replace(self._history.committed, generation=generation, chains=chains))
        before.each(partial(jobs.discard_task, old.site), "repartitioning")
        before.release()


def _known(batches: AppliedBatches) -> str:
    """The last batches that are in the state, for whoever has to say what is not."""
    known = (f"{source_text(s)}: {number}" for s, (number, _) in batches.last.items())
    return f"the last that are there: {'; '.join(known) or 'none with an id'}"


def check_program(program: PartitionProgram, partitions: int, snapshot_every: int) -> None:
    """Raise for fewer than one partition or stage, or snapshots less than a tick apart."""
    if partitions < 1:
        raise StateError(f"{partitions} partitions are too few", hint="give at least 1")
    if program.stages < 1:
        raise StateError("a program has at least one stage")
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
) -> ClusterSite:
    from pyspark import cloudpickle

    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    if checkpoint is not None and "://" not in checkpoint:
        checkpoint = Store(checkpoint).root  # executors have another working directory
    return ClusterSite(
        cluster,
        generation,
        partitions,
        program.fingerprint,
        program.stages,
        dumps(program),
        state_dir,
        checkpoint,
    )
