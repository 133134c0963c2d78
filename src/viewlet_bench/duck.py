"""DuckDB in memory beside viewlet: the same rows, the same SQL, evaluated again after a batch.

Filling its tables is not timed. `evaluate` runs the whole query and fetches its rows; what
maintaining the view costs is compared with that.
"""

from __future__ import annotations

import decimal
import math
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from viewlet.calculus.query import Query
from viewlet.engine.contract import Row
from viewlet.engine.local.native_engine import NativeEngine
from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.schema import decode
from viewlet_bench.feed import RowFeed

_CREATE = re.compile(r"(?i)^\s*create\s+(materialized\s+)?view")
_LIMIT = re.compile(r"(?i)\blimit\s+\d+(\s+offset\s+\d+)?\s*;?\s*$")
_LONG = 0.5
_DIGITS = 9


class Duck:
    """The relations of one query in DuckDB, filled step by step."""

    def __init__(self, feed: RowFeed, limit: float) -> None:
        import duckdb

        self._feed = feed
        self._limit = limit
        self._there: dict[str, int] = {}
        self._tables: dict[str, Any] = {}
        self.connection = duckdb.connect(":memory:")
        for setting in ("error_on_division_by_zero", "ieee_floating_point_ops"):
            self.connection.execute(f"SET {setting} = false")
        compiled = feed.compiled
        for name in (*compiled.static, *compiled.streamed):
            relation = compiled.program.relation(name)
            weights = feed.source.weights(name)
            # What comes and goes is known by the whole row; else what the SQL names is enough.
            column_names = list(relation.names)
            columns = (
                column_names
                if weights is not None
                else compiled.mentioned(name) or column_names[:1]
            )
            shown = ", ".join(f"{c} {relation.column(c).type}" for c in columns)
            self.connection.execute(f"CREATE TABLE {name} ({shown})")
            table = feed.source.table(name, columns)
            if weights is not None:
                self.connection.execute(f"CREATE TABLE {name}_log ({shown}, weight_ BIGINT)")
                import pyarrow as pa

                table = table.append_column("weight_", pa.array(weights))
            self._tables[name], self._there[name] = table, 0
        for name in compiled.static:
            self._append(name, name, len(self._tables[name]))
        for name, text in compiled.views:
            self.connection.execute(_CREATE.sub("CREATE VIEW", text))
            unlimited = _LIMIT.sub("", text)
            renamed = re.sub(rf"(?i)\b{name}\b", f"{name}_whole", unlimited, count=1)
            self.connection.execute(_CREATE.sub("CREATE VIEW", renamed))

    def fill(self, upto: Mapping[str, int]) -> None:
        """Bring the tables to so many rows of each relation's stream."""
        for name, end in upto.items():
            if "weight_" not in self._tables[name].column_names:
                self._append(name, name, end)
                continue
            self._append(name, f"{name}_log", end)
            columns = ", ".join(self._tables[name].column_names[:-1])
            self.connection.execute(f"DELETE FROM {name}")
            # Orders have versions of their own, so that no row is there twice.
            self.connection.execute(
                f"INSERT INTO {name} SELECT {columns} FROM {name}_log "
                f"GROUP BY ALL HAVING sum(weight_) > 0"
            )

    def _append(self, name: str, target: str, end: int) -> None:
        start = self._there[name]
        part = self._tables[name].slice(start, end - start)
        self.connection.register("part_", part)
        self.connection.execute(f"INSERT INTO {target} SELECT * FROM part_")
        self.connection.unregister("part_")
        self._there[name] = end

    def evaluate(self, repeats: int = 3) -> float | None:
        """Seconds of one evaluation, the median of some; None if it went over the limit."""
        times: list[float] = []
        for _ in range(repeats):
            started = time.perf_counter()
            if self._run(f"SELECT * FROM {self._feed.compiled.views[-1][0]}") is None:
                return None
            times.append(time.perf_counter() - started)
            if times[-1] > _LONG:
                break
        return statistics.median(times)

    def _run(self, sql: str) -> list[tuple[Any, ...]] | None:
        import duckdb

        timer = threading.Timer(self._limit, self.connection.interrupt)
        timer.start()
        try:
            return list(self.connection.execute(sql).fetchall())
        except duckdb.InterruptException:
            return None
        finally:
            timer.cancel()

    def agrees(self, engine: LocalEngine) -> bool | None:
        """Whether the engine's view has the rows that DuckDB finds now; None if it took too long.

        Which of several equal rows a LIMIT cuts off is not defined: then the columns of
        ORDER BY must be equal, and every row of ours be among all of theirs.
        """
        compiled = self._feed.compiled
        view = compiled.result_view
        types = [column.type for column in view.query.columns]
        ours = [
            tuple(decode(value, kind) for value, kind in zip(row, types, strict=True))
            for row in NativeEngine.over(engine).rows(view.name)
        ]
        name = compiled.views[-1][0]
        theirs, recomputed = (
            self._run(f"SELECT * FROM {name}"),
            self._run(f"SELECT * FROM {name}_whole"),
        )
        if theirs is None or recomputed is None:
            return None
        return equal_results(view.query, ours, theirs, recomputed)

    def close(self) -> None:
        """Close the connection, with all that is in memory."""
        self.connection.close()


def equal_results(
    query: Query,
    ours: Sequence[tuple[Any, ...]],
    theirs: Sequence[tuple[Any, ...]],
    recomputed: Sequence[tuple[Any, ...]],
) -> bool:
    """Equal as bags, DOUBLE to nine digits; with a LIMIT as `Duck.agrees` says."""
    if query.limit is None and not query.offset:
        return _same_bags(ours, theirs)
    keys = [item.column for item in query.order]
    ranked = [[tuple(row[k] for k in keys) for row in rows] for rows in (ours, theirs)]
    all_counts = Counter(tuple(_rounded(v) for v in row) for row in recomputed)
    our_counts = Counter(tuple(_rounded(v) for v in row) for row in ours)
    return len(ours) == len(theirs) and _same_bags(*ranked) and our_counts <= all_counts


def _same_bags(left: Sequence[Row], right: Sequence[Row]) -> bool:
    if len(left) != len(right):
        return False
    pairs = zip(sorted(left, key=_sort_key), sorted(right, key=_sort_key), strict=True)
    return all(len(a) == len(b) and all(map(_same, a, b)) for a, b in pairs)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        if left is None or right is None:
            return False
        within = max(1e-9, _half_unit(left), _half_unit(right))
        return math.isclose(float(left), float(right), rel_tol=10.0**-_DIGITS, abs_tol=within)
    return bool(left == right)


def _half_unit(value: Any) -> float:
    """What rounding may have taken from a DECIMAL: Spark has an average of DECIMALs as one."""
    if not isinstance(value, decimal.Decimal):
        return 0.0
    exponent = value.as_tuple().exponent
    return 0.5000001 * 10.0**exponent if isinstance(exponent, int) else 0.0


def _sort_key(row: Row) -> list[tuple[int, Any]]:
    """A total order in which equal rows of both systems stand at the same place."""
    return [(0, 0) if v is None else (_kind(v), _rounded(v)) for v in row]


def _kind(value: Any) -> int:
    return 1 if isinstance(value, int | float | decimal.Decimal) else 2


def _rounded(value: Any) -> Any:
    if isinstance(value, int | float | decimal.Decimal):
        return float(f"{float(value):.{_DIGITS - 2}e}") + 0.0
    return None if value is None else str(value)
