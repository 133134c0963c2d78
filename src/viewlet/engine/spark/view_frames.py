"""Views as DataFrames whose rows never pass the driver: made where the maps are, and kept there.

    partition's maps -> rows of the view -> Arrow chunks, stored on the executor -> DataFrame

A DataFrame is lazy and the state moves on, so the chunks are made at once and cut off from their
lineage (localCheckpoint): it is of one version however often it is read, until Python lets it go.
That needs all maps of a view in partitions, with their records by the same key; other views are
small, or have to be seen as a whole (LIMIT, one row): their rows come from the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewlet.calculus.query import ViewKind
from viewlet.engine.contract import Weighted, difference, shown, weighted_difference
from viewlet.engine.spark.chunks import with_texts
from viewlet.engine.spark.gathered_maps import Contents, database_of, records
from viewlet.engine.spark.node import SparkNode
from viewlet.engine.spark.orders import ReadKind
from viewlet.engine.spark.stages import StagedProgram
from viewlet.engine.values.arrow import arrow_type, changes_arrow, to_arrow
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.reading import rows_of, visible, weighted_rows, weighted_vectors
from viewlet.engine.values.strings import Dictionary
from viewlet.program.ir import Map, Program, View
from viewlet.program.prune import maps_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from viewlet.engine.partitions.cluster import Cluster

_CHUNK = 1 << 16  # rows


@dataclass(frozen=True)
class ViewRows:
    """What a partition is asked for: a view's rows, or with CHANGED what the last batch did."""

    view: View
    maps: tuple[Map, ...]
    kind: ReadKind


def rows_request(view: View, program: Program, kind: ReadKind) -> ViewRows:
    """The request for a view of a program."""
    names = maps_of(view)
    return ViewRows(view, tuple(m for m in program.maps if m.name in names), kind)


def is_in_partitions(view: View, plan: StagedProgram) -> bool:
    """Whether every partition has all that its rows of a view are made of."""
    query = view.query
    if query.kind is ViewKind.TOTAL or query.lets or query.limit is not None or query.offset:
        return False
    homes = {plan.workers.homes.get(name) for name in maps_of(view)}
    return len(homes) == 1 and None not in homes


def compares_all(view: View) -> bool:
    """Whether what a batch did to a view is by_map by reading all of it, before and after."""
    query = view.query
    several = len({map for _, map, _ in view.sources}) > 1
    window = query.limit is not None or bool(query.offset)
    return several or bool(query.lets) or window or query.kind is ViewKind.TOTAL


def view_batch(view: View, contents: Mapping[str, Contents]) -> Batch:
    """The rows that a user sees, of the contents of the view's maps."""
    return visible(view.query, *_weighted(view, contents))


def changed_rows(view: View, old: Contents, new: Contents) -> Weighted:
    """The records of a view's one map that a batch touched -> what it did to the view."""
    before, after = (weighted_rows(*_weighted(view, {side.map.name: side})) for side in (old, new))
    return shown(view.query, weighted_difference(after, before))


def _weighted(view: View, contents: Mapping[str, Contents]) -> Any:
    keys, components = records(view, contents)
    return weighted_vectors(view.query, keys, components, database_of(contents))


def partition_chunks(node: SparkNode, request: ViewRows) -> list[bytes]:
    """In a partition: its part of the answer as Arrow streams."""
    view, dictionary = request.view, Dictionary()

    def contents(map: Map, words: Any) -> Contents:
        layout = node.pools[map.name].layout
        rows = with_texts(map.name, words, layout, node.dictionary.strings)
        return Contents.of(map, layout, [rows], dictionary)

    if request.kind is ReadKind.NOW:
        by_map = {map.name: contents(map, node.rows(map.name)) for map in request.maps}
        columns = [(column.name, column.type) for column in view.query.columns]
        return _chunks(to_arrow(columns, view_batch(view, by_map)))
    if compares_all(view):
        now = {map.name: contents(map, node.rows(map.name)) for map in request.maps}
        before = {map.name: contents(map, node.rows_before(map.name)) for map in request.maps}
        changes = difference(rows_of(view_batch(view, now)), rows_of(view_batch(view, before)))
    else:
        (map,) = request.maps
        old, new = node.changed(map.name)
        changes = changed_rows(view, contents(map, old), contents(map, new))
    return _chunks(changes_arrow(view.query, changes))


def _chunks(table: pa.Table) -> list[bytes]:
    import pyarrow as pa

    chunks = []
    for start in range(0, table.num_rows, _CHUNK):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(start, _CHUNK))
        chunks.append(sink.getvalue().to_pybytes())
    return chunks


def partitioned_frame(spark: SparkSession, cluster: Cluster, request: ViewRows) -> DataFrame:
    """The answers of all partitions as one DataFrame, which stays as it is."""
    import pyarrow as pa

    columns = [(c.name, arrow_type(c.type)) for c in request.view.query.columns]
    if request.kind is not ReadKind.NOW:
        columns.append(("_weight", pa.int64()))
    with cluster.exported(request, is_copartitioned=True) as exported:
        chunks = exported.values()
        chunks.localCheckpoint()
        chunks.is_checkpointed = True  # PySpark would else build what follows on what was before
        chunks.count()
    return _chunk_frame(spark, chunks, pa.schema(columns))


def _chunk_frame(spark: SparkSession, chunks: Any, schema: pa.Schema) -> DataFrame:
    """Arrow streams on executors -> their rows, with types as createDataFrame gives them."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.utils import is_timestamp_ntz_preferred

    frame_schema = from_arrow_schema(schema, prefer_timestamp_ntz=is_timestamp_ntz_preferred())
    zone = str(spark.conf.get("spark.sql.session.timeZone"))

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import (
            _check_arrow_table_timestamps_localize,
            to_arrow_schema,
        )

        arrow_schema = to_arrow_schema(frame_schema, timezone="UTC")
        for batch in batches:
            for chunk in batch.column(0):
                table = pa.ipc.open_stream(chunk.as_buffer()).read_all()
                local = _check_arrow_table_timestamps_localize(table, frame_schema, True, zone)
                yield from local.cast(arrow_schema).to_batches()

    return spark.createDataFrame(chunks.map(_alone), "chunk binary").mapInArrow(rows, frame_schema)


def _alone(chunk: bytes) -> tuple[bytes]:
    return (chunk,)
