"""The engine on Spark: maps and tables in partitions on the executors, small views on the driver.

    engine = SparkEngine(session, partitions=8, checkpoint="dir")

A batch is a few Spark jobs that the plan of its trigger names (distributed/jobs.py), one version of
the partitions (engine/partitions/cluster.py), and exactly once. With a checkpoint directory every
version is durable when `apply` returns; without one, the state is as safe as the executors' disks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from viewlet.calculus.query import ViewKind
from viewlet.distributed import Hints, compile_all, distributed_text
from viewlet.distributed.compile import Level
from viewlet.distributed.location import Location
from viewlet.distributed.placement import hints_about
from viewlet.engine.contract import (
    MapSize,
    Row,
    Weighted,
    difference,
    weighted_difference,
)
from viewlet.engine.durable.sealed import DamagedFile, seal, unseal
from viewlet.engine.partitions.cluster import Cluster
from viewlet.engine.partitions.metrics import Metrics
from viewlet.engine.partitions.session import spark_session
from viewlet.engine.partitions.store import Store, shown
from viewlet.engine.spark.conductor import Conductor
from viewlet.engine.spark.dataframes import Opener, WeightedFrame, frame_messages, opened_frames
from viewlet.engine.spark.gathered_maps import Contents, database_of, records
from viewlet.engine.spark.orders import ReadKind
from viewlet.engine.spark.spark_fill import cluster_of, fill, unchanged_tables
from viewlet.engine.spark.sql_program import SqlProgram
from viewlet.engine.spark.stages import StagedProgram, staged
from viewlet.engine.values.batching import Batch, batch_of
from viewlet.engine.values.intake import EVERYTHING, Intake
from viewlet.engine.values.reading import rows_of, visible, weighted_vectors
from viewlet.engine.values.reading import weighted_rows as weighted_view_rows
from viewlet.errors import StateError, UnsupportedError
from viewlet.kernels.jit import check_kernels
from viewlet.native.code_cache import code_cache
from viewlet.program.check import check
from viewlet.program.fill_plan import Ended, fill_plan
from viewlet.program.ir import Program, View
from viewlet.program.prune import maps_of
from viewlet.schema import Relation

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

_NOTHING = Program((), (), ())
_FILE = "spark.json"
_PROGRAM = "program-"
_FILLING = "filling"  # there while a program's first contents are being written


class SparkEngine:
    """Implements engine.contract.Engine.

    Partitions are made when they are first needed: declaring ten tables starts no job.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        partitions: int | None = None,
        checkpoint: str | None = None,
        snapshot_every: int = 50,
        state_dir: str | None = None,
        level: Level = Level.FULL,
        hints: Hints | None = None,
    ) -> None:
        """`level`: how much of the distributed compiler runs; less than all is for comparing."""
        self.spark = spark_session(spark)
        if partitions is not None and partitions < 1:
            raise StateError(f"{partitions} partitions are too few", hint="give at least 1")
        self._requested_partitions = partitions
        self._partitions = partitions or self.spark.sparkContext.defaultParallelism
        self._checkpoint = checkpoint
        self._every = snapshot_every
        self._state_dir = state_dir
        self._level = level
        self._hints = hints or Hints()
        self._number = 0  # of the program; each has its own directory in the checkpoint
        self._use(_NOTHING, (), staged(compile_all(_NOTHING)), None)

    def _use(
        self,
        program: Program,
        tables: Sequence[Relation],
        plan: StagedProgram,
        conductor: Conductor | None,
    ) -> None:
        self._program = program
        self._tables = tuple(tables)
        self._plan = plan
        self._conductor = conductor
        self._views = {view.name: view for view in program.views}
        self._undoable = False

    @property
    def program(self) -> Program:
        return self._program

    @property
    def partitions(self) -> int:
        """How many partitions the state has."""
        return self._partitions

    @property
    def plan(self) -> StagedProgram:
        """The program as the stages that run on partitions and on the driver."""
        return self._plan

    @property
    def locations(self) -> Mapping[str, Location]:
        return self._plan.distributed.locations

    @property
    def cluster(self) -> Cluster:
        """The partitions of the program, made if need be."""
        cluster = self._opened().steps
        assert isinstance(cluster, Cluster)
        return cluster

    # Program and tables.

    def install(self, program: Program, tables: Sequence[Relation], ended: Ended) -> None:
        if program == self._program and tuple(tables) == self._tables:
            return
        plan = self._plan
        if program != self._program:
            plan = self._planned(program)
        old = self._conductor
        if old is None:
            self._number += 1
            self._use(program, tables, plan, None)
            return
        number = self._free_number()
        directory = self._directory(number)
        new = self._new(plan, tables, directory)
        try:
            self._fill(new, program, old, ended)
        except BaseException:
            _discard(new, directory)
            raise
        self._number = number
        self._use(program, tables, plan, new)
        cluster_of(old).close()

    def _planned(self, program: Program) -> StagedProgram:
        hints = hints_about(program, self._hints)
        plan = staged(compile_all(program, hints, level=self._level))
        for side in (plan.workers, plan.driver):
            check_kernels(side.module)
        return plan

    def _free_number(self) -> int:
        number = self._number + 1
        existing = Store(self._checkpoint).list("") if self._checkpoint is not None else []
        while f"{_PROGRAM}{number}" in existing:
            number += 1
        return number

    def _directory(self, number: int) -> str | None:
        """The directory of a program, where there is a checkpoint."""
        if self._checkpoint is None:
            return None
        return Store(self._checkpoint).below(f"{_PROGRAM}{number}")

    def _opened(self) -> Conductor:
        """The conductor of the program; a new one has empty tables."""
        if self._conductor is None:
            directory = self._directory(self._number)
            if directory is not None:
                Store(directory).put(_FILLING, [b""])
            new = self._new(self._plan, self._tables, directory)
            try:
                self._fill(new, self._program, None, {})
                if directory is not None:
                    _filled(Store(directory))
            except BaseException:
                _discard(new, directory)
                raise
            self._conductor = new
        return self._conductor

    def _new(
        self, plan: StagedProgram, tables: Sequence[Relation], directory: str | None
    ) -> Conductor:
        """Empty partitions, each beside the running program's partition of its number."""
        cluster = Cluster(
            self.spark,
            self._partition_program(plan, tables),
            self._partitions,
            checkpoint=directory,
            snapshot_every=self._every,
            state_dir=self._state_dir,
            beside=cluster_of(self._conductor) if self._conductor is not None else None,
        )
        return Conductor(plan, tables, cluster)

    def _partition_program(self, plan: StagedProgram, tables: Sequence[Relation]) -> SqlProgram:
        text = f"{distributed_text(plan.distributed)}\n{tuple(tables)!r}\n"
        text += plan.workers.module.source + plan.driver.module.source
        fingerprint = hashlib.sha256(text.encode()).hexdigest()[:24]
        return SqlProgram(plan, tables, fingerprint, code_cache().directory)

    @contextmanager
    def _loader(self, program: Program) -> Iterator[Conductor]:
        """Partitions for a part of a program that last for as long as it is loaded."""
        loader = self._new(self._planned(check(program)), (), None)
        try:
            yield loader
        finally:
            cluster_of(loader).close()

    def _fill(self, new: Conductor, program: Program, old: Conductor | None, ended: Ended) -> None:
        """Bring a new program to where the tables and the old program's maps are."""
        before = self._program if old is not None else _NOTHING
        unchanged = [] if old is None else unchanged_tables(old, new)
        fill(new, fill_plan(before, program, unchanged, ended), old, self._loader)
        cluster_of(new).save(new.saved_state())

    # Changes.

    def intake(self, names: Sequence[str]) -> Intake:
        return EVERYTHING

    def apply(self, changes: Sequence[tuple[str, Batch]], *, batch_id: str | None = None) -> None:
        conductor = self._opened()
        conductor.compile([name for name, _ in changes])
        conductor.apply(_nonempty(changes), batch_id=batch_id)
        self._committed(conductor)

    def apply_frames(
        self, frames: Sequence[tuple[str, DataFrame, int]], *, batch_id: str | None = None
    ) -> None:
        """The rows of DataFrames with a weight each, as one batch; they never pass the driver.

        A batch whose id is committed already changes nothing.
        """
        conductor = self._opened()
        chosen = [part for part in frames if conductor.matters(part[0])]
        if self.is_committed(batch_id):
            return
        names = [name for name, _, _ in chosen]
        number = conductor.opening(names)
        rdd = (
            self._messages(conductor, chosen)
            if number is None
            else self._openings(conductor, chosen, number)
        )
        if rdd is None:
            return
        conductor.compile(names)
        conductor.apply_rdd(names, rdd, batch_id=batch_id, opened=number is not None)
        self._committed(conductor)

    def _messages(
        self, conductor: Conductor, frames: Sequence[tuple[str, DataFrame, int]]
    ) -> RDD[Any] | None:
        """Rows for the partitions' first stage; None where there are none."""
        parts = [
            frame_messages(
                frame,
                conductor.relation(name),
                conductor.tables.get(name),
                conductor.columns_sent(name),
                self._partitions,
                weight,
            )
            for name, frame, weight in frames
        ]
        if len(parts) > 1:
            return self.spark.sparkContext.union(parts)
        return parts[0] if parts else None

    def _openings(
        self, conductor: Conductor, frames: Sequence[tuple[str, DataFrame, int]], number: int
    ) -> RDD[Any]:
        """What the trigger's first stage makes of the rows, where they are."""
        constant_maps = conductor.plan.triggers[number].opening
        assert constant_maps is not None
        site = cluster_of(conductor).site
        opener = Opener(site, number, conductor.constants(constant_maps), self._partitions)
        return opened_frames(self.spark, self.weighted_frames(frames), opener)

    def weighted_frames(self, frames: Sequence[tuple[str, DataFrame, int]]) -> list[WeightedFrame]:
        """DataFrames with the columns of them that a batch reads."""
        conductor = self._opened()
        return [
            WeightedFrame(
                frame, conductor.relation(name), tuple(conductor.columns_sent(name)), weight
            )
            for name, frame, weight in frames
        ]

    def is_committed(self, batch_id: str | None) -> bool:
        """Whether a batch of this id was applied already."""
        return batch_id is not None and self.cluster.committed(batch_id) is not None

    def apply_row(self, name: str, row: Row, weight: int) -> None:
        relations = {r.name: r for r in (*self._program.relations, *self._tables)}
        self.apply([(name, batch_of(relations[name], [(row, weight)]))])

    def _committed(self, conductor: Conductor) -> None:
        self._undoable = True
        cluster = cluster_of(conductor)
        if cluster.version % self._every == 0:
            cluster.save(conductor.saved_state(), must=False)  # the batch stands all the same

    def undo(self) -> None:
        if self._undoable and self._conductor is not None:
            cluster_of(self._conductor).revert(self._conductor.undo())
        self._undoable = False

    # Reading.

    def table(self, name: str) -> Batch:
        return self._opened().table(name)

    def rows(self, view: str) -> list[Row]:
        return rows_of(self.columns(view))

    def columns(self, view: str) -> Batch:
        return self._visible(self._views[view], ReadKind.NOW)

    def _visible(self, view: View, kind: ReadKind) -> Batch:
        contents = self._opened().contents(maps_of(view), kind)
        return visible(view.query, *_weighted(view, contents))

    def changes(self, view: str) -> Weighted:
        """O(batch) for a view over one map; else from all of its rows before and after."""
        definition = self._views[view]
        if _compares_all(definition):
            return difference(
                rows_of(self._visible(definition, ReadKind.NOW)),
                rows_of(self._visible(definition, ReadKind.BEFORE)),
            )
        map = definition.sources[0][1]
        old, new = (
            weighted_view_rows(*_weighted(definition, {map: contents}))
            for contents in self._opened().changed(map)
        )
        return weighted_difference(new, old)

    def sizes(self) -> Mapping[str, MapSize]:
        return {name: MapSize(*size) for name, size in self._opened().sizes().items()}

    def table_sizes(self) -> Mapping[str, MapSize]:
        return {name: MapSize(*size) for name, size in self._opened().table_sizes().items()}

    def metrics(self) -> Metrics:
        """The last step in figures: bytes moved, jobs and stages that Spark ran."""
        return self.cluster.metrics()

    def explain(self, view: str, stage: str) -> str:
        if stage != "kernels":
            raise UnsupportedError(f"the Spark engine has no stage {stage}")
        compares_all = _compares_all(self._views[view])
        how = (
            "all rows before and after a batch"
            if compares_all
            else "the records that a batch touched"
        )
        return f"# changes of {view}: from {how}\n" + self._plan.workers.module.source

    # Persistence.

    def save(self, directory: str) -> None:
        """Take a snapshot, in the checkpoint that the batches are written to."""
        if self._checkpoint is None:
            raise StateError(
                "this database was connected without a checkpoint directory",
                hint='say connect(engine="spark", checkpoint="dir")',
            )
        store = Store(self._checkpoint)
        parent, _, name = Store(directory).root.rpartition("/")
        if parent != store.root:
            raise StateError(
                f"on Spark a checkpoint is written where the batches are: {store.name}",
                hint="call checkpoint() without a directory",
            )
        if self._conductor is not None:
            self.cluster.save(self._conductor.saved_state())
            self.cluster.checkpoint()
        metadata = {"program": self._number, "hints": self._hints.plain()}
        store.put(f"{name}/{_FILE}", seal(json.dumps(metadata).encode(), name))

    def load(
        self,
        program: Program,
        tables: Sequence[Relation],
        directory: str,
        ended: Ended,
    ) -> None:
        """Go on from the newest version, which may be later than the last `save`."""
        try:
            store = Store(directory)
            metadata = json.loads(unseal(_FILE, store.get(_FILE), store.root.rpartition("/")[2]))
        except (DamagedFile, ValueError) as problem:
            raise StateError(
                f"the checkpoint in {shown(directory)} cannot be read: {problem}",
                hint="restore its files from a backup, or load the data again",
            ) from problem
        self._hints = Hints(**metadata.get("hints", {}))
        plan = self._planned(program)
        self._number = metadata["program"]
        self._use(program, tables, plan, None)
        program_directory = self._directory(self._number)
        assert program_directory is not None
        files = Store(program_directory).list("")
        if _FILLING in files:  # the driver was lost before anything could be put into it
            Store(program_directory).delete_tree("")
            return
        if "cluster" not in files and files:
            raise StateError(
                f"the file {shown(program_directory)}/cluster is gone",
                hint="restore it from a backup of the checkpoint",
            )
        if not files:
            return  # no row had come: the partitions were not made yet
        cluster = Cluster.restore(
            self.spark,
            program_directory,
            self._partition_program(plan, tables),
            self._requested_partitions,
            snapshot_every=self._every,
            state_dir=self._state_dir,
        )
        self._partitions = cluster.partitions
        saved = cluster.saved()
        if saved is None:
            raise StateError(
                f"the driver's part of the checkpoint {shown(program_directory)} is missing",
                hint="restore its files from a backup, or load the data again",
            )
        version, state = saved
        conductor = Conductor.restored(plan, tables, cluster, state)
        for outputs in cluster.outputs_since(version):
            conductor.replay(outputs)
        self._conductor = conductor

    def close(self) -> None:
        if self._conductor is not None:
            cluster_of(self._conductor).close()
        self._use(_NOTHING, (), staged(compile_all(_NOTHING)), None)


def _discard(new: Conductor, directory: str | None) -> None:
    """Close partitions that could not be filled, and delete what they wrote."""
    cluster_of(new).close()
    if directory is not None:
        Store(directory).delete_tree("")


def _filled(store: Store) -> None:
    """Remove the mark for which a restore would delete the program, and verify that it is gone."""
    store.delete(_FILLING)
    if _FILLING in store.list(""):
        raise StateError(
            f"the file {_FILLING} cannot be removed from the checkpoint {store.name}",
            hint="allow deleting there, then repeat the batch; nothing was committed",
        )


def _compares_all(view: View) -> bool:
    """Whether a view's changes come from reading all of it, before and after the batch."""
    query = view.query
    several = len({map for _, map, _ in view.sources}) > 1
    window = query.limit is not None or bool(query.offset)
    return several or bool(query.lets) or window or query.kind is ViewKind.TOTAL


def _weighted(view: View, contents: Mapping[str, Contents]) -> Any:
    keys, components = records(view, contents)
    return weighted_vectors(view.query, keys, components, database_of(contents))


def _nonempty(changes: Sequence[tuple[str, Batch]]) -> list[tuple[str, Batch]]:
    return [(name, batch) for name, batch in changes if len(batch)]
