"""TPC-H on Spark in batches of inserts and deletes: equal to DuckDB, jobs and stages counted.

usage: python benchmarks/spark_conformance.py DIRECTORY [--queries q1,q3] [--batch 10000]
           [--partitions 2] [--compare 30] [--rows N]

DIRECTORY holds the tables as Parquet, as tpcgen-cli writes them. Every table's rows come in random
order, all tables of a query together; each batch also takes back a tenth of the rows of the one
before. When all have come, a third of what is left goes again in batches of the same size. The
view is compared with DuckDB over the same rows after every --compare batches, when all rows have
come and at the end. One line of JSON for each query; a query that fails does not stop the others.
Queries joined by + share one database and its batches: --queries q1+q6,q3.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.frontend.oracle import SQL  # noqa: E402
from tests.oracle.harness import same_row  # noqa: E402
from tests.oracle.test_named import schema_of, views_of  # noqa: E402

import viewlet  # noqa: E402
from viewlet.engine.partitions.session import spark_session  # noqa: E402
from viewlet.frontend.statements import CreateView  # noqa: E402
from viewlet_bench.spark import TABLE_3  # noqa: E402

# Of each table the rows that come and the rows that go, as positions.
Moves = dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]


def moves(sizes: Mapping[str, int], batch: int, seed: int) -> Iterator[tuple[bool, Moves]]:
    """Batches over all tables in proportion, and whether every row has come with this one."""
    rng = np.random.default_rng(seed)
    order = {name: rng.permutation(size) for name, size in sizes.items()}
    count = max(1, -(-sum(sizes.values()) // batch))
    left: dict[str, list[NDArray[np.int64]]] = {name: [] for name in sizes}
    for number in range(count):
        made: Moves = {}
        for name, rows in order.items():
            low, high = (len(rows) * (number + k) // count for k in (0, 1))
            past = len(rows) * max(number - 1, 0) // count
            gone = (low - past) // 10
            made[name] = rows[low:high], rows[past : past + gone]
            left[name].append(rows[past + gone : low])
        yield number == count - 1, made
    none = np.zeros(0, np.int64)
    last = {name: rows[len(rows) * (count - 1) // count :] for name, rows in order.items()}
    going = {
        name: (kept := rng.permutation(np.concatenate([*left[name], last[name]])))[: len(kept) // 3]
        for name in sizes
    }
    count = max(1, -(-sum(map(len, going.values())) // batch))
    for number in range(count):
        yield (
            False,
            {
                name: (none, rows[len(rows) * number // count : len(rows) * (number + 1) // count])
                for name, rows in going.items()
            },
        )


def changes_of(made: Moves, tables: Mapping[str, pa.Table]) -> list[viewlet.Change]:
    return [
        viewlet.Change(name, tables[name].take(rows), weight)
        for name, both in made.items()
        for rows, weight in zip(both, (1, -1), strict=True)
        if len(rows)
    ]


class Oracle:
    """DuckDB over the rows that are there."""

    def __init__(self, tables: Mapping[str, pa.Table], views: list[CreateView]) -> None:
        self._duckdb = duckdb.connect(config={"threads": 1})
        self._tables = tables
        self._there = {name: np.zeros(t.num_rows, bool) for name, t in tables.items()}
        self.fill()
        for view in views:
            body = re.sub(r"(?i)^create\s+(materialized\s+)?view", "", view.text.strip())
            self._duckdb.execute(f"CREATE VIEW {body}")

    def apply(self, made: Moves) -> None:
        for name, (came, went) in made.items():
            self._there[name][came] = True
            self._there[name][went] = False

    def fill(self) -> None:
        for name, table in self._tables.items():
            self._duckdb.register("rows", table.filter(pa.array(self._there[name])))
            self._duckdb.execute(f"CREATE OR REPLACE TABLE {name} AS FROM rows")

    def agrees(self, view: str, ours: list[tuple[Any, ...]]) -> bool:
        """`fill` must have run since the last change."""
        theirs = self._duckdb.execute(f"SELECT * FROM {view}").fetchall()
        left, right = sorted(ours, key=_order), sorted(theirs, key=_order)
        return len(left) == len(right) and all(map(same_row, left, right))


def plain(table: pa.Table) -> pa.Table:
    """Strings as Arrow's kernels know them: some writers leave views, which `take` does not."""
    fields = [
        pa.field(f.name, pa.string()) if pa.types.is_string_view(f.type) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


def run(names: list[str], options: argparse.Namespace, spark: Any) -> dict[str, Any]:
    started = time.perf_counter()
    texts, catalog = schema_of("tpch")
    views = [view for name in names for view in views_of("tpch", name)]
    answers = [views_of("tpch", name)[-1].name for name in names]
    text = "".join((SQL / "tpch" / f"{name}.sql").read_text() for name in names)
    tables, static = {}, {}
    for relation in catalog:
        if re.search(rf"\b{relation.name}\b", text):
            found = plain(pq.read_table(options.directory / f"{relation.name}.parquet"))
            kind = static if relation.static else tables
            kind[relation.name] = found.slice(0, options.rows) if options.rows else found
    oracle = Oracle(tables | static, views)
    oracle.apply({n: (np.arange(t.num_rows), np.zeros(0, int)) for n, t in static.items()})
    seconds: list[float] = []
    differ: list[str] = []
    compared: list[int] = []
    most = dict.fromkeys(answers, 0)
    worst, inserted, deleted = (0, 0), 0, 0
    with viewlet.connect("spark", spark=spark, partitions=options.partitions) as database:
        for text in texts:
            database.execute(text)
        for name, table in static.items():
            database.insert(name, table)
        database.execute(";\n".join(view.text.strip().rstrip(";") for view in views))
        sizes = {name: table.num_rows for name, table in tables.items()}
        batches = list(moves(sizes, options.batch, 1))
        for number, (complete, made) in enumerate(batches, 1):
            changes = changes_of(made, tables)
            start = time.perf_counter()
            database.apply(changes)
            seconds.append(time.perf_counter() - start)
            ran = database._engine.metrics()  # type: ignore[attr-defined]
            worst = max(worst[0], ran.jobs), max(worst[1], ran.stages)
            oracle.apply(made)
            inserted += sum(len(came) for came, _ in made.values())
            deleted += sum(len(went) for _, went in made.values())
            if complete or number % options.compare == 0 or number == len(batches):
                oracle.fill()
                compared.append(number)
                for view in answers:
                    ours = [tuple(row) for row in database.view(view).rows()]
                    most[view] = max(most[view], len(ours))
                    if not oracle.agrees(view, ours):
                        differ.append(f"{view} after batch {number}")
    limits = TABLE_3[names[0]]
    counts = {
        "table_3": limits,
        "within_table_3": worst[0] <= limits[0] and worst[1] <= limits[1],
    }
    return {
        "query": "+".join(names),
        "equal": not differ,
        "differ": differ,
        "compared_after": compared,
        "most_rows": most,
        "batches": len(seconds),
        "inserted": inserted,
        "deleted": deleted,
        "jobs": worst[0],
        "stages": worst[1],
        **(counts if len(names) == 1 else {}),
        "first_s": round(seconds[0], 2),
        "p50_ms": round(1000 * statistics.median(seconds[1:] or seconds), 1),
        "seconds": round(time.perf_counter() - started, 1),
    }


def _order(row: tuple[Any, ...]) -> list[tuple[bool, str]]:
    return [(v is None, str(round(v, 4)) if isinstance(v, float) else str(v)) for v in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--queries", default=",".join(TABLE_3))
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--compare", type=int, default=30)
    parser.add_argument("--rows", type=int, default=0, help="only the first rows of each table")
    options = parser.parse_args()
    spark = spark_session(cores=2)
    spark.sparkContext.setLogLevel("OFF")
    failed = 0
    for query in options.queries.split(","):
        try:
            found = run(query.split("+"), options, spark)
        except Exception as problem:
            found = {
                "query": query,
                "equal": False,
                "failed": f"{type(problem).__name__}: {problem}",
            }
        failed += not (found["equal"] and found.get("within_table_3", True))
        print(json.dumps(found), flush=True)
    spark.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
