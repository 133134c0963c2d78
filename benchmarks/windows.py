"""Batches of 1,000 rows into one partition that grows from 1,000 to 1,000,000 rows.

    python benchmarks/windows.py [--sizes 1000,10000] [names]

A row for each query and size, in milliseconds of CPU, the median of five batches:

    viewlet    db.insert of the batch, with the view's answer current after it
    DuckDB     the query over all rows anew
    partition  what products do that recompute partitions: the query over the partition, and the
               difference to the answer from before, by which the view changes
    changed    rows of the answer that the batch changes, of both signs

Rows come in any order, but where a name says that they are appended behind all others. The batch's
cost may grow with `changed`, and by at most 2 with the partition.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

import duckdb
import pyarrow as pa

import viewlet

TABLE = "CREATE TABLE t (id INT NOT NULL, g INT NOT NULL, o INT NOT NULL, x INT, PRIMARY KEY (id))"
APPENDED = ", appended"
QUERIES = {
    "ROW_NUMBER <= 10": "SELECT id, g, o FROM t QUALIFY "
    "ROW_NUMBER() OVER (PARTITION BY g ORDER BY o DESC, id) <= 10",
    "RANK <= 10": "SELECT id, g, o FROM t QUALIFY "
    "RANK() OVER (PARTITION BY g ORDER BY o DESC) <= 10",
    "DISTINCT ON": "SELECT DISTINCT ON (g) g, id, o FROM t ORDER BY g, o DESC, id",
    "LIMIT 10": "SELECT id, o FROM (SELECT id, o FROM t ORDER BY o, id LIMIT 10) q",
    "o = (SELECT MAX(o))": "SELECT id, o FROM t a WHERE o = "
    "(SELECT MAX(o) FROM t b WHERE b.g = a.g)",
    "NOT EXISTS greater": "SELECT id, o FROM t a WHERE NOT EXISTS "
    "(SELECT 1 FROM t b WHERE b.g = a.g AND b.o > a.o)",
    "JOIN grouped MAX": "SELECT a.id, a.o FROM t a JOIN "
    "(SELECT g, MAX(o) AS m FROM t GROUP BY g) q ON q.g = a.g AND q.m = a.o",
    "MEDIAN": "SELECT g, MEDIAN(o) AS m FROM t GROUP BY g",
    "PERCENTILE_CONT": "SELECT g, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY o) AS m "
    "FROM t GROUP BY g",
    "MODE": "SELECT g, MODE(x) AS m FROM t GROUP BY g",
    "ARG_MAX": "SELECT g, ARG_MAX(id, o) AS m FROM t GROUP BY g",
    "LAG": "SELECT id, LAG(x) OVER (PARTITION BY g ORDER BY o, id) AS p FROM t",
    "LEAD": "SELECT id, o, LEAD(o, 2) OVER (PARTITION BY g ORDER BY o, id) AS p FROM t",
    "ROWS 6 PRECEDING": "SELECT id, SUM(x) OVER (PARTITION BY g ORDER BY o, id "
    "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS s FROM t",
    "running SUM" + APPENDED: "SELECT id, SUM(x) OVER (PARTITION BY g ORDER BY o) AS s FROM t",
    "ROW_NUMBER" + APPENDED: "SELECT id, ROW_NUMBER() OVER (PARTITION BY g ORDER BY o, id) AS n "
    "FROM t",
    "RANGE 500 PRECEDING" + APPENDED: "SELECT id, SUM(x) OVER (PARTITION BY g ORDER BY o "
    "RANGE BETWEEN 500 PRECEDING AND CURRENT ROW) AS s FROM t",
    "NTILE(4)": "SELECT id, NTILE(4) OVER (PARTITION BY g ORDER BY o, id) AS n FROM t",
    "running SUM": "SELECT id, SUM(x) OVER (PARTITION BY g ORDER BY o) AS s FROM t",
}
ASKED = {"NOT EXISTS greater": QUERIES["o = (SELECT MAX(o))"]}
"""What DuckDB is asked instead of queries that it answers in quadratic time."""

SIZES = (1_000, 10_000, 100_000, 1_000_000)
BATCH = 1_000
BATCHES = 5


def rows(first: int, count: int, choose: random.Random, *, is_last: bool) -> list[tuple[int, ...]]:
    """Rows of one partition, in any order or behind all others."""
    return [
        (i, 1, 10**8 + i if is_last else choose.randrange(10**8), i % 7)
        for i in range(first, first + count)
    ]


def milliseconds(work: Callable[[], object]) -> float:
    """The CPU time that something takes, on all threads."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


class Peer:
    """A view that is kept by recomputing the partitions of a batch, over DuckDB."""

    def __init__(self, query: str) -> None:
        self.database = duckdb.connect()
        self.database.execute("SET threads = 1")
        self.database.execute(TABLE)
        self.query = query
        self.changed = 0

    def load(self, batch: list[tuple[int, ...]]) -> None:
        """The rows, without a view."""
        columns = list(zip(*batch, strict=True))
        names = dict(zip(("id", "g", "o", "x"), columns, strict=True))
        arrow = pa.table(names)
        self.database.register("batch", arrow)
        self.database.execute("INSERT INTO t SELECT * FROM batch")

    def start(self) -> None:
        """The view's first answer."""
        self.database.execute(f"CREATE OR REPLACE TABLE answer AS {self.query}")

    def recompute_all(self) -> None:
        """The query, as somebody asks it who has no views."""
        self.database.execute(self.query).to_arrow_table()

    def recompute_partition(self) -> None:
        """The partition anew, and what it changes in the answer."""
        run = self.database.execute
        run(f"CREATE OR REPLACE TABLE fresh AS {self.query}")
        more = run("SELECT COUNT(*) FROM (FROM fresh EXCEPT ALL FROM answer)").fetchall()[0][0]
        less = run("SELECT COUNT(*) FROM (FROM answer EXCEPT ALL FROM fresh)").fetchall()[0][0]
        run("DROP TABLE answer")
        run("ALTER TABLE fresh RENAME TO answer")
        self.changed = more + less


def measure(name: str, size: int) -> tuple[float, float, float, float]:
    """Milliseconds of a batch: viewlet's, DuckDB's, and a peer's; and the rows that it changes."""
    choose, is_last = random.Random(1), name.endswith(APPENDED)
    query, peer = QUERIES[name], Peer(ASKED.get(name, QUERIES[name]))
    db = viewlet.connect()
    db.execute(TABLE)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    db.insert("t", [(-1, 0, 0, 0)])
    first = rows(0, size, choose, is_last=is_last)
    db.insert("t", first)
    peer.load([(-1, 0, 0, 0), *first])
    peer.start()
    ours, asked, theirs, changed = [], [], [], []
    for at in range(size, size + (BATCHES + 1) * BATCH, BATCH):
        batch = rows(at, BATCH, choose, is_last=is_last)
        ours.append(milliseconds(lambda batch=batch: db.insert("t", batch)))  # type: ignore[misc]
        peer.load(batch)
        asked.append(milliseconds(peer.recompute_all))
        theirs.append(milliseconds(peer.recompute_partition))
        changed.append(float(peer.changed))
    medians = [statistics.median(values[1:]) for values in (ours, asked, theirs, changed)]
    return medians[0], medians[1], medians[2], medians[3]


def main() -> None:
    """The table."""
    options = argparse.ArgumentParser()
    options.add_argument("--sizes", default=",".join(map(str, SIZES)))
    options.add_argument("names", nargs="*")
    chosen = options.parse_args()
    sizes = [int(size) for size in chosen.sizes.split(",")]
    print("| query | rows | viewlet ms | DuckDB ms | partition ms | changed |")
    print("|---|---|---|---|---|---|")
    for name in chosen.names or QUERIES:
        costs = []
        for size in sizes:
            ours, asked, theirs, changed = measure(name, size)
            costs.append(ours)
            print(
                f"| {name} | {size:,} | {ours:.2f} | {asked:.1f} | {theirs:.1f} | {changed:,.0f} |",
                flush=True,
            )
        print(f"| {name} | last / first | {costs[-1] / costs[0]:.2f} | | | |", flush=True)


if __name__ == "__main__":
    main()
