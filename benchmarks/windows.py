"""Batches of 1,000 rows into one partition of 1 k, 10 k and 100 k rows, beside DuckDB recomputing.

    python benchmarks/windows.py [names]

Prints for each query and size the median of five batches: viewlet's, DuckDB's over all rows, and
DuckDB's ratio. The first load compiles the view and is not shown.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable

import duckdb

import viewlet

TABLE = "CREATE TABLE t (id INT NOT NULL, g INT NOT NULL, o INT, x INT, PRIMARY KEY (id))"
APPENDED = "running sum, appended"
QUERIES = {
    "row_number <= 10": "SELECT id, g, o FROM t QUALIFY "
    "ROW_NUMBER() OVER (PARTITION BY g ORDER BY o DESC, id) <= 10",
    "rank <= 10": "SELECT id, g, o FROM t QUALIFY "
    "RANK() OVER (PARTITION BY g ORDER BY o DESC) <= 10",
    "limit 10": "SELECT id, o FROM (SELECT id, o FROM t ORDER BY o, id LIMIT 10) q",
    "median": "SELECT g, MEDIAN(o) AS m FROM t GROUP BY g",
    "arg_max": "SELECT g, ARG_MAX(id, o) AS m FROM t GROUP BY g",
    APPENDED: "SELECT id, SUM(x) OVER (PARTITION BY g ORDER BY o) AS s FROM t",
}
SIZES = (1_000, 10_000, 100_000)
BATCH = 1_000


def rows(first: int, count: int, choose: random.Random, is_last: bool) -> list[tuple[int, ...]]:
    """Rows of one partition, in any order or behind all others."""
    return [
        (i, 1, 10**6 + i if is_last else choose.randrange(10**6), i % 7)
        for i in range(first, first + count)
    ]


def seconds(work: Callable[[], object]) -> float:
    """How long something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(name: str, size: int) -> tuple[float, float]:
    """Milliseconds of a batch: viewlet's, and DuckDB's over everything."""
    choose, is_last = random.Random(1), name == APPENDED
    db, oracle = viewlet.connect(), duckdb.connect()
    db.execute(TABLE)
    oracle.execute(TABLE)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES[name]}")
    db.insert("t", rows(0, size, choose, is_last))
    oracle.execute(f"INSERT INTO t SELECT i, 1, hash(i) % 1000000, i % 7 FROM range({size}) n(i)")
    ours, theirs = [], []
    for at in range(size, size + 6 * BATCH, BATCH):
        batch = rows(at, BATCH, choose, is_last)
        ours.append(seconds(lambda batch=batch: db.insert("t", batch)))  # type: ignore[misc]
        theirs.append(seconds(lambda: oracle.execute(QUERIES[name]).fetchall()))
    return 1e3 * statistics.median(ours[1:]), 1e3 * statistics.median(theirs[1:])


def main() -> None:
    """The table."""
    print(f"{'':24}{'rows':>10}{'viewlet ms':>14}{'DuckDB ms':>14}{'ratio':>10}")
    for name in sys.argv[1:] or QUERIES:
        for size in SIZES:
            ours, theirs = measure(name, size)
            print(f"{name:24}{size:>10}{ours:>14.2f}{theirs:>14.2f}{theirs / ours:>10.1f}")


if __name__ == "__main__":
    main()
