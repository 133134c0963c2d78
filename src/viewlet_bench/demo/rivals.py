"""The same rows for an engine that computes a view from scratch, to time and to compare with."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet_bench.demo.market import SCHEMA, MarketDelta
from viewlet_bench.demo.shown_views import Shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]

_KEYS = {
    "customer": ("c_custkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
    "bids": ("id",),
}


@dataclass(frozen=True)
class RivalResult:
    """What a rival computed, and how long it took."""

    rows: Rows
    seconds: float


class DuckDB:
    """Keeps all rows in an in-memory DuckDB; only the query itself is timed."""

    name = "DuckDB"

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._connection.execute(SCHEMA.replace("CREATE STREAM", "CREATE TABLE"))
        # An index on the primary key would slow the copy down, and the queries do not use it.
        for relation in _KEYS:
            self._connection.execute(
                f"CREATE TABLE plain AS FROM {relation}; DROP TABLE {relation}; "
                f"ALTER TABLE plain RENAME TO {relation}"
            )

    def take(self, changes: Iterable[MarketDelta]) -> None:
        for change in changes:
            self._connection.register("delta", change.rows)
            name = change.relation
            if change.weight > 0:
                self._connection.execute(f"INSERT INTO {name} SELECT * FROM delta")
            else:
                same = " AND ".join(f"{name}.{key} = delta.{key}" for key in _KEYS[name])
                self._connection.execute(f"DELETE FROM {name} USING delta WHERE {same}")
            self._connection.unregister("delta")

    def recompute(self, view: Shown) -> RivalResult:
        start = time.perf_counter()
        rows = self._connection.execute(view.again).fetchall()
        return RivalResult(rows, time.perf_counter() - start)

    def close(self) -> None:
        self._connection.close()

    def write(self, folder: Path) -> None:
        """The tables as Parquet files, for Spark to read."""
        for name in _KEYS:
            self._connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")


class SparkSQL:
    """Parquet files of all rows, read and queried by Spark SQL; only the query is timed."""

    name = "Spark SQL"

    def __init__(self, spark: SparkSession) -> None:
        # Its own settings, as one would choose them for queries: the engine's are for small jobs.
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.adaptive.enabled", "true")
        cores = spark.sparkContext.defaultParallelism
        self._spark.conf.set("spark.sql.shuffle.partitions", str(cores))
        self._mirror = DuckDB()
        self._folder = tempfile.TemporaryDirectory(prefix="viewlet-demo-")
        self._stale = True

    def take(self, changes: Iterable[MarketDelta]) -> None:
        self._mirror.take(changes)
        self._stale = True

    def recompute(self, view: Shown) -> RivalResult:
        if self._stale:
            folder = Path(self._folder.name)
            self._mirror.write(folder)
            for name in _KEYS:
                frame = self._spark.read.parquet(str(folder / f"{name}.parquet"))
                frame.createOrReplaceTempView(name)
            self._stale = False
        start = time.perf_counter()
        rows = [tuple(row) for row in self._spark.sql(view.again).collect()]
        return RivalResult(rows, time.perf_counter() - start)

    def close(self) -> None:
        self._mirror.close()
        self._folder.cleanup()


def equal(view: Rows, recomputed: Rows) -> bool:
    """The same rows; numbers compare by value, whatever scale a DECIMAL has."""
    return sorted(map(repr_row, view)) == sorted(map(repr_row, recomputed))


def repr_row(row: tuple[Any, ...]) -> str:
    """A row as text in which equal numbers are equal."""
    return repr([value.normalize() if hasattr(value, "normalize") else value for value in row])
