"""The engine on Spark: maps and tables in partitions on the executors, small views on the driver.

    engine = SparkEngine(session, partitions=8, checkpoint="dir")

A batch is a few Spark jobs that the plan of its trigger names (distributed/jobs.py), one version of
the partitions (engine/partitions/cluster.py), and exactly once. With a checkpoint directory every
version is durable when `apply` returns; without one, the state is as safe as the executors' disks.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from viewlet.distributed import Hints, compile_all, distributed_text
from viewlet.distributed.compile import Level, placement_of
from viewlet.distributed.hints import hints_about
from viewlet.distributed.location import Location
from viewlet.engine.contract import (
    NOTHING_LEFT_OUT,
    LeftOut,
    MapSize,
    Row,
    Weighted,
    difference,
)
from viewlet.engine.durable.sealed import DamagedFile, seal
from viewlet.engine.partitions.anchored_jobs import batch_description, described
from viewlet.engine.partitions.batch_ids import BatchId
from viewlet.engine.partitions.cluster import Cluster
from viewlet.engine.partitions.metrics import Metrics
from viewlet.engine.partitions.session import spark_session
from viewlet.engine.partitions.store import Store, shown
from viewlet.engine.spark.batch_changes import BatchChanges
from viewlet.engine.spark.checkpoint_summary import PROGRAM_PREFIX, SUMMARY_FILE, read_metadata
from viewlet.engine.spark.conductor import Conductor
from viewlet.engine.spark.dataframes import WeightedFrame
from viewlet.engine.spark.frame_columns import RowWeights
from viewlet.engine.spark.frame_intake import FrameIntake, weighted_frames
from viewlet.engine.spark.orders import ReadKind
from viewlet.engine.spark.spark_fill import cluster_of, fill, unchanged_tables
from viewlet.engine.spark.sql_program import SqlProgram
from viewlet.engine.spark.stages import StagedProgram, staged
from viewlet.engine.spark.view_frames import (
    changed_rows,
    compares_all,
    is_in_partitions,
    partitioned_frame,
    rows_request,
    view_batch,
)
from viewlet.engine.values.arrow import changes_arrow, to_arrow
from viewlet.engine.values.batching import Batch, batch_of
from viewlet.engine.values.intake import EVERYTHING, Intake
from viewlet.engine.values.reading import rows_of
from viewlet.engine.values.reshaped_rows import reshaped_rows
from viewlet.errors import StateError, UnsupportedError
from viewlet.kernels.jit import check_kernels
from viewlet.native.code_cache import code_cache
from viewlet.program.check import check
from viewlet.program.fill_plan import Ended, fill_plan
from viewlet.program.ir import Program, View
from viewlet.program.prune import maps_of, views_over
from viewlet.program.reshape import NO_RESHAPES, Reshapes
from viewlet.schema import Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    FrameChange = tuple[str, DataFrame, RowWeights]

_NOTHING = Program((), (), ())
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
        self._frames = FrameIntake(self.spark)
        self._last: weakref.ref[BatchChanges] | None = None
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
    def verdict(self) -> str:
        """Why the maps are where they are, in words."""
        return self._plan.distributed.verdict

    @property
    def cluster(self) -> Cluster:
        """The partitions of the program, made if need be."""
        cluster = self._opened().steps
        assert isinstance(cluster, Cluster)
        return cluster

    # Program and tables.

    def install(
        self,
        program: Program,
        tables: Sequence[Relation],
        ended: Ended,
        left: LeftOut = NOTHING_LEFT_OUT,
        reshapes: Reshapes = NO_RESHAPES,
    ) -> None:
        """The rows of tables that get other columns pass the driver, and triggers once more.

        Nothing is left out: all maps of a program are always there.
        """
        if program == self._program and tuple(tables) == self._tables:
            return
        self._end_changes()
        plan = self._plan
        if program != self._program:
            plan = self._planned(program, self._grown(program, ended))
        if self._conductor is None:
            self._number += 1
            self._use(program, tables, plan, None)
            return
        rows = [
            (name, reshaped_rows(reshape.relation, reshape.sources, self.table(name)))
            for name, reshape in reshapes.items()
        ]
        self._replace(self._conductor, program, tables, ended, plan, rows)

    def repartition(self) -> None:
        """Place the maps anew, by their sizes and those of the tables as they are now."""
        old = self._conductor
        if old is None:
            return
        self._end_changes()
        rows = {name: size for name, (size, _) in old.table_sizes().items()}
        records = {name: size for name, (size, _) in old.sizes().items()}
        measured = replace(
            self._hints,
            statistics={**rows, **self._hints.statistics},
            records={**self._hints.records, **records},
        )
        plan = self._planned(self._program, measured)
        if placement_of(plan.distributed) != placement_of(self._plan.distributed):
            self._replace(old, self._program, self._tables, {}, plan)

    def _grown(self, program: Program, ended: Ended) -> Hints:
        """The hints, with the sizes of maps on the driver that have become too large for it.

        What is small so far says nothing of later: views are often made before the rows come.
        """
        old = self._conductor
        if old is None:
            return self._hints
        limit = self._hints.replicate_below
        sizes = {name: size for name, size in old.driver_sizes().items() if size >= limit}
        if not sizes:
            return self._hints
        fills = fill_plan(self._program, program, [], ended).maps
        sources = {fill.map.name: {ref.name for _, ref in fill.copies()} for fill in fills}
        grown = {
            name: max(sizes[source] for source in origins & sizes.keys())
            for name, origins in sources.items()
            if origins & sizes.keys()
        }
        return replace(self._hints, records={**self._hints.records, **grown})

    def _replace(
        self,
        old: Conductor,
        program: Program,
        tables: Sequence[Relation],
        ended: Ended,
        plan: StagedProgram,
        rows: Sequence[tuple[str, Batch]] = (),
    ) -> None:
        """Bring new partitions to where the old ones are, give them `rows`, and go on with them."""
        number = self._free_number()
        directory = self._directory(number)
        cluster_of(old).claim()  # StateError at once where another driver has taken over
        new = self._new(plan, tables, directory)
        try:
            self._fill(new, program, old, ended)
            if rows:
                new.compile([name for name, _ in rows])
                new.apply(_nonempty(rows))
            cluster_of(old).claim()  # the new program is of the driver that the old one is of
        except BaseException:
            _discard(new, directory)
            raise
        self._number = number
        self._use(program, tables, plan, new)
        cluster_of(old).close()

    def _planned(self, program: Program, hints: Hints | None = None) -> StagedProgram:
        hints = hints_about(program, hints or self._hints)
        plan = staged(compile_all(program, hints, level=self._level))
        for side in (plan.workers, plan.driver):
            check_kernels(side.module)
        return plan

    def _free_number(self) -> int:
        number = self._number + 1
        existing = Store(self._checkpoint).list("") if self._checkpoint is not None else []
        while f"{PROGRAM_PREFIX}{number}" in existing:
            number += 1
        return number

    def _directory(self, number: int) -> str | None:
        """The directory of a program, where there is a checkpoint."""
        if self._checkpoint is None:
            return None
        return Store(self._checkpoint).below(f"{PROGRAM_PREFIX}{number}")

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

    def plain(self, relation: Relation, batch: Batch) -> Batch:
        return batch

    def refresh(self, view: str, changes: Sequence[tuple[str, Batch]]) -> None:
        raise UnsupportedError("on Spark every view is eager")

    def apply(self, changes: Sequence[tuple[str, Batch]]) -> None:
        conductor = self._opened()
        self._end_changes()
        names = [name for name, _ in changes]
        conductor.compile(names)
        with self._described(names):
            conductor.apply(_nonempty(changes))
        self._committed(conductor)

    def apply_frames(
        self, frames: Sequence[FrameChange], *, batch_id: BatchId | None = None
    ) -> BatchChanges:
        """The rows of DataFrames as one batch; they never pass the driver.

        A batch whose id is committed already changes nothing.
        """
        conductor = self._opened()
        if (repeated := self.repeated(batch_id)) is not None:
            return repeated
        chosen = [part for part in frames if conductor.matters(part[0])]
        names = [name for name, _, _ in chosen]
        self._end_changes()
        if chosen:
            rdd, opened = self._frames.rdd(conductor, cluster_of(conductor), chosen)
            conductor.compile(names)
            with self._described(names):
                conductor.apply_rdd(names, rdd, batch_id=batch_id, opened=opened)
            self._committed(conductor)
        views = views_over(self._program, names)
        version = cluster_of(conductor).version
        changes = BatchChanges(version, views, self.changes_frame, self._no_changes)
        self._last = weakref.ref(changes)
        return changes

    def repeated(self, batch_id: BatchId | None) -> BatchChanges | None:
        """What is left of a batch of this id that was applied already, None if none was."""
        if batch_id is None or not self.cluster.has_applied(batch_id):
            return None
        version = self.cluster.version_of(batch_id)
        if version is None or version != self.cluster.version:
            return BatchChanges(version, (), None, is_repeated=True)
        changes = BatchChanges(version, self._views, self.changes_frame, is_repeated=True)
        self._end_changes()
        self._last = weakref.ref(changes)
        return changes

    def _end_changes(self) -> None:
        """Whoever holds the last batch reads its changes now or never."""
        last = self._last() if self._last is not None else None
        self._last = None
        if last is not None:
            last.end()

    def rows_read(self) -> int:
        """How many rows of DataFrames were read so far; repeated tasks count again."""
        return self._frames.rows_read

    def _described(self, names: Sequence[str]) -> AbstractContextManager[None]:
        """Says on Spark's pages what the jobs of a batch are for."""
        views = views_over(self._program, names)
        text = batch_description(self.cluster.version + 1, names, views)
        return described(self.spark.sparkContext, text)

    def weighted_frames(self, frames: Sequence[FrameChange]) -> list[WeightedFrame]:
        """DataFrames with the columns of them that a batch reads."""
        return weighted_frames(self._opened(), frames)

    def apply_row(self, name: str, row: Row, weight: int) -> None:
        relations = {r.name: r for r in (*self._program.relations, *self._tables)}
        self.apply([(name, batch_of(relations[name], [(row, weight)]))])

    def _committed(self, conductor: Conductor) -> None:
        self._undoable = True
        cluster = cluster_of(conductor)
        if cluster.version % self._every == 0:
            cluster.save(conductor.saved_state(), must=False)  # the batch stands all the same

    def undo(self) -> None:
        self._last = None
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
        return view_batch(view, self._opened().contents(maps_of(view), kind))

    def changes(self, view: str) -> Weighted:
        """O(batch) for a view over one map; else from all of its rows before and after."""
        definition = self._views[view]
        if compares_all(definition):
            return difference(
                rows_of(self._visible(definition, ReadKind.NOW)),
                rows_of(self._visible(definition, ReadKind.BEFORE)),
            )
        return changed_rows(definition, *self._opened().changed(definition.sources[0][1]))

    def view_frame(self, view: str) -> DataFrame:
        """A view's rows as a DataFrame; those in partitions never pass the driver."""
        definition = self._views[view]
        if is_in_partitions(definition, self._plan):
            request = rows_request(definition, self._program, ReadKind.NOW)
            return partitioned_frame(self.spark, self.cluster, request)
        columns = [(column.name, column.type) for column in definition.query.columns]
        return self.spark.createDataFrame(to_arrow(columns, self.columns(view)))

    def changes_frame(self, view: str) -> DataFrame:
        """The same for what the last batch did, with a column `_weight`."""
        definition = self._views[view]
        if is_in_partitions(definition, self._plan):
            request = rows_request(definition, self._program, ReadKind.CHANGED)
            return partitioned_frame(self.spark, self.cluster, request)
        return self.spark.createDataFrame(changes_arrow(definition.query, self.changes(view)))

    def _no_changes(self, view: str) -> DataFrame:
        return self.spark.createDataFrame(changes_arrow(self._views[view].query, []))

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
        whole = compares_all(self._views[view])
        how = "all rows before and after a batch" if whole else "the records that a batch touched"
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
        placement = {name: str(to) for name, to in placement_of(self._plan.distributed)}
        metadata = {
            "program": self._number,
            "hints": self._hints.plain(),
            "placement": placement,
            "verdict": self.verdict,
        }
        store.put(f"{name}/{SUMMARY_FILE}", seal(json.dumps(metadata).encode(), name))

    def load(
        self,
        program: Program,
        tables: Sequence[Relation],
        directory: str,
        ended: Ended,
    ) -> None:
        """Go on from the newest version, which may be later than the last `save`."""
        try:
            metadata = read_metadata(directory)
        except (DamagedFile, ValueError) as problem:
            raise StateError(
                f"the checkpoint in {shown(directory)} cannot be read: {problem}",
                hint="restore its files from a backup, or load the data again",
            ) from problem
        self._hints = Hints(**metadata.get("hints", {}))
        # The arrays lie where the maps were placed when they were made, whatever is known by now.
        plan = self._planned(program, replace(self._hints, maps=metadata["placement"]))
        plan = replace(plan, distributed=replace(plan.distributed, verdict=metadata["verdict"]))
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


def _nonempty(changes: Sequence[tuple[str, Batch]]) -> list[tuple[str, Batch]]:
    return [(name, batch) for name, batch in changes if len(batch)]
