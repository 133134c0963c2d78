"""TPC-H on Spark in batches of inserts and deletes: equal to DuckDB, jobs and stages counted.

usage: python benchmarks/spark_conformance.py DIRECTORY [--queries q1,q3] [--batch 10000]
           [--partitions 2] [--rows N]

DIRECTORY holds the tables as Parquet, as tpcgen-cli writes them. Every table's rows come in random
order, all tables together; each batch also takes back a tenth of the rows of the one before. The
view is compared with DuckDB over the same rows at the end.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.frontend.oracle import SQL  # noqa: E402
from tests.oracle.harness import same_row  # noqa: E402
from tests.oracle.test_named import schema_of, views_of  # noqa: E402

import viewlet  # noqa: E402
from viewlet.runtime.session import spark_session  # noqa: E402

# Table 3 of the paper: jobs and stages for each batch.
TABLE3 = {
    "q1": (1, 1), "q2": (1, 3), "q3": (1, 3), "q4": (1, 2), "q5": (2, 5), "q6": (1, 1),
    "q7": (3, 6), "q8": (2, 6), "q9": (3, 7), "q10": (1, 3), "q11": (2, 4), "q12": (1, 2),
    "q13": (2, 4), "q14": (1, 2), "q15": (1, 3), "q16": (3, 5), "q17": (1, 2), "q18": (1, 3),
    "q19": (1, 2), "q20": (1, 3), "q21": (2, 4), "q22": (2, 3),
}  # fmt: skip


def batches(tables: dict[str, pa.Table], size: int, seed: int) -> Any:
    """Slices of all tables in proportion, each with a tenth of an earlier slice taken back."""
    rng = np.random.default_rng(seed)
    shuffled = {n: t.take(rng.permutation(t.num_rows)) for n, t in tables.items()}
    total = sum(t.num_rows for t in tables.values())
    count = max(1, -(-total // size))
    for number in range(count):
        changes = []
        for name, table in shuffled.items():
            low, high = (table.num_rows * (number + k) // count for k in (0, 1))
            if high > low:
                changes.append(viewlet.Change(name, table.slice(low, high - low), 1))
            if number:
                past = table.num_rows * (number - 1) // count
                gone = (table.num_rows * number // count - past) // 10
                if gone:
                    changes.append(viewlet.Change(name, table.slice(past, gone), -1))
        yield changes


def plain(table: pa.Table) -> pa.Table:
    """Strings as Arrow's kernels know them: some writers leave views, which `take` does not."""
    fields = [
        pa.field(f.name, pa.string()) if pa.types.is_string_view(f.type) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


def run(query: str, options: argparse.Namespace, spark: Any) -> dict[str, Any]:
    texts, catalog = schema_of("tpch")
    views = views_of("tpch", query)
    text = (SQL / "tpch" / f"{query}.sql").read_text()
    used = {r.name for r in catalog if re.search(rf"\b{r.name}\b", text)}
    tables = {}
    for relation in catalog:
        if relation.name in used:
            found = plain(pq.read_table(options.directory / f"{relation.name}.parquet"))
            tables[relation.name] = found.slice(0, options.rows) if options.rows else found
    oracle = duckdb.connect()
    seconds: list[float] = []
    worst = (0, 0)
    with viewlet.connect("spark", spark=spark, partitions=options.partitions) as database:
        for text in texts:
            database.execute(text)
        held: dict[str, list[pa.Table]] = {name: [] for name in tables}
        gone: dict[str, list[pa.Table]] = {name: [] for name in tables}
        for relation in catalog:
            if relation.static and relation.name in tables:
                database.insert(relation.name, tables[relation.name])
                oracle.register(relation.name, tables.pop(relation.name))
        database.execute(";\n".join(view.text.strip().rstrip(";") for view in views))
        for changes in batches(tables, options.batch, 1):
            start = time.perf_counter()
            database.apply(changes)
            seconds.append(time.perf_counter() - start)
            metrics = database._engine.metrics()  # type: ignore[attr-defined]
            worst = max(worst[0], metrics.jobs), max(worst[1], metrics.stages)
            for change in changes:
                (held if change.weights == 1 else gone)[change.relation].append(change.rows)
        for name in tables:
            oracle.register("came", pa.concat_tables(held[name]))
            if gone[name]:
                oracle.register("went", pa.concat_tables(gone[name]))
                oracle.execute(f"CREATE TABLE {name} AS FROM came EXCEPT ALL FROM went")
            else:
                oracle.execute(f"CREATE TABLE {name} AS FROM came")
        for view in views:
            body = re.sub(r"(?i)^create\s+(materialized\s+)?view", "", view.text.strip())
            oracle.execute(f"CREATE VIEW {body}")
        ours = [tuple(row) for row in database.view(views[-1].name).rows()]
    theirs = oracle.execute(f"SELECT * FROM {views[-1].name}").fetchall()
    left, right = sorted(ours, key=_order), sorted(theirs, key=_order)
    equal = len(left) == len(right) and all(map(same_row, left, right))
    return {
        "query": query,
        "equal": equal,
        "rows": len(ours),
        "batches": len(seconds),
        "jobs": worst[0],
        "stages": worst[1],
        "within_table_3": worst[0] <= TABLE3[query][0] and worst[1] <= TABLE3[query][1],
        "first_s": round(seconds[0], 2),
        "p50_ms": round(1000 * statistics.median(seconds[1:] or seconds), 1),
    }


def _order(row: tuple[Any, ...]) -> list[tuple[bool, str]]:
    return [(v is None, str(round(v, 4)) if isinstance(v, float) else str(v)) for v in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--queries", default=",".join(TABLE3))
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rows", type=int, default=0, help="only the first rows of each table")
    options = parser.parse_args()
    spark = spark_session(cores=2)
    spark.sparkContext.setLogLevel("OFF")
    for query in options.queries.split(","):
        print(json.dumps(run(query, options, spark)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
