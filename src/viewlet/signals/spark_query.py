"""Signal queries on Spark: keys hashed to partitions, each partition one lane of the query.

Live: the lane's state is the memory-mapped state of `viewlet.engine.partitions`, so it stays on the
executors between batches, steps are exactly-once, and a checkpoint restores them. Offline: a
DataFrame is split by key, and every task runs the query over its keys from beginning to end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from viewlet.engine.partitions.batch_ids import batch_id_of
from viewlet.engine.partitions.packing import pack, unpack
from viewlet.errors import DataError, StateError, TypingError, UnsupportedError
from viewlet.signals import offline, tables
from viewlet.signals.batches import INF, NEVER, Array, Columns
from viewlet.signals.clock import TimeStamps
from viewlet.signals.executor import OperatorPlan
from viewlet.signals.live import Live, join_columns
from viewlet.signals.operators.base import Node
from viewlet.signals.saved_query import fill, strip

if TYPE_CHECKING:
    from viewlet.engine.partitions.partition_state import PartitionState

DRIVER = -1
_STAMPS = b"stamps"  # the request for how times were written
_CLEAN = "clean"  # 1 while the arrays hold a whole step, 0 while one is being applied
_LIVE_LIMIT = 16  # partitions whose lanes a worker process keeps at hand
_LIVE: dict[str, tuple[str, Live]] = {}  # per process: the lane that is attached to a partition


def partition_keys(columns: list[Array], partitions: int) -> Array:
    """The partition of every row: a hash of its key that is the same in every process."""
    import pandas as pd  # [spark] brings it, and its hash of a string is the same on every worker

    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        if column.dtype.kind in "iubM":
            part = column.astype(np.int64).view(np.uint64)
        elif column.dtype.kind in "OU":
            part = pd.util.hash_array(column.astype(object))
        else:
            raise TypingError(f"a key is {column.dtype}", hint="group by integers or strings")
        mixed = (mixed ^ part) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return (mixed % np.uint64(partitions)).astype(np.int64)


def split(columns: Columns, keys: tuple[str, ...], partitions: int) -> dict[int, Columns]:
    """Rows by partition, in their order."""
    if not keys:
        return {0: columns}
    where = partition_keys([columns[key] for key in keys], partitions)
    order = np.argsort(where, kind="stable")
    edges = np.searchsorted(where[order], np.arange(partitions + 1))
    return {
        p: {name: column[order[edges[p] : edges[p + 1]]] for name, column in columns.items()}
        for p in range(partitions)
        if edges[p + 1] > edges[p]
    }


class SignalProgram:
    """A query as a program of the stateful-partition service: one stage, one lane."""

    stages = 1

    def __init__(self, root: Node) -> None:
        self.root = root
        self.fingerprint = "signals-" + OperatorPlan(root).fingerprint

    def create(self, state: PartitionState) -> None:
        """A partition begins clean, without any operator's state."""
        state.create(_CLEAN, (1,), np.int64)[0] = 1

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        """Lists of chunks (order, source, columns), and an advance of time in the broadcast."""
        live = self._attach(state)
        chunks = [chunk for data in inputs for chunk in unpack(data)]
        chunks.sort(key=lambda chunk: chunk[0])
        order = json.loads(broadcast) if broadcast else {}
        state.array(_CLEAN)[0] = 0
        _LIVE.pop(_partition_key(state), None)
        parts_by_source: dict[str, list[Columns]] = {}
        for _, source, columns in chunks:
            parts_by_source.setdefault(source, []).append(columns)
        try:
            columns_by_source = {
                source: join_columns(parts) for source, parts in parts_by_source.items()
            }
            floor = order.get("floor", NEVER)
            out = live.step(columns_by_source, floor)
        except BaseException:
            state.array(_CLEAN)[0] = 1  # the journal has undone the step
            raise
        live.ended = floor == INF
        before = str(state.meta.get("digest", ""))
        digest = hashlib.sha256(before.encode())
        for data in (*inputs, broadcast):
            digest.update(hashlib.sha256(data).digest())
        self._detach(state, live, digest.hexdigest())
        state.array(_CLEAN)[0] = 1
        _LIVE[_partition_key(state)] = (digest.hexdigest(), live)
        while len(_LIVE) > _LIVE_LIMIT:
            _LIVE.pop(next(iter(_LIVE)))
        return {DRIVER: pack(out)}

    def read(self, state: PartitionState, request: bytes) -> bytes:
        """The counters of one partition, or how its times were written, as JSON."""
        if request == _STAMPS:
            return json.dumps(state.meta.get("memory", {}).get("stamps")).encode()
        return json.dumps(state.meta.get("stats", {})).encode()

    def rollback(self, state: PartitionState) -> bool:
        """A step that raised undid itself; one that was killed is rebuilt by the service."""
        return int(state.array(_CLEAN)[0]) == 1

    def _attach(self, state: PartitionState) -> Live:
        """The lane over this state: the one of the last step if it is of this very state."""
        plan = OperatorPlan(self.root)
        if "memory" not in state.meta:
            return Live(plan, 1, [state])
        digest, live = _LIVE.get(_partition_key(state), ("", None))
        if live is not None and digest == state.meta["digest"] and live.stores[0] is state:
            return live
        memory = fill(state.meta["memory"], lambda number: _stored(state, number))
        return Live.load(plan, memory, [state])

    def _detach(self, state: PartitionState, live: Live, digest: str) -> None:
        """Write what the lane remembers outside of keyed arrays."""
        for executor in live.executors:
            executor.sync()
        arrays: list[Array] = []
        state.meta["memory"] = strip(live.memory(), arrays)
        state.meta["digest"] = digest
        state.meta["stats"] = live.stats()
        lengths = []
        for number, array in enumerate(arrays):
            name = f"memory{number}"
            stored = state.array(name) if name in state.names() else None
            if stored is None or stored.dtype != array.dtype:
                stored = state.create(name, (max(16, len(array)),), array.dtype)
            if len(stored) < len(array):
                stored = state.resize(name, len(array))
            stored[: len(array)] = array
            lengths.append(len(array))
        state.meta["memory_lengths"] = lengths


def _partition_key(state: PartitionState) -> str:
    return f"{id(state)}/{state.partition}"


def _stored(state: PartitionState, number: int) -> Array:
    length = state.meta["memory_lengths"][number]
    return np.array(state.array(f"memory{number}")[:length])


class SparkLive:
    """A live query over a Spark cluster: the interface of `Live`, the state on the executors.

    `push` takes the same tables as in process, or Spark DataFrames. `batch_id` makes a push
    idempotent, as foreachBatch needs. `close` releases the executors' state.
    """

    def __init__(
        self,
        root: Node,
        spark: Any = None,
        *,
        partitions: int | None = None,
        checkpoint: str | None = None,
        restore: bool = False,
        snapshot_every: int = 50,
    ) -> None:
        from viewlet.engine.partitions.cluster import Cluster
        from viewlet.engine.partitions.session import spark_session

        self.plan = _checked(OperatorPlan(root))
        self._spark = spark_session(spark)
        program = SignalProgram(root)
        if restore:
            if checkpoint is None:
                raise StateError("restore without a checkpoint", hint="give checkpoint=")
            self._cluster = Cluster.restore(
                self._spark, checkpoint, program, snapshot_every=snapshot_every
            )
        else:
            count = partitions or self._spark.sparkContext.defaultParallelism
            self._cluster = Cluster(
                self._spark,
                program,
                count if self.plan.sources[0].schema.keys else 1,
                checkpoint=checkpoint,
                snapshot_every=snapshot_every,
            )
        self._names = Live(self.plan)
        self._kind = "arrow"
        if restore:
            stamps = (json.loads(reply) for reply in self._cluster.read(_STAMPS))
            noted = next((stamp for stamp in stamps if stamp is not None), None)
            self._names.stamps = None if noted is None else TimeStamps(*noted)

    @property
    def version(self) -> int:
        """The number of batches that are part of the state."""
        return self._cluster.version

    def push(
        self,
        batch: Any = None,
        /,
        *,
        batch_id: int | tuple[str, int] | None = None,
        **named: Any,
    ) -> Any:
        """One batch -> the rows that it made final. Ids are numbers that grow, for each name of a
        source where one is given: a batch whose id is not beyond the last was applied already.
        """
        tables_by_source = self._names.by_source(batch, named)
        before = self._names.stamps
        try:
            return self._pushed(tables_by_source, batch_id)
        except BaseException:
            self._names.stamps = before
            raise

    def _pushed(
        self, tables_by_source: dict[str, Any], batch_id: int | tuple[str, int] | None
    ) -> Any:
        for source in self.plan.sources:
            if source.name in tables_by_source:
                table = tables_by_source[source.name]
                self._names.note_times(source, table, _time_column(table, source.schema.time))
        kinds = {tables.kind_of(table) for table in tables_by_source.values()}
        self._kind = kinds.pop() if len(kinds) == 1 else "arrow"
        inputs = (
            self._rdd(tables_by_source) if self._kind == "spark" else self._local(tables_by_source)
        )
        return self._out(self._cluster.step(inputs, batch_id=batch_id_of(batch_id)))

    def advance(self, time: Any) -> Any:
        """Nothing before this time will come any more: what waited for it comes out."""
        floor = json.dumps({"floor": self._names.instant(time)}).encode()
        return self._out(self._cluster.step(None, floor))

    def flush(self) -> Any:
        """Time ends: everything that was waiting comes out."""
        return self._out(self._cluster.step(None, json.dumps({"floor": INF}).encode()))

    def stats(self) -> dict[str, int]:
        """Counts of all partitions together, such as rows that came too late."""
        total: dict[str, int] = {}
        for reply in self._cluster.read(b"stats"):
            for name, count in json.loads(reply).items():
                total[name] = total.get(name, 0) + count
        return total

    def metrics(self) -> Any:
        """Bytes moved, jobs and stages of the last push."""
        return self._cluster.metrics()

    def close(self) -> None:
        """Release the partitions; the checkpoint stays."""
        self._cluster.close()

    def __enter__(self) -> SparkLive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _local(self, tables_by_source: dict[str, Any]) -> dict[int, bytes]:
        """Tables of the driver, split here: no shuffle."""
        chunks: dict[int, list[Any]] = {}
        for number, source in enumerate(self.plan.sources):
            if source.name in tables_by_source:
                columns = tables.read(tables_by_source[source.name], _source_columns(source))
                parts = split(columns, source.schema.keys, self._cluster.partitions)
                for p, part in parts.items():
                    chunks.setdefault(p, []).append(((number, 0), source.name, part))
        return {p: pack(chunk) for p, chunk in chunks.items()}

    def _rdd(self, tables_by_source: dict[str, Any]) -> Any:
        chunks = _chunks(self.plan, tables_by_source, self._cluster.partitions)
        return chunks.rdd.map(lambda row: (row[0], bytes(row[1])))

    def _out(self, outputs: list[bytes]) -> Any:
        columns = join_columns([unpack(data) for data in outputs])
        if self._kind == "spark":
            return self._spark.createDataFrame(plain_lists(self._names.shown(columns, "arrow")))
        return self._names.shown(columns, self._kind)


def run_dataframes(plan: OperatorPlan, frames: dict[str, Any]) -> Any:
    """A finished query over DataFrames: split by key, sorted by time, run, one lane per task."""
    _checked(plan)
    first = next(iter(frames.values()))
    spark = first.sparkSession
    empty = {
        name: pa.Table.from_batches([], schema=_arrow_schema(frame))
        for name, frame in frames.items()
    }
    schema = plain_lists(offline.run_table(plan, empty, 1, "arrow")).schema
    root = plan.root
    keyed = bool(plan.sources[0].schema.keys)
    count = spark.sparkContext.defaultParallelism if keyed else 1

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packed = (data.as_py() for batch in batches for data in batch.column(1))
        chunks = [chunk for data in packed for chunk in unpack(data)]
        chunks.sort(key=lambda chunk: chunk[0])
        mine = OperatorPlan(root)
        columns_by_source: dict[str, Columns] = {}
        for source in mine.sources:
            parts = [columns for _, name, columns in chunks if name == source.name]
            if parts:
                columns = join_columns(parts)
                order = np.argsort(columns[source.schema.time], kind="stable")
                columns_by_source[source.name] = {name: c[order] for name, c in columns.items()}
        if columns_by_source:
            out = plain_lists(offline.run_table(mine, columns_by_source, 1, "arrow")).cast(schema)
            yield from out.to_batches(max_chunksize=1 << 16)

    from pyspark.sql.pandas.types import from_arrow_schema

    chunks = _chunks(plan, frames, max(1, count)).repartition(count, "p")
    return chunks.mapInArrow(work, from_arrow_schema(schema))


def _chunks(plan: OperatorPlan, tables_by_source: dict[str, Any], partitions: int) -> Any:
    """A DataFrame (p, chunk): the rows of every partition as packed columns, in input order."""
    frames = []
    for number, source in enumerate(plan.sources):
        if source.name not in tables_by_source:
            continue
        frame = tables_by_source[source.name]
        column_names = _source_columns(source)
        missing = [name for name in column_names or () if name not in frame.columns]
        if missing:
            raise DataError(
                f"the DataFrame has no column {missing[0]}",
                hint=f"its columns are {', '.join(frame.columns)}",
            )
        frames.append(
            (frame if column_names is None else frame.select(*column_names)).mapInArrow(
                _splitter(number, source.name, source.schema.keys, partitions),
                "p int, chunk binary",
            )
        )
    chunks = frames[0]
    for frame in frames[1:]:
        chunks = chunks.union(frame)
    return chunks


def _splitter(number: int, name: str, keys: tuple[str, ...], partitions: int) -> Any:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        read = [tables.read(batch, None) for batch in batches]
        read = [columns for columns in read if len(next(iter(columns.values())))]
        if not read:
            return
        parts = split(join_columns(read), keys, partitions)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(list(parts), pa.int32()),
                pa.array(
                    [pack([((number, task), name, c)]) for c in parts.values()],
                    pa.binary(),
                ),
            ],
            ["p", "chunk"],
        )

    return work


def _source_columns(source: Any) -> list[str] | None:
    schema = source.schema
    fixed = [*schema.keys, schema.time, *([schema.end] if schema.end else [])]
    return None if source.values is None else [*fixed, *source.values]


def _checked(plan: OperatorPlan) -> OperatorPlan:
    if not plan.keywise:
        raise UnsupportedError(
            "a query that regroups, on Spark",
            hint="group the DataFrame first: make the new key a column and name it as key=",
        )
    if any(source.clock == "stream" for source in plan.sources):
        raise UnsupportedError(
            "clock='stream' on Spark: partitions do not see each other's events",
            hint="use clock='key', and advance(time) to move all keys",
        )
    return plan


def _arrow_schema(frame: Any) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema)


def _time_column(table: Any, name: str) -> Array:
    """The times of a table; of a DataFrame none of them, with their type."""
    if tables.kind_of(table) != "spark":
        return tables.read(table, [name])[name]
    kind = table.schema[name].dataType.typeName() if name in table.columns else ""
    units = {"timestamp": "us", "timestamp_ntz": "us", "date": "D"}
    return np.zeros(1, f"M8[{units[kind]}]" if kind in units else np.int64)


def plain_lists(table: pa.Table) -> pa.Table:
    """A table with types that Spark has: fixed-size lists become lists."""
    for position, field in enumerate(table.schema):
        if pa.types.is_fixed_size_list(field.type):
            plain = pa.list_(field.type.value_type)
            table = table.set_column(position, field.name, table.column(position).cast(plain))
    return table
